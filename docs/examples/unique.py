"""Unique jobs, which the guides for migrating from other queues show."""

from __future__ import annotations

from demo_project.bookings.models import Booking
from jobexec import job


@job(unique=True)
def refresh_price(booking_id: int) -> None:
    Booking.objects.get(pk=booking_id)


@job(unique="index", unique_while="waiting")
def rebuild_index() -> None:
    list(Booking.objects.all())


def changed(booking: Booking) -> bool:
    row = refresh_price.enqueue(booking.pk)
    rebuild_index.enqueue()
    return not row.is_duplicate
