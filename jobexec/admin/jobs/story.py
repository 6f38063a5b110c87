"""Timelines, ordered by time: of a job, its attempts and the actions of operators; and of a resource, its breaker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobexec.conf import get_settings
from jobexec.models import AbstractJob, AuditLog, BreakerState, Incident, JobLog, LogState, Resource

from ..common import display
from ..common.base import TableAdmin
from ..common.filters import IncidentStateFilter
from ..common.job_log_columns import log_badge
from ..history.audit_log import interventions, sentence, who

SHOWN = 50


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of the timeline; ``details`` are folded."""

    moment: datetime
    badge: SafeString
    facts: tuple[str, ...] = ()
    message: str | SafeString = ""
    details: str | SafeString = ""
    url: str = ""

    @property
    def time(self) -> str:
        return display.absolute(self.moment)


@dataclass(frozen=True, slots=True)
class Story:
    """The latest events, newest first, and links to all of them if there may be more."""

    events: list[Event]
    links: tuple[SafeString, ...] = ()


def story_of(job: AbstractJob, log: QuerySet[JobLog] | None, log_url: str, *, audited: bool) -> Story:
    """Build the timeline. ``log`` is None for users who may not see the log.

    ``audited`` includes the actions of operators, for users who may see the audit log.
    """
    entries = [] if log is None else list(log.filter(job_id=job.pk).order_by("-timestamp", "-pk")[: SHOWN + 1])
    more = len(entries) > SHOWN
    events = [_logged(entry) for entry in entries[:SHOWN]]
    if not more and not any(entry.state == LogState.CREATED for entry in entries):
        events.append(Event(job.create_time, display.badge("wait", _("created"))))
    events += (_done_by(entry) for entry in (interventions(job) if audited else ()))
    # The sort is stable: events at the same time keep the order of the log.
    links = (display.link(log_url, _("The whole log of this job")),) if more else ()
    return Story(sorted(events, key=lambda event: event.moment, reverse=True), links)


def story_of_breaker(page: TableAdmin, request: HttpRequest, row: Resource) -> Story | None:
    """When its breaker was open, and what operators did to the resource; None for users who may see neither.

    What they did to the entry of RESOURCES that covers it (``customer:*``) concerns it, too.
    """
    incidents, audit = page.other(Incident, request), page.other(AuditLog, request)
    events, links = list[Event](), list[SafeString]()
    if incidents is not None:
        found = incidents.get_queryset(request).using(row._state.db).filter(resource=row.pk)
        for incident in found.order_by("-timestamp", "-pk")[:SHOWN]:
            events += _of_incident(incident, incidents.page_url(incident.pk))
        query = {"resource": row.pk, "state__exact": IncidentStateFilter.ALL}
        links.append(display.link(incidents.list_url(), _("All incidents"), **query))
    if audit is not None:
        covering = get_settings().resources.covering(row.name) or row.name
        for entry in interventions(row, covering):
            about = () if entry.object_id == row.pk else (entry.object_id,)
            events.append(_done_by(entry, audit.page_url(entry.pk), *about))
        links.append(display.link(audit.list_url(), _("Audit log"), q=row.pk))
    events.sort(key=lambda event: event.moment, reverse=True)
    return Story(events[:SHOWN], tuple(links)) if links else None


def _of_incident(incident: Incident, url: str) -> Iterable[Event]:
    if incident.end_time is not None:
        lasted = display.duration((incident.end_time - incident.timestamp).total_seconds())
        facts = (_("it was open for %(time)s") % {"time": lasted},)
        yield Event(incident.end_time, display.badge("ok", BreakerState.CLOSED.label), facts, url=url)
    badge, reason = display.badge("bad", BreakerState.OPEN.label), display.shortened(incident.message, 160)
    yield Event(incident.timestamp, badge, (reason,), incident.annotation, url=url)


def _logged(entry: JobLog) -> Event:
    return Event(
        entry.timestamp,
        log_badge(entry),
        tuple(_facts(entry)),
        display.shortened(entry.exception_message, 160) if entry.exception_message else "",
        _details(entry.exception_message, entry.exception_stack),
    )


def _details(message: str, stack: str) -> SafeString:
    """The stack trace; before it the message, unless the trace ends with it, as that of a worker may not."""
    parts = [display.pre(message)] if message and message not in stack else []
    parts += [display.stack_trace(stack)] if stack else []
    return format_html_join("", "{}", ((part,) for part in parts))


def _facts(entry: JobLog) -> Iterable[str]:
    if entry.attempt and entry.state in (LogState.FAILED, LogState.SUCCESSFUL):
        yield _("attempt %(attempt)d") % {"attempt": entry.attempt}
    if entry.node:
        yield _("on %(node)s") % {"node": entry.node}
    if entry.client:
        yield _("reported by %(client)s") % {"client": entry.client}
    if entry.wait is not None:
        yield _("waited %(time)s") % {"time": display.duration(entry.wait)}
    if entry.duration is not None:
        yield _("ran %(time)s") % {"time": display.duration(entry.duration)}
    if entry.state == LogState.FAILED:
        yield _("retries left: %(retries)d") % {"retries": entry.retries}


def _done_by(entry: AuditLog, url: str = "", *facts: str) -> Event:
    return Event(entry.timestamp, who(entry), (*facts, sentence(entry)), url=url)
