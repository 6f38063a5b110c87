"""Jobs on the command line: named by id, or by the key by which external workers know them."""

from __future__ import annotations

from argparse import ArgumentTypeError
from uuid import UUID

from django.utils.translation import gettext as _

from jobexec.exceptions import JobNotFound
from jobexec.identifiers import as_id
from jobexec.operations.external import find_external_job
from jobexec.operations.query.values import as_key

from ..output.screen import usage


def job(text: str) -> UUID | int:
    """An argparse type: the id or the key of a job."""
    named = as_id(text) or as_key(text)
    if named is None:
        raise ArgumentTypeError(f"expected the id of a job, a UUID, or the key of an external job; got {text!r}")
    return named


def id_of(named: UUID | int, using: str) -> UUID:
    """The id of the named job. Raises CommandError for a key that no job has."""
    if isinstance(named, UUID):
        return named
    try:
        return find_external_job(using, named).pk
    except JobNotFound:
        raise usage(
            _("No job has the key %(key)s: the job is done or deleted, or never existed.") % {"key": named}
        ) from None
