"""The data around a job on its page: its siblings, lock, incidents, batch, and group of failures."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import CharField, Model, Value
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobexec.conf import get_settings
from jobexec.models import (
    JOB_TABLES,
    AbstractJob,
    Batch,
    ExclusiveLock,
    ExecutorNode,
    ExternalWorkerJob,
    FailureGroup,
    Incident,
    JobKey,
    JobLog,
    Schedule,
    ScheduleFiring,
    TaskResult,
)
from jobexec.operations.rows.external_exclusive import owner_of
from jobexec.operations.why.explain import why
from jobexec.operations.why.facts import Reason
from jobexec.redaction import PLACE, calls_of, with_short_arguments

from ..common import display
from ..common.base import TableAdmin
from ..common.incident_columns import incident_badge
from ..common.instance_pages import INSTANCE_PAGES
from ..common.job_columns import state_badge
from .location import found_job

SIBLINGS_SHOWN = 10
INCIDENTS_SHOWN = 5
_IN_INSTANCES: tuple[type[Model], ...] = (*JOB_TABLES, JobLog)
_COLUMNS = (
    *("pk", "handler_type", "job_key", "lock_owner", "lock_expiration_time", "attempts"),
    *("cancel_requested", "suspend_requested", "due_date", "exception_message"),
    *PLACE,
)


@dataclass(frozen=True, slots=True)
class Lock:
    """The owner of the job, since when it holds the job, and how long the lock is valid."""

    owner: str | SafeString
    since: SafeString | None
    """None if unknown."""
    good: SafeString


class Surroundings:
    """Reads other tables through their own admins, so that it shows only what the user may see there."""

    def __init__(self, page: TableAdmin, request: HttpRequest, job: AbstractJob) -> None:
        self._page, self._request, self._job = page, request, job

    def context(self) -> dict[str, Any]:
        siblings = self.siblings()
        return {
            "reasons": self.reasons(),
            "lock": self.lock(),
            "siblings": siblings[:SIBLINGS_SHOWN],
            "more_siblings": len(siblings) > SIBLINGS_SHOWN,
            "sibling_lists": self.sibling_lists(),
            "incidents": self.incidents(),
            "links": self.links(),
        }

    def _admin(self, table: type[Model]) -> TableAdmin | None:
        return self._page.other(table, self._request)

    def reasons(self) -> list[str]:
        """Why the job is not running, the decisive reason first."""
        found = why(self._job.pk, using=self._job._state.db or "default").reasons
        return [text for reason in found if (text := self._told(reason))]

    def _told(self, reason: Reason) -> str:
        other = reason.details.get("job")
        if other and found_job(self._request, UUID(other), self._job._state.db or "default") is None:
            return _("It is exclusive, and a node holds another job of its process instance.")
        return reason.told(lambda table: self._admin(table) is not None)

    def lock(self) -> Lock | None:
        """The lock of the job; None if it is free."""
        job = self._job
        if job.lock_owner is None:
            return None
        using, now = job._state.db or "default", display.now(job)
        node = ExecutorNode.objects.using(using).filter(lock_owner=job.lock_owner).told_apart().first()
        nodes = self._admin(ExecutorNode)
        if isinstance(job, ExternalWorkerJob):
            since = self._instance_locked_at(using, owner_of(job.pk))
            return Lock(job.lock_owner, display.age(since, now) if since else None, _deadline(job, now))
        owner = display.lock_owner(job.lock_owner)
        if node is not None and nodes is not None:
            owner = display.link(nodes.page_url(node.pk), node.label)
        return Lock(owner, display.age(self._locked_at(using) or now, now), _good(job, node, now))

    def _locked_at(self, using: str) -> datetime | None:
        job = self._job
        moment = self._instance_locked_at(using, job.lock_owner)
        if moment is not None:
            return moment
        # The row has only the expiration of the lock.
        lock_time = get_settings().engines.get(using)
        if job.lock_expiration_time is None or lock_time is None:
            return None
        return job.lock_expiration_time - lock_time.lock_time

    def _instance_locked_at(self, using: str, owner: str | None) -> datetime | None:
        job = self._job
        if not job.serial_key:
            return None
        locks = ExclusiveLock.objects.using(using).filter(pk=job.serial_key, lock_owner=owner)
        return locks.values_list("lock_time", flat=True).first()

    def siblings(self) -> list[dict[str, Any]]:
        """The first other jobs of the process instance: those that may run before those that wait."""
        admins = [(table, self._admin(table)) for table in JOB_TABLES] if self._job.process_instance_id else []
        parts = [
            with_short_arguments(admin.get_queryset(self._request))
            .using(self._job._state.db)
            .filter(process_instance_id=self._job.process_instance_id, tenant_id=self._job.tenant_id)
            .exclude(pk=self._job.pk)
            .order_by()
            .annotate(in_table=Value(table.state, output_field=CharField()))
            .values_list("in_table", "short_arguments", *_COLUMNS)
            for table, admin in admins
            if admin is not None
        ]
        if not parts:
            return []
        # One statement, and no ORDER BY over all: an instance may have very many jobs.
        first, *others = parts
        found = list((first.union(*others, all=True) if others else first)[: SIBLINGS_SHOWN + 1])
        rows = [self._row(*each) for each in found]
        return [self._sibling(row, call) for row, call in calls_of(rows, self._job._state.db or "default")]

    def _row(self, state: str, short_arguments: str | None, *values: Any) -> Any:
        table = next(table for table in JOB_TABLES if table.state == state)
        row: Any = table(**dict(zip(("id", *_COLUMNS[1:]), values, strict=True)))
        row._state.db, row.short_arguments = self._job._state.db, short_arguments
        if isinstance(row, ExternalWorkerJob):
            row.available_at = row.due_date
        return row

    def _sibling(self, row: Any, call: str) -> dict[str, Any]:
        name = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
        url = reverse(name, args=[row.pk], current_app=self._page.admin_site.name)
        return {
            "url": url,
            "handler": display.call(row.handler_type, call),
            "badge": state_badge(row),
            "lock": display.lock_owner(row.lock_owner),
            "due": display.relative(row.due_date, display.now(row)),
        }

    def sibling_lists(self) -> list[dict[str, Any]]:
        """Links to all rows of the process instance, one per table."""
        if not self._job.process_instance_id:
            return []
        query = urlencode({"q": self._job.process_instance_id})
        return [
            {"name": table._meta.verbose_name_plural, "url": f"{self._page.list_url(table)}?{query}"}
            for table in _IN_INSTANCES
            if self._admin(table) is not None
        ]

    def incidents(self) -> list[dict[str, Any]]:
        """The latest incidents of the job."""
        incidents = self._admin(Incident)
        if incidents is None:
            return []
        rows = incidents.get_queryset(self._request).using(self._job._state.db).filter(job_id=self._job.pk)
        return [
            {
                "url": incidents.page_url(row.pk),
                "badge": incident_badge(row),
                "time": display.relative(row.timestamp, display.now(row)),
                "message": display.shortened(row.message, 120),
                "annotation": row.annotation,
            }
            for row in rows.order_by("-timestamp", "-pk")[:INCIDENTS_SHOWN]
        ]

    def links(self) -> list[SafeString]:
        """Links to the job's batch, schedule, unique key, task result, and group of failures."""
        found = self._instance()
        batches, groups = self._admin(Batch), self._admin(FailureGroup)
        if self._job.batch_id is not None and batches is not None:
            found.append(display.link(batches.page_url(self._job.batch_id), _("The batch that it belongs to")))
        found += [link for link in (self._schedule(), self._key(), self._result()) if link is not None]
        fingerprint = getattr(self._job, "fingerprint", "")
        if fingerprint and groups is not None:
            found.append(display.link(groups.page_url(fingerprint), _("Group of failures")))
        return found

    def _instance(self) -> list[SafeString]:
        instance, using = self._job.process_instance_id, self._job._state.db or "default"
        if not instance:
            return []
        site = self._page.admin_site
        return [link for page in INSTANCE_PAGES if (link := page(self._request, site, instance, using)) is not None]

    def _schedule(self) -> SafeString | None:
        schedules = self._admin(Schedule)
        if schedules is None:
            return None
        firings = ScheduleFiring.objects.using(self._job._state.db).filter(job_id=self._job.pk)
        firing = firings.order_by("fire_time").values_list("schedule_id", "fire_time").first()
        row = schedules.get_queryset(self._request).using(self._job._state.db).filter(pk=firing[0]) if firing else None
        name = row.values_list("name", flat=True).first() if row is not None else None
        if firing is None or name is None:
            return None
        text = _("The schedule %(name)s, for %(time)s") % {"name": name, "time": display.absolute(firing[1])}
        return display.link(schedules.page_url(firing[0]), text)

    def _key(self) -> SafeString | None:
        keys = self._admin(JobKey)
        if keys is None:
            return None
        held = JobKey.objects.using(self._job._state.db).filter(job_id=self._job.pk).values_list("pk", "key").first()
        return display.link(keys.page_url(held[0]), _("The unique key %s") % held[1]) if held else None

    def _result(self) -> SafeString | None:
        """A link to the result of the task's earlier attempts; None before the first attempt has ended."""
        results = self._admin(TaskResult) if self._job.task_backend else None
        if results is None:
            return None
        there = TaskResult.objects.using(self._job._state.db).filter(pk=self._job.pk).exists()
        return display.link(results.page_url(self._job.pk), _("Its task result")) if there else None


def _deadline(job: ExternalWorkerJob, now: datetime) -> SafeString:
    """How long other workers do not get the job."""
    left = (job.lock_expiration_time - now).total_seconds() if job.lock_expiration_time else 0.0
    if left > 0:
        return display.badge("ok", _("valid for %s, then other workers may fetch the job") % display.duration(left))
    return display.badge("warn", _("expired %s ago: other workers may fetch the job") % display.duration(-left))


def _good(job: AbstractJob, node: ExecutorNode | None, now: datetime) -> SafeString:
    """How long the lock is valid: as long as the lease of the node, or until it expires if the owner is not a node."""
    until = node.lease_expiration_time if node is not None else job.lock_expiration_time
    if until is None:
        return display.badge("warn", _("does not expire"))
    left = (until - now).total_seconds()
    if left > 0:
        return display.badge("ok", _("valid for %s, then renewed or released") % display.duration(left))
    return display.badge("bad", _("expired %s ago") % display.duration(-left))
