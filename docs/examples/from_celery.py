"""What tasks of Celery become. The pieces are shown in docs/how-to/from-celery.md and run by tests/docs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.core.mail import send_mail
from django.db import transaction

from demo_project.bookings import flights
from demo_project.bookings.models import Booking, Ticket
from jobexec import DoNotRetry, JobContext, RetryIn, RetryPlan, job
from jobexec.operations import cancel


@job(retries="R6/PT1M", category="mail")
def send_voucher(booking_id: int) -> None:
    booking = Booking.objects.get(pk=booking_id)
    send_mail("Your trip", f"To {booking.city}!", None, [booking.email])


def confirm(booking: Booking) -> None:
    with transaction.atomic():
        booking.state = Booking.State.CONFIRMED
        booking.save()
        send_voucher.enqueue(booking.pk)


def send_later(booking: Booking, when: datetime) -> None:
    send_voucher.using(delay=600).enqueue(booking.pk)
    send_voucher.using(run_after=when).enqueue(booking.pk)
    send_voucher.using(priority=10, delay=timedelta(days=1)).enqueue(booking.pk)


@job(retries="R5/PT1M")
def reserve_flight(context: JobContext, booking_id: int) -> None:
    context.logger.info("attempt %d of job %s", context.attempt, context.id)
    booking = Booking.objects.get(pk=booking_id)
    try:
        reference = flights.reserve(str(context.id), booking.city)
    except flights.FlightServiceError as error:
        raise RetryIn(30, "the service is busy") from error
    except ValueError as error:
        raise DoNotRetry(f"nobody flies to {booking.city}") from error
    booking.tickets.create(kind=Ticket.Kind.FLIGHT, reference=reference)


def only_the_network(failures: int, error: BaseException | None) -> int | None:
    """The seconds to wait; None: do not try again."""
    return 10 * 2 ** (failures - 1) if isinstance(error, OSError) else None


@job(retries=RetryPlan.from_callable(only_the_network, attempts=5))
def call_hotel(booking_id: int) -> None:
    flights.reserve(f"hotel-{booking_id}", Booking.objects.get(pk=booking_id).city)


@job(atomic=True)
def write_invoice(booking_id: int) -> None:
    booking = Booking.objects.get(pk=booking_id)
    invoice = f"invoice for {booking.visitor}"
    mail_invoice.enqueue(booking_id, invoice)


@job(category="mail")
def mail_invoice(booking_id: int, invoice: str) -> None:
    send_mail("Your invoice", invoice, None, [Booking.objects.get(pk=booking_id).email])


def send_all(bookings: Iterable[Booking]) -> None:
    send_voucher.enqueue_many((booking.pk,) for booking in bookings)


@job(atomic=True)
def book_ticket(booking_id: int, kind: str) -> None:
    booking = Booking.objects.select_for_update().get(pk=booking_id)  # siblings wait here for the commit
    _, created = booking.tickets.get_or_create(kind=kind, defaults={"reference": f"{kind}-{booking_id}"})
    if created and booking.tickets.count() == len(Ticket.Kind):
        send_voucher.enqueue(booking_id)


def book_tickets(booking: Booking) -> None:
    book_ticket.enqueue_many((booking.pk, kind) for kind in Ticket.Kind.values)


@job(timeout=300)
def remind_all(context: JobContext, after: int = 0) -> None:
    for booking in Booking.objects.filter(pk__gt=after).order_by("pk"):
        if context.soft_timeout or context.shutting_down:
            remind_all.enqueue(after)  # the rest is a job of its own
            return
        send_mail("Do not forget", f"{booking.city} waits.", None, [booking.email])
        after = booking.pk


def stop(job_id: str) -> None:
    cancel(job_id)
