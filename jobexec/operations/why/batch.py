"""Explain why a batch of jobs is not over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.models import BATCH_HANDLERS, HANDLER_TABLES, JOB_TABLES, Batch, BatchState, SuspendedJob
from jobexec.models.batch import JOBS

from ..enqueue.batch_drivers import DRIVERS, driven
from ..rows.tallies import states
from ..values.humanize import both
from .facts import Reason, iso

_MOST = 1000


def batch_reasons(id: UUID, using: str, now: datetime) -> tuple[Batch, list[Reason]] | None:
    """The batch of jobs with this id, and the reasons why it is not over; None if there is none."""
    batch = Batch.objects.using(using).defer("selection").filter(pk=id, type=JOBS).first()
    seen = states(using, [id])
    if batch is None or not seen:
        return None
    figures = seen[0].figures
    details = {**figures._asdict(), "open": figures.open}
    if batch.over:
        values = {"state": batch.get_state_display(), "when": both(batch.end_time, now) if batch.end_time else ""}
        return batch, [Reason("batch_over", _("The batch has ended (%(state)s, %(when)s).") % values, details)]
    reasons = []
    if not Batch.objects.using(using).filter(driven(batch), pk=id).exists():
        text = _("The batch has stalled: its monitor job is missing or a dead letter. Activate the batch.")
        reasons.append(Reason("batch_stalled", text))
    reasons += _suspended_monitor(using, id)
    reasons += _failed_monitor(using, id)
    if batch.state == BatchState.OPEN:
        reasons.append(Reason("batch_open", _("The batch is open: it does not end before it is sealed.")))
    if figures.open:
        text = ngettext("%(count)d of its jobs has not ended.", "%(count)d of its jobs have not ended.", figures.open)
        reasons.append(Reason("batch_children", text % {"count": figures.open}, details))
        reasons += _by_table(using, id)
    elif batch.state != BatchState.OPEN:
        text = _("All of its jobs have ended; its monitor job ends the batch.")
        reasons.append(Reason("batch_ends", text, details))
    if batch.deadline is not None:
        text = _("It fails at its deadline, %(deadline)s.") % {"deadline": both(batch.deadline, now)}
        reasons.append(Reason("batch_deadline", text, {"deadline": iso(batch.deadline)}))
    return batch, reasons


def _suspended_monitor(using: str, id: UUID) -> Iterator[Reason]:
    rows = SuspendedJob.objects.using(using).filter(batch_id=id, handler_type__in=DRIVERS)
    for job in rows.values_list("pk", flat=True)[:1]:
        text = _("Its monitor job %(job)s is suspended.") % {"job": job}
        yield Reason("batch_monitor_suspended", text, {"job": str(job)})


def _failed_monitor(using: str, id: UUID) -> Iterator[Reason]:
    """Each monitor that succeeds is replaced by another job, so one that has failed still fails."""
    for table in HANDLER_TABLES:
        rows = table._base_manager.using(using).filter(batch_id=id, handler_type__in=DRIVERS)
        for job, exception in rows.exclude(exception_message="").values_list("pk", "exception_message")[:1]:
            text = _("Its monitor job has failed: %(exception)s") % {"exception": exception}
            yield Reason("batch_monitor_failed", text, {"job": str(job)})


def _by_table(using: str, id: UUID) -> list[Reason]:
    found = []
    for table in JOB_TABLES:
        rows = table._base_manager.using(using).filter(batch_id=id).exclude(handler_type__in=BATCH_HANDLERS)
        count = rows.order_by()[:_MOST].count()
        if count and not table.dead:
            first = rows.values_list("pk", flat=True).first()
            values = {"count": f"{count}{'+' if count == _MOST else ''}", "names": table._meta.verbose_name_plural}
            text = _("%(count)s of them are %(names)s, for example %(id)s.") % {**values, "id": first}
            found.append(Reason("batch_jobs", text, {"state": table.state, "count": count, "example": str(first)}))
    return found
