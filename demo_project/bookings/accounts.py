"""The reckoning at the end of a run: what became of every job and every booking."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from django.db.models import Avg, Count, Max, Q

from demo_project.workflows.status import problems, processes
from jobexec.models import HANDLER_TABLES, DeadLetterJob, JobLog, LogState

from .letters import voucher_path
from .models import Booking, Ticket
from .status import short, snapshot


def accounts() -> dict[str, Any]:
    """Everything the final table shows, as JSON. `problems` is empty if all is in order."""
    return {
        "totals": snapshot(),
        "tickets": Ticket.objects.count(),
        "handlers": _handlers(),
        "dead_letters": list(_dead_letters()),
        "processes": processes(),
        "problems": [*_problems(), *problems()],
    }


def _handlers() -> list[dict[str, Any]]:
    """One row for each handler: its jobs by state, its attempts, and seconds in it."""
    rows: dict[str, dict[str, Any]] = defaultdict(lambda: {"waiting": 0, "dead": 0, "done": 0, "attempts": 0})
    for table in HANDLER_TABLES:
        state = "dead" if table.dead else "waiting"
        for name, count in table.objects.order_by().values_list("handler_type").annotate(Count("pk")):
            rows[name][state] += count
    ran = Q(state__in=(LogState.SUCCESSFUL, LogState.FAILED))
    numbers = {
        "done": Count("pk", filter=Q(state=LogState.SUCCESSFUL)),
        "attempts": Count("pk", filter=ran),
        "mean": Avg("duration"),
        "longest": Max("duration"),
    }
    for name, *values in JobLog.objects.order_by().values_list("handler_type").annotate(**numbers):
        rows[name] |= dict(zip(numbers, values, strict=True))
    return [{"handler": short(name), **rows[name]} for name in sorted(rows)]


def _dead_letters() -> Iterator[dict[str, Any]]:
    for job in DeadLetterJob.objects.order_by("died_at", "pk"):
        yield {
            "of": job.correlation_id or job.process_instance_id,
            "handler": job.failed_activity_id or short(job.handler_type),
            "attempts": job.attempts,
            "message": job.exception_message,
        }


def _problems() -> Iterator[str]:
    """What must not be: a booking that neither is confirmed nor has a dead letter, a ticket too many or too few."""
    accounted = set(DeadLetterJob.objects.values_list("process_instance_id", flat=True))
    for booking in Booking.objects.annotate(count=Count("tickets"), kinds=Count("tickets__kind", distinct=True)):
        name, confirmed = booking.process_instance_id, booking.state == Booking.State.CONFIRMED
        if not confirmed and name not in accounted:
            yield f"{name} is not confirmed, and no dead letter says why"
        if booking.count != booking.kinds:
            yield f"{name} has a ticket twice"
        if confirmed and booking.count != len(Ticket.Kind):
            yield f"{name} is confirmed with {booking.count} tickets"
        if confirmed and not voucher_path(booking).exists():
            yield f"{name} is confirmed without a voucher"
