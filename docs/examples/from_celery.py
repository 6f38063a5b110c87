"""Celery tasks as jobs. docs/how-to/migrate/from-celery.md shows the parts, and tests/docs runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import wraps
from typing import ParamSpec, TypeVar

from django.core.mail import send_mail
from django.db import transaction
from django.utils import translation

from demo_project.bookings import flights
from demo_project.bookings.models import Booking, Ticket
from jobexec import DoNotRetry, JobContext, RetryIn, RetryPlan, job
from jobexec.operations import cancel
from jobexec.processes import call, chain, flow, item, parallel, previous
from jobexec.processes.models import ProcessInstance

P = ParamSpec("P")
R = TypeVar("R")


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
    """Return the seconds to wait, or None to give up."""
    return 10 * 2 ** (failures - 1) if isinstance(error, OSError) else None


@job(retries=RetryPlan.from_callable(only_the_network, attempts=5))
def call_hotel(booking_id: int) -> None:
    flights.reserve(f"hotel-{booking_id}", Booking.objects.get(pk=booking_id).city)


@job(resource="weather.example")
def ask_for_the_weather(booking_id: int) -> None:
    send_mail("The weather", "Sunny.", None, [Booking.objects.get(pk=booking_id).email])


def remind_soon(booking: Booking) -> None:
    send_voucher.using(expires=600).enqueue(booking.pk)


def in_german(function: Callable[P, R]) -> Callable[P, R]:
    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with translation.override("de"):
            return function(*args, **kwargs)

    return run


@job
@in_german
def greet(booking_id: int) -> None:
    send_mail(translation.get_language(), "Guten Tag!", None, [Booking.objects.get(pk=booking_id).email])


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
    booking = Booking.objects.select_for_update().get(pk=booking_id)  # jobs of the same booking wait here
    _, created = booking.tickets.get_or_create(kind=kind, defaults={"reference": f"{kind}-{booking_id}"})
    if created and booking.tickets.count() == len(Ticket.Kind):
        send_voucher.enqueue(booking_id)


def book_tickets(booking: Booking) -> None:
    book_ticket.enqueue_many((booking.pk, kind) for kind in Ticket.Kind.values)


@job
def price_of(booking_id: int, kind: str) -> int:
    return len(kind) * Booking.objects.get(pk=booking_id).nights


@job
def total(prices: list[int]) -> int:
    return sum(prices)


@job(retries="R2/PT0S")
def charge(booking_id: int, amount: int) -> str:
    if amount > 100:
        raise ValueError("the card limit is exceeded")
    return f"{amount} of booking {booking_id}"


@job
def apologise(booking_id: int) -> None:
    send_mail("We are sorry", "The card limit is exceeded.", None, [Booking.objects.get(pk=booking_id).email])


@job
def send_vouchers(booking_ids: list[int]) -> int:
    for booking_id in booking_ids:
        send_voucher(booking_id)
    return len(booking_ids)


def in_a_chain(booking: Booking) -> ProcessInstance:
    return chain(price_of.s(booking.pk, "hotel"), call(charge, booking.pk, previous)).start()


def in_a_group(booking: Booking) -> ProcessInstance:
    return parallel(*(price_of.s(booking.pk, kind) for kind in Ticket.Kind.values)).start()


def in_a_chord(booking: Booking) -> ProcessInstance:
    prices = parallel(*(price_of.s(booking.pk, kind) for kind in Ticket.Kind.values))
    return chain(prices, call(total, previous), call(charge, booking.pk, previous)).start()


def in_a_map(booking: Booking) -> None:
    with flow("prices", business_key=str(booking.pk)) as f:
        prices = f.map(price_of, booking.pk, item, over=Ticket.Kind.values)
        f.step(total, prices.result, after=prices)


def with_link_error(booking: Booking, amount: int) -> None:
    with flow("charge", business_key=str(booking.pk)) as f:
        charged = f.step(charge, booking.pk, amount)
        f.step(send_voucher, booking.pk, after=charged)
        f.step(apologise, booking.pk, after=charged.failed)


def in_chunks(booking_ids: list[int], size: int = 100) -> None:
    chunks = [booking_ids[first : first + size] for first in range(0, len(booking_ids), size)]
    with flow("vouchers") as f:
        f.map(send_vouchers, over=chunks)


@job(timeout=300)
def remind_all(context: JobContext, after: int = 0) -> None:
    for booking in Booking.objects.filter(pk__gt=after).order_by("pk"):
        if context.soft_timeout or context.shutting_down:
            remind_all.enqueue(after)  # another job does the rest
            return
        send_mail("Do not forget", f"{booking.city} is waiting for you.", None, [booking.email])
        after = booking.pk


def stop(job_id: str) -> None:
    cancel(job_id)
