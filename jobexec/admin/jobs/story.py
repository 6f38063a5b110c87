"""The timeline of a job: its attempts from the log, and the actions of operators, ordered by time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobexec.models import AbstractJob, AuditLog, JobLog, LogState

from ..common import display
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
    details: str = ""

    @property
    def time(self) -> str:
        return display.absolute(self.moment)


@dataclass(frozen=True, slots=True)
class Story:
    """The latest events, newest first. ``log_url`` leads to the whole log if there are more events."""

    events: list[Event]
    log_url: str = ""


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
    return Story(sorted(events, key=lambda event: event.moment, reverse=True), log_url if more else "")


def _logged(entry: JobLog) -> Event:
    return Event(
        entry.timestamp,
        log_badge(entry),
        tuple(_facts(entry)),
        display.shortened(entry.exception_message, 160) if entry.exception_message else "",
        "\n\n".join(filter(None, (entry.exception_message, entry.exception_stack))),
    )


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


def _done_by(entry: AuditLog) -> Event:
    return Event(entry.timestamp, who(entry), (sentence(entry),))
