"""The arguments of a run, decrypted if they are encrypted in the row."""

from __future__ import annotations

from typing import Any

from jobexec.encryption import may_be_sealed, unseal_text
from jobexec.exceptions import UnreadableJob
from jobexec.handlers.base import JobHandler

from .outcomes import Outcome


def read(handler: JobHandler, outcome: Outcome, text: str) -> Any:
    """Read the arguments in the JSON of a row as the handler does.

    Raises :class:`~jobexec.exceptions.DecryptionFailed` and :class:`~jobexec.exceptions.NotDecryptableYet`. No error
    quotes what was decrypted.
    """
    if not may_be_sealed(text):
        return handler.read(text)
    plain = unseal_text(text, outcome.work.handler_type, outcome.work.id)
    if plain is None:
        return handler.read(text)
    outcome.encrypted = True
    try:
        return handler.read(plain)
    except UnreadableJob:
        raise UnreadableJob(f"The decrypted arguments cannot be read for {handler.name}; they are not shown.") from None
