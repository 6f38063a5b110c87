"""Removes the sensitive values of a job from its failures."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jobexec.encryption import NOT_RECORDED
from jobexec.exceptions import DecryptionFailed, NotDecryptableYet
from jobexec.handlers.base import JobHandler
from jobexec.handlers.registry import find_handler
from jobexec.operations.values.failure import STACK_LENGTH, Failure
from jobexec.operations.values.messages import ReceivedMessage
from jobexec.redaction import secrets_of
from jobexec.sensitive import noted_values, redact_text

from .stack import stack_without_texts

if TYPE_CHECKING:
    from .outcomes import Outcome


def without_secrets(text: str, outcome: Outcome, error: BaseException | None = None) -> str:
    """A text about a job and an error, without sensitive values. Never raises.

    These are the ones in its arguments, in its message, and those that were noted with the error.
    """
    if outcome.encrypted:
        return NOT_RECORDED
    try:
        return redact_text(text, _secrets(find_handler(outcome.work.handler_type), outcome, error), STACK_LENGTH)
    except Exception as problem:
        return f"(a text that could not be redacted: {type(problem).__name__})"


def _secrets(handler: JobHandler | None, outcome: Outcome, error: BaseException | None) -> list[Any]:
    work = outcome.work
    found = secrets_of(handler, outcome.arguments or work.configuration) + noted_values(error)
    if work.message is not None:
        with suppress(DecryptionFailed, NotDecryptableYet):  # then the handler has not read it either
            payload = ReceivedMessage.read(work.message).payload
            found += secrets_of(handler, json.dumps(payload, ensure_ascii=False))
    return found


def redacted(failure: Failure, handler: JobHandler | None, outcome: Outcome) -> Failure:
    """The failure as it may be recorded and logged. Never raises.

    The exception itself is not changed: retry plans and signal receivers in this process inspect it. Of a handler that
    got decrypted arguments no text is kept: it could spell them in any way.
    """
    error = failure.error
    if outcome.encrypted and outcome.began and error is not None:
        stack = stack_without_texts(error) if failure.stack else ""
        return replace(failure, message=f"{type(error).__name__}: {NOT_RECORDED}", stack=stack)
    if outcome.encrypted and outcome.began:
        return replace(failure, message=NOT_RECORDED, stack="")
    try:
        secrets = _secrets(handler, outcome, error)
        if not secrets:
            return failure
        message, stack = (redact_text(text, secrets, STACK_LENGTH) for text in (failure.message, failure.stack))
        return replace(failure, message=message, stack=stack)
    except Exception as problem:  # rather no text than a secret
        name = type(failure.error).__name__
        return replace(failure, message=f"{name}, which could not be redacted ({type(problem).__name__})", stack="")
