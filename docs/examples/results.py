"""A task and a job whose results are kept, which the pages on results show."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from demo_project.bookings.models import Booking
from jobexec import ResultDoesNotExist, job
from jobexec.backends.compat import task  # in a project: from django.tasks import task


@task
def count_nights(booking_id: int) -> int:
    return Booking.objects.get(pk=booking_id).nights


def ask(booking: Booking) -> str:
    return str(count_nights.enqueue(booking.pk).id)


def answer(result_id: str) -> int | None:
    result = count_nights.get_result(result_id)
    return result.return_value if result.is_finished else None


@job(keep_result=timedelta(days=30))
def sum_nights(city: str) -> dict[str, int]:
    nights = [booking.nights for booking in Booking.objects.filter(city=city)]
    return {"bookings": len(nights), "nights": sum(nights)}


def order_report(city: str) -> UUID:
    return sum_nights.enqueue(city).pk


def report(job_id: UUID) -> str:
    try:
        result = sum_nights.get_result(job_id)
    except ResultDoesNotExist:
        return "The report was never ordered, or its result has expired."
    if result.status == "SUCCESSFUL":
        return f"{result.return_value['nights']} nights"
    return "The report could not be created." if result.is_finished else "The report is not ready yet."
