"""Booking a trip: the one place where a web request meets jobexec."""

from django.db import transaction

from jobexec import publish_message

from .jobs import PAID, book_concert_tickets, book_flight, book_hotel
from .models import Booking


def book(booking: Booking) -> Booking:
    """Save a new booking together with the three jobs that get its tickets.

    One transaction: either the booking and its jobs are there, or nothing is. The jobs belong to one process
    instance, so the executor runs them one after the other, in whatever order and on whatever node.
    """
    with transaction.atomic():
        booking.save()
        for job in (book_hotel, book_flight, book_concert_tickets):
            job.using(process_instance_id=booking.process_instance_id).enqueue(booking.pk)
    return booking


def pay(booking: Booking, card: str) -> None:
    """Tell the job that waits for the payment. Its message is kept for a while, should the job not wait yet."""
    publish_message(PAID, key=booking.pk, payload={"card": card}, ttl="PT1H")
