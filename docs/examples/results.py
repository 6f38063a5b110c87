"""A task of django.tasks, whose result is kept; shown in the pages for those who come from other systems."""

from __future__ import annotations

from demo_project.bookings.models import Booking
from jobexec.backends.compat import task  # in a project: from django.tasks import task


@task
def count_nights(booking_id: int) -> int:
    return Booking.objects.get(pk=booking_id).nights


def ask(booking: Booking) -> str:
    return str(count_nights.enqueue(booking.pk).id)


def answer(result_id: str) -> int | None:
    result = count_nights.get_result(result_id)
    return result.return_value if result.is_finished else None
