"""Tasks of procrastinate as jobs. docs/how-to/migrate/from-procrastinate.md shows the parts, tests/docs runs them."""

from __future__ import annotations

from collections.abc import Iterable

from django.core.mail import send_mail
from django.db import transaction

from demo_project.bookings.models import Booking, Ticket
from jobexec import JobContext, RetryPlan, job
from jobexec.models import DeadLetterJob, Job, TimerJob
from jobexec.operations import cancel, requeue


@job(category="mail", retries="R6/PT5S")
def send_voucher(booking_id: int) -> None:
    booking = Booking.objects.get(pk=booking_id)
    send_mail("Your trip", f"To {booking.city}!", None, [booking.email])


def confirm(booking: Booking) -> None:
    with transaction.atomic():
        booking.state = Booking.State.CONFIRMED
        booking.save()
        send_voucher.enqueue(booking_id=booking.pk)


def configured(booking: Booking) -> None:
    voucher = send_voucher.using(
        process_instance_id=f"booking-{booking.pk}",
        delay=300,
        priority=5,
        category="default",
    )
    voucher.enqueue(booking_id=booking.pk)


def send_all(bookings: Iterable[Booking]) -> None:
    send_voucher.enqueue_many({"booking_id": booking.pk} for booking in bookings)


def waits(failures: int, error: BaseException | None) -> int | None:
    """Return the seconds to wait, or None to give up."""
    if not isinstance(error, ConnectionError | TimeoutError):
        return None
    return 3 * failures


@job(retries=RetryPlan.from_callable(waits, attempts=6))
def ask_hotel(booking_id: int) -> None:
    raise ConnectionError("the hotel does not answer")


@job
def book_everything(context: JobContext, booking_id: int) -> None:
    booking = Booking.objects.get(pk=booking_id)
    for number, kind in enumerate(Ticket.Kind.values):
        if context.cancelled:
            return
        booking.tickets.create(kind=kind, reference=str(context.id))
        context.progress(number + 1, len(Ticket.Kind))


def abort(job_id: str) -> None:
    cancel(job_id)


def retry_failed() -> None:
    requeue(DeadLetterJob.objects.filter(handler_type=ask_hotel.name))


def cancel_waiting() -> None:
    for table in (Job, TimerJob):  # due jobs, and those that wait for their time
        cancel(table.objects.filter(handler_type=send_voucher.name))
