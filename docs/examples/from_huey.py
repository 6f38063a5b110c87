"""Tasks of huey as jobs. docs/how-to/migrate/from-huey.md shows the parts, and tests/docs runs them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.core.mail import send_mail
from django.db import transaction

from demo_project.bookings import flights
from demo_project.bookings.models import Booking, Ticket
from jobexec import DoNotRetry, JobCancelled, JobContext, RetryIn, job
from jobexec.operations import activate, cancel, suspend
from jobexec.processes import call, chain, parallel, previous
from jobexec.processes.models import ProcessInstance


@job(retries="R4/PT10S*2", priority=10, timeout=60)
def reserve_flight(booking_id: int) -> None:
    booking = Booking.objects.get(pk=booking_id)
    reference = flights.reserve(booking.process_instance_id, booking.city)
    booking.tickets.get_or_create(kind=Ticket.Kind.FLIGHT, defaults={"reference": reference})


def confirm(booking: Booking) -> None:
    with transaction.atomic():
        booking.state = Booking.State.CONFIRMED
        booking.save()
        reserve_flight.enqueue(booking.pk)


def reserve_later(booking: Booking, when: datetime) -> None:
    reserve_flight.using(delay=600).enqueue(booking.pk)
    reserve_flight.using(run_after=when).enqueue(booking.pk)


def reserve_all(bookings: Iterable[Booking]) -> None:
    reserve_flight.enqueue_many((booking.pk,) for booking in bookings)


@job(process_instance_id="the ledger")
def write_ledger(booking_id: int) -> None:
    booking = Booking.objects.get(pk=booking_id)
    booking.tickets.get_or_create(kind=Ticket.Kind.HOTEL, defaults={"reference": "ledger"})


def write_ledger_of(booking: Booking) -> None:
    write_ledger.using(process_instance_id=f"ledger {booking.city}").enqueue(booking.pk)


@job
def price_of(booking_id: int) -> int:
    return 100 * Booking.objects.get(pk=booking_id).nights


def ask_for_the_price(booking: Booking) -> ProcessInstance:
    return chain(price_of.s(booking.pk), call(mail_price, booking.pk, previous)).start()


@job
def total(prices: list[int]) -> int:
    return sum(prices)


def ask_for_the_total(bookings: Iterable[Booking]) -> ProcessInstance:
    prices = parallel(*(price_of.s(booking.pk) for booking in bookings))
    return chain(prices, call(total, previous)).start()


@job(category="mail", expires="PT10M")
def remind(booking_id: int) -> None:
    send_mail("Do not forget", "Your trip begins today.", None, [Booking.objects.get(pk=booking_id).email])


def remind_today(booking: Booking, evening: datetime) -> None:
    remind.enqueue(booking.pk)
    remind.using(expires=evening).enqueue(booking.pk)


@job(resource="sms.example")
def send_text(booking_id: int) -> None:
    send_mail("A text", "Have a good trip!", None, [Booking.objects.get(pk=booking_id).email])


@job(atomic=True)
def price(booking_id: int) -> None:
    booking = Booking.objects.get(pk=booking_id)
    mail_price.enqueue(booking_id, 100 * booking.nights)


@job(category="mail")
def mail_price(booking_id: int, amount: int) -> None:
    send_mail("The price", f"{amount} EUR", None, [Booking.objects.get(pk=booking_id).email])


@job
def ask_again(context: JobContext, booking_id: int) -> None:
    booking = Booking.objects.filter(pk=booking_id).first()
    if booking is None:
        raise JobCancelled  # there is nothing to do, but the job has not failed
    if booking.city == "Atlantis":
        raise DoNotRetry("it has sunk")
    if booking.state != Booking.State.CONFIRMED:
        raise RetryIn(60, "not confirmed yet")


def revoke(job_id: str) -> None:
    cancel(job_id)


def hold_reminders(until: datetime) -> None:
    suspend(job_definition_id=remind.name, until=until)


def release_reminders() -> None:
    activate(job_definition_id=remind.name)
