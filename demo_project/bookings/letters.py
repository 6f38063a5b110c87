"""What is written to disk for the visitor."""

import os
import tempfile
from pathlib import Path

from django.conf import settings
from django.template.loader import render_to_string

from .models import Booking


def voucher_path(booking: Booking) -> Path:
    return Path(settings.MEDIA_ROOT) / "vouchers" / f"booking-{booking.pk}.html"


def write_voucher(booking: Booking) -> Path:
    """Write the voucher and return where it is. Done twice, it is the same file with the same content."""
    tickets = booking.tickets.all()
    return _write(voucher_path(booking), render_to_string("bookings/voucher.html", _about(booking, tickets=tickets)))


def write_reminder(booking: Booking) -> Path:
    """Write the reminder of payment and return where it is."""
    path = Path(settings.MEDIA_ROOT) / "reminders" / f"booking-{booking.pk}.txt"
    return _write(path, render_to_string("bookings/reminder.txt", _about(booking)))


def receipt_path(booking: Booking) -> Path:
    return Path(settings.MEDIA_ROOT) / "receipts" / f"booking-{booking.pk}.txt"


def write_receipt(booking: Booking, card: str) -> Path:
    """Write the receipt of a payment and return where it is."""
    return _write(receipt_path(booking), f"{booking.visitor} has paid for the trip to {booking.city} by {card}.\n")


def write_newsletter(booking: Booking) -> Path:
    """Write the newsletter to the visitor of a booking and return where it is."""
    path = Path(settings.MEDIA_ROOT) / "newsletters" / f"booking-{booking.pk}.txt"
    return _write(path, f"Dear {booking.visitor},\n\n{booking.city} misses you already.\n")


def _about(booking: Booking, **more: object) -> dict[str, object]:
    return {"booking": booking, **more}


def _write(path: Path, text: str) -> Path:
    """Whole or not at all: a crash in the middle must not leave half a voucher."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(unfinished, path)
    return path
