"""Explain why a job will not run again: dead letters, and jobs that only the log contains."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.identifiers import as_id
from jobexec.models import DeadLetterJob, Incident, IncidentState, JobLog, LogState

from ..values.humanize import both, duration
from . import suspended
from .facts import Facts, Reason, iso


def dead(facts: Facts) -> list[Reason]:
    """The reasons for a dead letter, including those that would block it after a requeue."""
    job = facts.job
    assert isinstance(job, DeadLetterJob)
    incident = Incident.objects.using(facts.using).filter(job_id=job.pk, state=IncidentState.OPEN).first()
    text = ngettext(
        "It became a dead letter on %(since)s, after %(attempts)d attempt, and waits for an operator: %(exception)s",
        "It became a dead letter on %(since)s, after %(attempts)d attempts, and waits for an operator: %(exception)s",
        job.attempts,
    )
    exception = job.exception_message or _("no exception is recorded")
    values = {"since": facts.said(job.died_at), "attempts": job.attempts, "exception": exception}
    details = {
        "died_at": iso(job.died_at),
        "attempts": job.attempts,
        "exception": job.exception_message,
        "fingerprint": job.fingerprint,
        "incident": str(incident.pk) if incident else None,
        "annotation": incident.annotation if incident else "",
    }
    reasons = [Reason("dead_letter", text % values, details)]
    if incident is not None and incident.annotation:
        said = _("Annotation: %(annotation)s") % {"annotation": incident.annotation}
        told = {"incident": str(incident.pk), "annotation": incident.annotation}
        reasons.append(Reason("annotation", said, told, table=Incident))
    return [*reasons, *suspended.covering(facts), *suspended.planned(facts)]


def gone(id: UUID | str, using: str, now: datetime) -> list[Reason]:
    """The reasons for a job that no table contains: its last entry in the log."""
    wanted = as_id(id)
    if wanted is None:
        text = _("“%(id)s” is not a job id: expected a UUID.") % {"id": id}
        return [Reason("not_found", text, {"id": str(id)})]
    entry = JobLog.objects.using(using).filter(job_id=wanted).order_by("-timestamp", "-pk").first()
    if entry is None:
        text = _("Neither the job tables nor the log contain this job: it never existed, or its log entries are gone.")
        return [Reason("not_found", text, {"id": str(wanted)})]
    return [_over(entry, now)]


def _over(entry: JobLog, now: datetime) -> Reason:
    code, text = _end(entry.state)
    values = {"when": both(entry.timestamp, now), "attempt": entry.attempt, "node": entry.node or "?"}
    values |= {"duration": duration(entry.duration), "exception": entry.exception_message}
    details = {
        "log": entry.pk,
        "state": entry.state,
        "timestamp": iso(entry.timestamp),
        "handler": entry.handler_type,
        "attempt": entry.attempt,
        "node": entry.node,
        "duration_seconds": entry.duration,
        "exception": entry.exception_message,
    }
    return Reason(code, text % values, details)


def _end(state: str) -> tuple[str, str]:
    """The code and text for a job whose last log entry has this state."""
    if state == LogState.SUCCESSFUL:
        return "done", _("It is done: attempt %(attempt)d succeeded on %(when)s on node %(node)s, in %(duration)s.")
    if state == LogState.DELETED:
        return "deleted", _("It was deleted on %(when)s.")
    if state == LogState.CANCELLED:
        return "cancelled", _("It was cancelled on %(when)s.")
    if state == LogState.FAILED:
        return "gone", _(
            "It is not in any table. The log ends with attempt %(attempt)d, failed on %(when)s: %(exception)s"
        )
    return "gone", _(
        "It is not in any table. The log ends with its creation on %(when)s: it does not record how jobs end."
    )
