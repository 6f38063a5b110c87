"""Tasks of django-q2 as jobs. docs/how-to/migrate/from-django-q2.md shows the parts, and tests/docs runs them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.core.mail import mail_admins, send_mail
from django.dispatch import receiver

from demo_project.bookings.models import Booking, Ticket
from jobexec import JobBatch, JobContext, batch, job
from jobexec.models import DeadLetterJob
from jobexec.operations import requeue
from jobexec.processes import chain
from jobexec.processes.models import ProcessInstance
from jobexec.signals import job_dead_lettered


@job(name="shop.tasks.send_voucher", category="mail", retries="R5/PT1M", timeout=60)
def send_voucher(booking_id: int) -> None:
    booking = Booking.objects.get(pk=booking_id)
    send_mail("Your trip", f"To {booking.city}!", None, [booking.email])


def send(booking: Booking, when: datetime) -> None:
    send_voucher.enqueue(booking.pk)
    send_voucher.using(run_after=when, timeout=10).enqueue(booking.pk)
    send_voucher.using(category="default").enqueue(booking.pk)


@job(atomic=True)
def count_nights(booking_id: int) -> None:
    nights = Booking.objects.get(pk=booking_id).nights
    report_nights.enqueue(booking_id, nights)  # instead of a hook


@job
def report_nights(booking_id: int, nights: int) -> None:
    mail_admins("A trip", f"{booking_id}: {nights} nights")


@receiver(job_dead_lettered, sender=DeadLetterJob)
def notify_admins(job: DeadLetterJob, error: BaseException, **kwargs: object) -> None:
    mail_admins("A job has failed", f"{job.handler_type} {job.pk}: {error}")


@job(atomic=True)
def book_ticket(booking_id: int, kind: str) -> None:
    booking = Booking.objects.select_for_update().get(pk=booking_id)  # jobs of the same booking wait here
    _, created = booking.tickets.get_or_create(kind=kind, defaults={"reference": f"{kind}-{booking_id}"})
    if created and booking.tickets.count() == len(Ticket.Kind):
        send_voucher.enqueue(booking_id)


def book_tickets(bookings: Iterable[Booking]) -> None:
    book_ticket.enqueue_many((booking.pk, kind) for booking in bookings for kind in Ticket.Kind.values)


@job
def tell_the_office(text: str) -> None:
    mail_admins("Vouchers", text)


def send_all(bookings: Iterable[Booking]) -> JobBatch:
    with batch(name="vouchers", on_success=tell_the_office.s("All vouchers are sent.")) as vouchers:
        vouchers.add_many(send_voucher.s(booking.pk) for booking in bookings)
    return vouchers


@job(keep_result="P1D")
def sum_nights(city: str) -> int:
    return sum(booking.nights for booking in Booking.objects.filter(city=city))


def ask(cities: Iterable[str]) -> list[UUID]:
    return [row.pk for row in sum_nights.enqueue_many((city,) for city in cities)]


def answers(job_ids: Iterable[UUID]) -> list[int]:
    results = [sum_nights.get_result(job_id) for job_id in job_ids]
    return [result.return_value for result in results if result.status == "SUCCESSFUL"]


def resubmit_failed() -> None:
    requeue(DeadLetterJob.objects.filter(handler_type="shop.tasks.send_voucher"))


@job(atomic=True)
def reserve(booking_id: int, kind: str) -> None:
    Ticket.objects.create(booking_id=booking_id, kind=kind, reference=f"{kind}-{booking_id}")


def travel(booking: Booking) -> ProcessInstance:
    return chain(reserve.s(booking.pk, "hotel"), reserve.s(booking.pk, "flight"), send_voucher.s(booking.pk)).start()


@job(atomic=True)
def travel_step(context: JobContext, booking_id: int, kinds: list[str]) -> None:
    kind, *rest = kinds
    Ticket.objects.create(booking_id=booking_id, kind=kind, reference=str(context.id))
    if rest:
        travel_step.enqueue(booking_id, rest)
