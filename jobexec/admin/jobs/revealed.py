"""The arguments of an encrypted job, for users who may see them, when they ask for it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from jobexec.encryption import envelope_of
from jobexec.exceptions import DecryptionFailed, NotDecryptableYet
from jobexec.models import AbstractJob
from jobexec.operations.manage.reveal import reveal

#: The parameter in the address of a job's page.
REVEAL = "reveal"


def offer_to_reveal(request: HttpRequest, job: AbstractJob) -> None:
    """Show a link on the page of an encrypted job, or if the request asks for them, its arguments."""
    if not envelope_of(job.handler_configuration):
        return
    if REVEAL not in request.GET:
        vars(job)["offers_to_reveal"] = True
        return
    known: dict[Any, Any] = vars(request).setdefault("_jobexec_revealed", {})  # Django loads a row twice
    if job.pk not in known:
        known[job.pk] = _revealed(job)
    vars(job)["revealed"] = known[job.pk]


def _revealed(job: AbstractJob) -> Any:
    try:
        return reveal(job, using=job._state.db or "default")
    except (DecryptionFailed, NotDecryptableYet) as error:
        return str(error)
