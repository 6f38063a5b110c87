"""The page of a process instance, whichever app gives its id: its jobs in all tables, its runs, log and incidents."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.db import router
from django.db.models import CharField, QuerySet, Value
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.dateparse import parse_datetime
from django.utils.formats import number_format
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec import clock, operations
from jobexec.exceptions import JobExecError
from jobexec.models import (
    JOB_TABLES,
    WAITING_TABLES,
    AuditLog,
    ExecutorNode,
    ExternalWorkerJob,
    Incident,
    IncidentState,
    Job,
    JobLog,
    LogState,
    SuspensionScope,
)
from jobexec.operations.batches.control import start_batch
from jobexec.operations.manage.verbs import VERBS

from ..common import display
from ..common.actions import meant_jobs
from ..common.batching import BATCH_ABOVE
from ..common.incident_columns import incident_badge
from ..common.instance_pages import INSTANCE_PAGES
from ..common.job_columns import state_badge, visible_calls
from ..common.job_log_columns import log_badge
from ..common.page_links import instance_url
from ..common.paging import CappedCount
from . import gantt
from .base import Page

JOBS_SHOWN = 100
LOG_SHOWN = 200
INCIDENTS_SHOWN = 20
GANTT_SHOWN = 50
_COLUMNS = (
    *("pk", "handler_type", "lock_owner", "lock_expiration_time", "attempts", "retries"),
    *("cancel_requested", "suspend_requested", "due_date", "exception_message"),
)
_KINDS = {LogState.SUCCESSFUL: "ok", LogState.FAILED: "bad", LogState.CANCELLED: "off"}


def instance_view(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """The page; POST asks for, and with ``_apply`` does, the cancellation of its jobs."""
    instance, tenant = request.GET.get("id", ""), request.GET.get("tenant")
    if not instance or "\0" in instance or "\0" in (tenant or ""):
        raise Http404
    page = _Instance(request, site, instance, tenant)
    return page.cancel() if request.method == "POST" else page.response()


class _Instance(Page):
    def __init__(self, request: HttpRequest, site: AdminSite, instance: str, tenant: str | None) -> None:
        using = router.db_for_write(Job) if request.method == "POST" else router.db_for_read(Job)
        super().__init__(request, site, using)
        self.instance, self.tenant = instance, tenant
        self.now = clock.now(using)
        self.calls: dict[UUID, str] = {}

    def rows(self, table: type[Any]) -> QuerySet[Any] | None:
        """The rows of the instance that the user may see in this table."""
        admin = self.admin(table)
        if admin is None:
            return None
        rows = admin.get_queryset(self.request).using(self.using).filter(process_instance_id=self.instance)
        return rows if self.tenant is None else rows.filter(tenant_id=self.tenant)

    def response(self) -> HttpResponse:
        log = self.rows(JobLog)
        visible = [table for table in JOB_TABLES if self.admin(table) is not None]
        if not visible and log is None:
            raise PermissionDenied
        entries = [] if log is None else list(log.defer("exception_stack").order_by("-pk")[: LOG_SHOWN + 1])
        entries.sort(key=lambda entry: entry.timestamp, reverse=True)  # of several nodes, written in groups
        found, opened, links = self.job_rows(), self.incident_rows(), self.links()
        if self.tenants is not None and not (entries or found or opened):
            raise Http404  # the same answer for instances that never existed and for those of other tenants
        named = {row.pk for row in found or ()} | {each.job_id for each in (*entries, *(opened or ())) if each.job_id}
        self.calls = visible_calls(self.request, self.site, named, self.using)
        jobs = None if found is None else [self.job(row) for row in found]
        return self.render(
            "admin/jobexec/pages/instance.html",
            _("Process instance %(id)s") % {"id": self.instance},
            {
                "instance": self.instance,
                "links": links,
                "suspension": self.suspension(SuspensionScope.PROCESS_INSTANCE, self.instance),
                # An app whose steps are jobs cancels its instances itself.
                "may_cancel": self.may("cancel_job") and not links and any(each["waits"] for each in jobs or []),
                "jobs": None if jobs is None else jobs[:JOBS_SHOWN],
                "lists": self.lists(),
                "incidents": None if opened is None else [self.incident(each) for each in opened],
                "log": None if log is None else [self.entry(each) for each in entries[:LOG_SHOWN]],
                "more_log": len(entries) > LOG_SHOWN,
                "log_url": self.visible.list(JobLog, q=self.instance),
                "audit_url": self.visible.list(AuditLog, q=self.instance),
                "gantt": self.chart(entries[:LOG_SHOWN]),
            },
        )

    def links(self) -> list[Any]:
        found = (page(self.request, self.site, self.instance, self.using) for page in INSTANCE_PAGES)
        return [link for link in found if link is not None]

    def call(self, handler_type: str, job: UUID | None) -> SafeString:
        """The call of a job; only its handler if the job is gone."""
        return display.call(handler_type, self.calls.get(job, "") if job else "")

    def job_rows(self) -> list[Any] | None:
        """The first jobs of all tables, in one statement without an order over all: there may be very many."""
        tables = [(table, self.rows(table)) for table in JOB_TABLES]
        parts = [
            rows.order_by()
            .annotate(in_table=Value(table.state, output_field=CharField()))
            .values_list("in_table", *_COLUMNS)
            for table, rows in tables
            if rows is not None
        ]
        if not parts:
            return None
        first, *others = parts
        found = list((first.union(*others, all=True) if others else first)[: JOBS_SHOWN + 1])
        return sorted((self._row(*each) for each in found), key=lambda row: str(row.pk))

    def _row(self, state: str, *values: Any) -> Any:
        table = next(table for table in JOB_TABLES if table.state == state)
        row = table(**dict(zip(("id", *_COLUMNS[1:]), values, strict=True)))
        row._state.db = self.using
        if isinstance(row, ExternalWorkerJob):
            row.available_at = row.due_date
        return row

    def job(self, row: Any) -> dict[str, Any]:
        return {
            "link": display.job_link(row.pk, self.site.name),
            "handler": self.call(row.handler_type, row.pk),
            "badge": state_badge(row),
            "waits": type(row) in WAITING_TABLES,
            "lock": display.lock_owner(row.lock_owner),
            "due": display.relative(row.due_date, self.now),
            "attempts": row.attempts,
            "retries": row.retries,
            "exception": display.shortened(row.exception_message, 100) if row.exception_message else "",
        }

    def lists(self) -> list[dict[str, Any]]:
        """Each table in which it has jobs, with their number."""
        found = []
        for table in JOB_TABLES:
            rows = self.rows(table)
            count = CappedCount.of(rows) if rows is not None else None
            if count:
                name = capfirst(str(table._meta.verbose_name_plural))
                found.append({"name": name, "count": count, "url": self.visible.list(table, q=self.instance)})
        return found

    def incident_rows(self) -> list[Incident] | None:
        rows = self.rows(Incident)
        return None if rows is None else list(rows.order_by("-timestamp")[:INCIDENTS_SHOWN])

    def incident(self, incident: Incident) -> dict[str, Any]:
        return {
            "url": self.visible.page(Incident, incident.pk),
            "badge": incident_badge(incident),
            "handler": self.call(incident.handler_type, incident.job_id),
            "time": display.relative(incident.timestamp, self.now),
            "message": display.shortened(incident.message, 120),
            "open": incident.state == IncidentState.OPEN,
            "annotation": incident.annotation,
        }

    def entry(self, entry: JobLog) -> dict[str, Any]:
        return {
            "time": display.absolute(entry.timestamp),
            "badge": log_badge(entry),
            "handler": self.call(entry.handler_type, entry.job_id),
            "job": display.job_link(entry.job_id, self.site.name),
            "attempt": entry.attempt or "",
            "node": entry.node,
            "duration": "" if entry.duration is None else display.duration(entry.duration),
            "message": display.shortened(entry.exception_message, 100) if entry.exception_message else "",
        }

    # The runs over time.

    def chart(self, entries: list[JobLog]) -> dict[str, Any] | None:
        """The runs of the latest jobs, one line for each job, the first above."""
        lines: dict[UUID, tuple[str, list[gantt.Bar]]] = {}
        for job, handler, bar in [*self._ended(entries), *self._going_on()]:
            lines.setdefault(job, (handler, []))[1].append(bar)
        if not lines:
            return None
        first = sorted(lines.items(), key=lambda line: min(bar.begin for bar in line[1][1]))
        shown = first[-GANTT_SHOWN:]
        bars = [bar for _job, (_handler, found) in shown for bar in found]
        axis = gantt.Axis(bars)
        cuts = [
            _("%(time)s without a run") % {"time": display.duration(pause.total_seconds())}
            for _place, pause in axis.cuts
        ]
        return {
            "rows": [
                {
                    "job": display.job_link(job, self.site.name),
                    "handler": self.call(handler, job),
                    "bars": gantt.drawn(found, axis, "; ".join(bar.tip for bar in found)),
                }
                for job, (handler, found) in shown
            ],
            "from": display.absolute(min(bar.begin for bar in bars)),
            "until": display.absolute(max(bar.end for bar in bars)),
            "cuts": cuts,
            "more": len(first) > len(shown),
        }

    def _ended(self, entries: list[JobLog]) -> Iterator[tuple[UUID, str, gantt.Bar]]:
        for entry in entries:
            kind = _KINDS.get(LogState(entry.state)) if entry.state in LogState.values else None
            if kind is None or entry.duration is None:
                continue
            begin = entry.timestamp - timedelta(seconds=entry.duration)
            text = _("attempt %(attempt)d: %(state)s after %(time)s")
            values = {
                "attempt": entry.attempt,
                "state": entry.get_state_display(),
                "time": display.duration(entry.duration),
            }
            yield entry.job_id, entry.handler_type, gantt.Bar(begin, entry.timestamp, kind, text % values)

    def _going_on(self) -> Iterator[tuple[UUID, str, gantt.Bar]]:
        """The jobs of the instance that nodes report as running."""
        rows = self.rows(Job)
        held = (
            [] if rows is None else list(rows.exclude(lock_owner=None).values_list("pk", "handler_type")[:JOBS_SHOWN])
        )
        if not held:
            return
        nodes = ExecutorNode.objects.using(self.using).values_list("running", flat=True)
        since: dict[str, datetime | None] = {}
        for reported in nodes:
            for each in reported if isinstance(reported, list) else []:
                since[str(each.get("job"))] = parse_datetime(str(each.get("since")))
        for job, handler in held:
            begin = since.get(str(job))
            if begin is not None:
                text = _("running for %(time)s") % {"time": display.duration((self.now - begin).total_seconds())}
                yield job, handler, gantt.Bar(begin, max(begin, self.now), "work", text)

    # Cancelling.

    def cancel(self) -> HttpResponse:
        """Ask, or cancel its waiting and running jobs; a batch for each table if there are many."""
        tables = [(table, rows) for table in WAITING_TABLES if (rows := self.rows(table)) is not None]
        if not self.may("cancel_job") or not tables:
            raise PermissionDenied
        back = instance_url(self.site.name, self.instance, self.tenant or "")
        if self.tenant is None:
            back = f"{self.request.path}?{self.request.GET.urlencode()}"
        if self.links():
            messages.error(self.request, _("Its jobs drive it forward: cancel it on its own page."))
            return HttpResponseRedirect(back)
        if "_apply" in self.request.POST:
            try:
                self._cancel([rows for _table, rows in tables])
            except JobExecError as error:
                messages.error(self.request, str(error))
            return HttpResponseRedirect(back)
        return self.render(
            "admin/jobexec/pages/cancel_instance.html",
            _("Cancel"),
            {
                "instance": self.instance,
                "warning": VERBS["cancel"].warning,
                "meant": meant_jobs(*(rows for _table, rows in tables)),
                "back": back,
                "count": CappedCount.total(*(CappedCount.of(rows) for _table, rows in tables)),
            },
        )

    def _cancel(self, parts: list[QuerySet[Any]]) -> None:
        ids: list[UUID] = []
        for rows in parts:
            ids += rows.order_by().values_list("pk", flat=True)[: BATCH_ABOVE + 1]
        if len(ids) > BATCH_ABOVE:
            user = self.request.user.get_username()
            batches = [
                start_batch("cancel", rows.order_by().defer(None), arguments={}, using=self.using, user=user)
                for rows in parts
                if rows.exists()
            ]
            text = ngettext("%(count)d batch cancels its jobs.", "%(count)d batches cancel its jobs.", len(batches))
            messages.success(self.request, text % {"count": len(batches)})
            return
        result = operations.cancel(ids, using=self.using)
        count = len(result.changed)
        messages.success(self.request, VERBS["cancel"].done(count, {}))
        for reason in sorted(set(result.skipped.values())):
            left = sum(each == reason for each in result.skipped.values())
            text = ngettext("%(count)s job skipped: %(reason)s", "%(count)s jobs skipped: %(reason)s", left)
            messages.warning(self.request, text % {"count": number_format(left), "reason": reason})
