"""Tasks as the documentation of Django declares them. Imported when TASKS names the backend that they are for."""

import logging

from django.core.mail import send_mail

from demo_project.bookings.models import Booking
from jobexec.backends.compat import task

logger = logging.getLogger(__name__)


@task
def email_users(emails, subject, message):
    return send_mail(subject=subject, message=message, from_email=None, recipient_list=emails)


@task(priority=2, queue_name="emails")
def email_users_soon(emails):
    return len(emails)


@task(takes_context=True)
def email_with_context(context, emails):
    logger.debug(f"Attempt {context.attempt}. Task result id: {context.task_result.id}.")
    return [context.attempt, context.task_result.status, context.task_result.attempts]


@task()
def double_dictionary(key):
    return {key: key * 2}


@task
def process_data(moment):
    return moment


@task
def find_booking(visitor):
    return Booking.objects.get(visitor=visitor).pk


@task
def calculate():
    return 42


@task
async def calculate_async():
    return 43


@task(takes_context=True)
def look_at_itself(context):
    """How its result is found while it runs."""
    found = look_at_itself.get_result(context.task_result.id)
    try:
        message = found.return_value
    except ValueError as error:
        message = str(error)
    return [found.status, found.started_at is not None, message]


@task
def fails():
    raise ValueError("of course")
