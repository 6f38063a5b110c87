"""How things stand: what the pages, the line in the terminal and the table at the end show. Only reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, Q
from django.urls import reverse

from jobexec import clock
from jobexec.models import (
    HANDLER_TABLES,
    AbstractJob,
    BlockedJob,
    DeadLetterJob,
    ExternalWorkerJob,
    Job,
    JobLog,
    LogState,
    TimerJob,
)

from .jobs import remind_of_payment
from .models import Booking, Ticket

#: Timers that `demo --once` waits for: those of the processes, not a refund's next attempt in five minutes.
SOON = timedelta(minutes=1)
#: Bookings that are on their way, and do not wait for a person.
REQUESTED = Q(state=Booking.State.REQUESTED, attention=False)


def snapshot() -> dict[str, int]:
    """Counts of bookings and jobs; cheap enough for once a second."""
    bookings = Booking.objects.aggregate(
        bookings=Count("pk"), confirmed=Count("pk", filter=Q(state=Booking.State.CONFIRMED))
    )
    executable = Job.objects.aggregate(due=Count("pk"), running=Count("pk", filter=Q(lock_owner__isnull=False)))
    waiting = {
        "retries": TimerJob.objects.filter(attempts__gt=0).count(),
        "permits": BlockedJob.objects.filter(resource__isnull=False).count(),
        "reminders": BlockedJob.objects.filter(handler_type=remind_of_payment.name).count(),
        "later": ExternalWorkerJob.objects.count() + TimerJob.objects.filter(due_date__lt=clock.now() + SOON).count(),
    }
    dead = DeadLetterJob.objects.aggregate(dead_letters=Count("pk"))
    attention = {"attention": Booking.objects.with_attention().filter(attention=True).count()}
    attempts = {"attempts": JobLog.objects.exclude(state=LogState.CREATED).count()}
    counts = bookings | attention | executable | waiting | dead | attempts
    counts["requested"] = Booking.objects.with_attention().filter(REQUESTED).count()
    return counts


@dataclass(frozen=True)
class JobRow:
    """A job as a page shows it, whichever table it is in."""

    row: AbstractJob
    state: str
    link: str

    @property
    def name(self) -> str:
        return short(self.row.handler_type)


def jobs_of(booking: Booking) -> list[JobRow]:
    """The jobs of a booking that are not done, from all tables."""
    own = {"process_instance_id": booking.process_instance_id}
    rows = [row for table in HANDLER_TABLES for row in table.objects.filter(**own)]
    return [JobRow(row, _state(row), _admin_link(row)) for row in sorted(rows, key=lambda row: row.pk)]


def log_of(booking: Booking) -> list[dict[str, Any]]:
    """Every attempt at a job of this booking, in order."""
    entries = JobLog.objects.filter(process_instance_id=booking.process_instance_id).order_by("timestamp", "pk")
    return [{"name": short(entry.handler_type), "entry": entry} for entry in entries]


def tickets_of(booking: Booking) -> list[dict[str, Any]]:
    """The three kinds, each with its ticket or None."""
    found = {ticket.kind: ticket for ticket in booking.tickets.all()}
    return [{"kind": kind, "ticket": found.get(kind)} for kind in Ticket.Kind]


def short(handler_type: str) -> str:
    """A handler's name without its module."""
    return handler_type.rpartition(".")[2]


def _state(row: AbstractJob) -> str:
    if isinstance(row, TimerJob):
        return "waits for a retry" if row.attempts else "timer"
    if isinstance(row, Job):
        return "running" if row.locked else "due"
    return row.state


def _admin_link(row: AbstractJob) -> str:
    return reverse(f"admin:jobexec_{row._meta.model_name}_change", args=[row.pk])
