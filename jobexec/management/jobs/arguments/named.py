"""Jobs as they are named on the command line: by their ids, or by the keys by which workers outside know them."""

from __future__ import annotations

from argparse import ArgumentTypeError
from uuid import UUID

from django.utils.translation import gettext as _

from jobexec.exceptions import JobNotFound
from jobexec.operations.external import find_external_job
from jobexec.operations.query.values import as_key
from jobexec.operations.targets.lookup import as_id

from ..output.screen import usage


def job(text: str) -> UUID | int:
    """An id, or a key."""
    named = as_id(text) or as_key(text)
    if named is None:
        raise ArgumentTypeError(f"expected the id of a job, a UUID, or the key of an external job; got {text!r}")
    return named


def id_of(named: UUID | int, using: str) -> UUID:
    """The id of the job that is named so. Raises CommandError for a key that no job has."""
    if isinstance(named, UUID):
        return named
    try:
        return find_external_job(using, named).pk
    except JobNotFound:
        raise usage(
            _("No job has the key %(key)s: the job is done or deleted, or never existed.") % {"key": named}
        ) from None
