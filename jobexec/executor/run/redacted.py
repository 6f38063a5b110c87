"""Removes the sensitive values of a job from its failures."""

from __future__ import annotations

from dataclasses import replace

from jobexec.exceptions import HandlerNotFound
from jobexec.handlers.base import JobHandler
from jobexec.handlers.registry import get_handler
from jobexec.operations.values.acquired_job import AcquiredJob
from jobexec.operations.values.failure import STACK_LENGTH, Failure
from jobexec.redaction import secrets_of
from jobexec.sensitive import redact_text


def without_secrets(text: str, work: AcquiredJob, arguments: str | None) -> str:
    """A text about a job, without the sensitive values in its arguments. Never raises."""
    try:
        return redact_text(text, secrets_of(_handler_of(work), arguments), STACK_LENGTH)
    except Exception as problem:
        return f"(a text that could not be redacted: {type(problem).__name__})"


def _handler_of(work: AcquiredJob) -> JobHandler | None:
    try:
        return get_handler(work.handler_type)
    except HandlerNotFound:
        return None


def redacted(failure: Failure, handler: JobHandler | None, arguments: str | None) -> Failure:
    """The failure as it may be recorded and logged; ``arguments`` is the JSON in the job's row. Never raises.

    The exception itself is not changed: retry plans and signal receivers in this process inspect it.
    """
    try:
        secrets = secrets_of(handler, arguments)
        if not secrets:
            return failure
        message, stack = (redact_text(text, secrets, STACK_LENGTH) for text in (failure.message, failure.stack))
        return replace(failure, message=message, stack=stack)
    except Exception as problem:  # rather no text than a secret
        name = type(failure.error).__name__
        return replace(failure, message=f"{name}, which could not be redacted ({type(problem).__name__})", stack="")
