"""Decrypt the arguments of a job for an operator."""

from __future__ import annotations

from typing import Any

from jobexec.encryption import unseal
from jobexec.models import AbstractJob

from ..audit import audited, note_jobs, part


@audited
def reveal(target: AbstractJob, *, using: str) -> Any:
    """Return the decrypted ``handler_configuration`` of a job. The audit log records the access.

    Raises :class:`~jobexec.exceptions.DecryptionFailed` and :class:`~jobexec.exceptions.NotDecryptableYet`.
    """
    configuration = unseal(target.handler_configuration, target.handler_type, target.pk)
    with part(using):
        note_jobs(using, type(target), [target.pk], [target.tenant_id])
    return configuration
