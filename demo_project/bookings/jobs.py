"""The jobs of a booking. jobexec finds this module by its name.

book_hotel ─────────┐
book_flight ────────┼─ the last of them ─> confirm_booking ─ paid, or three days later ─> remind_of_payment
book_concert_tickets┘

remind_of_payment waits for the message that the visitor has paid, and runs without it after three days.
"""

import time

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from jobexec import JobContext, job

from . import flights, letters
from .models import Booking, Ticket

#: The message that a visitor has paid; its key is that of the booking.
PAID = "paid"


# Only the database is touched, so the ticket and the end of the job are one transaction: exactly once.
@job(process_definition_key="booking", atomic=True)
def book_hotel(booking_id: int) -> None:
    booking = Booking.objects.get(pk=booking_id)
    _keep_ticket(booking, Ticket.Kind.HOTEL, f"HTL-{booking.city[:3].upper()}-{booking.pk:05d}")


@job(process_definition_key="booking", atomic=True)
def book_concert_tickets(booking_id: int) -> None:
    booking = Booking.objects.get(pk=booking_id)
    _keep_ticket(booking, Ticket.Kind.CONCERT, f"ROW{booking.pk % 40 + 1}-{booking.pk:05d}")


# A call over the network: it may fail, and no transaction should be open meanwhile. At least once, therefore;
# the flight service knows a booking that it has already served and answers with the same reference. What all these
# jobs share is the service: RESOURCES in the settings says how many may call it at once.
@job(process_definition_key="booking", retries="R3/PT2S", resource="flights")
def book_flight(context: JobContext, booking_id: int) -> None:
    booking = Booking.objects.get(pk=booking_id)
    reference = flights.reserve(booking.process_instance_id, booking.city)
    context.logger.info("Flight to %s reserved: %s", booking.city, reference)
    _keep_ticket(booking, Ticket.Kind.FLIGHT, reference)


# Before the tickets of visitors who came later.
@job(process_definition_key="booking", atomic=True, priority=10)
def confirm_booking(booking_id: int) -> None:
    booking = Booking.objects.get(pk=booking_id)
    letters.write_voucher(booking)
    booking.state, booking.confirmed_at = Booking.State.CONFIRMED, timezone.now()
    booking.save(update_fields=["state", "confirmed_at"])
    reminder = remind_of_payment.using(
        process_instance_id=booking.process_instance_id,
        wait_for=(PAID, booking.pk),
        wait_timeout=settings.PAYMENT_REMINDER_DELAY,
    )
    reminder.enqueue(booking.pk)


# With the message of the payment, or after the timeout without one: services.pay publishes it.
@job(process_definition_key="booking", category="mail")
def remind_of_payment(context: JobContext, booking_id: int) -> None:
    booking = Booking.objects.get(pk=booking_id)
    if context.message is not None:
        letters.write_receipt(booking, context.message.payload["card"])
        return
    letters.write_reminder(booking)
    Booking.objects.filter(pk=booking_id).update(reminded_at=timezone.now())


# One for each visitor, all of them as one batch: see newsletter.py.
@job(category="mail")
def write_to(booking_id: int) -> None:
    letters.write_newsletter(Booking.objects.get(pk=booking_id))
    time.sleep(settings.MAIL_SERVER_TAKES)


# What follows the batch. It finds the batch in its context.
@job(category="mail")
def report_newsletter(context: JobContext) -> None:
    if context.batch is not None:
        context.logger.info("The newsletter has gone out: %s", context.batch.progress())


def _keep_ticket(booking: Booking, kind: Ticket.Kind, reference: str) -> None:
    """Save the ticket; whoever brings the last one has the booking confirmed.

    Counting is safe because the jobs are exclusive: no sibling is between its ticket and its count at this moment.
    A job that runs for a second time finds its ticket and does not confirm again.
    """
    with transaction.atomic():
        _, created = booking.tickets.get_or_create(kind=kind, defaults={"reference": reference})
        if created and booking.tickets.count() == len(Ticket.Kind):
            confirm_booking.using(process_instance_id=booking.process_instance_id).enqueue(booking.pk)
