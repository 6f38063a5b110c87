"""Rows on the command line: named by an id or its beginning, jobs also by their key, and nodes by their name."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from typing import NamedTuple, TypeAlias
from uuid import UUID

from django.db.models import Model
from django.utils.translation import gettext as _

from jobexec.exceptions import JobNotFound
from jobexec.identifiers import as_id
from jobexec.operations.external import find_external_job
from jobexec.operations.manage.nodes import living_nodes
from jobexec.operations.query.values import as_key
from jobexec.operations.targets.lookup import beginning_with, jobs_beginning_with

from ..output.screen import usage

#: Shorter beginnings of ids mean hours: an id begins with the time of its creation.
LEAST = 6
#: How many rows an error about an ambiguous beginning lists.
LISTED = 10

_BEGINNING = re.compile(rf"([0-9a-f]{{{LEAST},31}})(?:…([0-9a-f]{{0,12}}))?")


class Beginning(NamedTuple):
    """The first hexadecimal digits of an id; with its last ones if they are behind a "…", as in a narrow terminal."""

    digits: str
    end: str
    text: str


Named: TypeAlias = UUID | int | Beginning


def job(text: str) -> Named:
    """An argparse type: the id of a job, its beginning, or its key."""
    key = None if text.startswith("0") else as_key(text)
    found = as_id(text) or key or beginning(text)
    if found is None:
        expected = f"expected the id of a job, a UUID or at least the first {LEAST} digits of it, or the key of an"
        raise ArgumentTypeError(f"{expected} external job; got {text!r}")
    return found


def row(text: str) -> UUID | Beginning:
    """An argparse type: the id of a row that is no job, or its beginning."""
    found = as_id(text) or beginning(text)
    if found is None:
        raise ArgumentTypeError(f"expected an id, a UUID or at least the first {LEAST} digits of it; got {text!r}")
    return found


def beginning(text: str) -> Beginning | None:
    """The beginning of an id; None for a text that is none."""
    found = _BEGINNING.fullmatch(text.replace("-", "").lower())
    return Beginning(found[1], found[2] or "", text) if found else None


def id_of(named: Named, using: str) -> UUID:
    """The id of the named job. Raises CommandError for a key that no job has, and a beginning of no or several ids."""
    if isinstance(named, UUID):
        return named
    if isinstance(named, int):
        try:
            return find_external_job(using, named).pk
        except JobNotFound:
            start = beginning(str(named))
            if start is None or not (found := jobs_beginning_with(start.digits, using, LISTED + 1)):
                raise usage(
                    _("No job has the key %(key)s: the job is done or deleted, or never existed.") % {"key": named}
                ) from None
            return _only(found, _several(start))
    found = jobs_beginning_with(named.digits, using, LISTED + 1, named.end)
    if not found:
        raise usage(
            _("No job has an id that begins with %(text)s: it is done or deleted, or never existed.")
            % {"text": named.text}
        )
    return _only(found, _several(named))


def row_id(named: UUID | Beginning, model: type[Model], using: str) -> UUID:
    """The id of the named row of a table with UUIDs. Raises CommandError as :func:`id_of`."""
    if isinstance(named, UUID):
        return named
    rows = beginning_with(model._base_manager.using(using), named.digits, end=named.end)
    found = {id: str(model._meta.verbose_name) for id in rows.order_by("pk").values_list("pk", flat=True)[: LISTED + 1]}
    if not found:
        raise usage(_("Nothing here has an id that begins with %(text)s.") % {"text": named.text})
    return _only(found, _several(named))


def node(text: str, using: str) -> UUID | str:
    """The id of the living node with this name, id or beginning of an id; a text that is none of them as it is.

    Raises CommandError for a name that several living nodes have, and a beginning of several ids.
    """
    living, id, start = living_nodes(using).told_apart().order_by("pk"), as_id(text), beginning(text)
    found = {row.pk: row.label for row in living.filter(name=text)[: LISTED + 1]}
    if found:
        said = _("Several living nodes have the name %(name)s; enter the id of one of them, or its first digits:")
        return _only(found, said % {"name": text})
    if id is None and start is not None:
        found = {row.pk: row.label for row in beginning_with(living, start.digits, end=start.end)[: LISTED + 1]}
        return _only(found, _several(start)) if found else text
    return id or text


def _several(named: Beginning) -> str:
    return _("Several ids begin with %(text)s; enter more digits:") % {"text": named.text}


def _only(found: dict[UUID, str], otherwise: str) -> UUID:
    """The only id. Raises CommandError with all of them if there are several."""
    if len(found) == 1:
        return next(iter(found))
    lines = [f"  {id}  {what}" for id, what in list(found.items())[:LISTED]]
    more = ["  …"] if len(found) > LISTED else []
    raise usage("\n".join([otherwise, *lines, *more]))
