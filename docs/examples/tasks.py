"""Tasks with the options of jobs. docs/how-to/django-tasks/use-django-tasks.md shows them."""

from __future__ import annotations

import jobexec
from demo_project.bookings.models import Booking
from jobexec.backends.compat import TaskResultStatus, task  # in a project: from django.tasks import ...


@task
def count_nights(booking_id: int) -> int:
    return Booking.objects.get(pk=booking_id).nights


@jobexec.options(retries="R5/PT5M", exclusive=True, timeout=60, sensitive=["card"])
@task(queue_name="mail")
def charge(booking_id: int, card: str) -> str:
    return f"{booking_id} is paid"


@task(takes_context=True)
def print_tickets(context, booking_ids: list[int]) -> int:
    for done, _booking in enumerate(booking_ids):
        context.job.progress(done, len(booking_ids))
        if context.job.shutting_down and context.attempt < 3:
            raise jobexec.RetryIn(0)
    return len(booking_ids)


def pay(booking: Booking, card: str) -> str:
    call = jobexec.options(charge, process_instance_id=f"booking-{booking.pk}", delay=30)
    return str(call.enqueue(booking.pk, card).id)


def state(result_id: str) -> str:
    result = charge.get_result(result_id)
    if result.status == TaskResultStatus.FAILED:
        return f"failed {result.attempts} times, last: {result.errors[-1].exception_class_path}"
    return result.return_value if result.is_finished else f"attempt {result.attempts + 1} is to come"
