"""Jobs with schedules, which the guides for migrating from other queues show."""

from __future__ import annotations

from django.core.mail import mail_admins
from django.utils import timezone

from demo_project.bookings.models import Booking
from jobexec import JobContext, job


@job(schedule="0 3 * * *", timezone="Europe/Berlin", atomic=True)
def forget_old_trips() -> None:
    Booking.objects.filter(departure__lt=timezone.localdate()).delete()


@job(schedule="R/PT15M", misfire="skip")
def count_trips(context: JobContext) -> None:
    mail_admins("Trips", f"{Booking.objects.count()} at {context.scheduled_for:%H:%M}")
