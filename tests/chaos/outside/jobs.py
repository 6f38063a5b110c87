"""What runs in the executors when a worker has ended a job: a row that is written exactly once."""

import os
import time
from typing import Any

from django.db import connection

from jobexec import JobContext, job

from .instrument import journal


def _write(context: JobContext, seconds: float) -> None:
    journal().write("begin", job=context.id)
    try:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO chaos_effect (job_id, pid) VALUES (%s, %s)", [str(context.id), os.getpid()])
        time.sleep(seconds)
    finally:
        journal().write("end", job=context.id)


@job(atomic=True, retries="R9/PT0.3S")
def effect(context: JobContext, variables: dict[str, Any]) -> None:
    """In the transaction that ends the job."""
    _write(context, 0)


@job(atomic=True, retries="R9/PT0.3S")
def slow_effect(context: JobContext, variables: dict[str, Any]) -> None:
    """The same, long enough to be killed in between."""
    _write(context, 0.3)


@job(atomic=True, retries="R9/PT0.3S")
def caught(context: JobContext, variables: dict[str, Any], error_code: str, error_message: str) -> None:
    """The end of an error that the project has foreseen."""
    _write(context, 0)
