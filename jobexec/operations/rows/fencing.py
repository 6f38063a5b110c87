"""Locks of jobs: what locking and unlocking write, and whether an acquisition still holds its rows.

An acquisition is an owner and a revision. Locking raises the revision, and so does unlocking: a row that was lost and
acquired again differs, even if the owner is the same. Whatever an acquisition writes is fenced by both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F, QuerySet

from jobexec.models import AbstractJob

from ..sql.locks import lock_rows
from ..sql.portable import Dialect
from ..values.acquired_job import AcquiredJob

#: What locking sets, as SQL with the parameters ``owner`` and ``until``.
LOCK_SQL = "lock_owner = %(owner)s, lock_expiration_time = %(until)s, revision = revision + 1"
#: The columns of a job that nobody holds, besides its revision.
UNLOCKED: Mapping[str, None] = {"lock_owner": None, "lock_expiration_time": None, "start_time": None}


def locked(owner: str, until: datetime) -> dict[str, Any]:
    """The columns that locking sets, for ``update()``."""
    return {"lock_owner": owner, "lock_expiration_time": until, "revision": F("revision") + 1}


def unlocked() -> dict[str, Any]:
    """The columns that unlocking sets, for ``update()``."""
    return {**UNLOCKED, "revision": F("revision") + 1}


def lock_unchanged(rows: QuerySet[Any], revisions: Mapping[Any, int], *, skip_locked: bool = False) -> set[Any]:
    """Lock the rows that still have these revisions, by id; return their ids.

    Sort ``rows`` by id if other transactions wait for them too, so that they cannot deadlock.
    """
    found = lock_rows(rows.filter(pk__in=revisions), skip_locked=skip_locked).values_list("pk", "revision")
    return {pk for pk, revision in found if revisions[pk] == revision}


def held_sql(jobs: Iterable[AcquiredJob], parameters: dict[str, Any], spelled: Dialect) -> str:
    """The condition, in SQL, for rows that ``owner`` (a parameter) still holds at their revisions."""
    return f"lock_owner = %(owner)s AND {unchanged_sql(jobs, parameters, spelled)}"


def unchanged_sql(jobs: Iterable[AcquiredJob | AbstractJob], parameters: dict[str, Any], spelled: Dialect) -> str:
    """The condition, in SQL, for rows that have the revisions of these jobs.

    Ids and revisions are parameters: statements are cached by their text, and there is one for each number of
    different revisions (nearly always one or two), not one for each revision that a row ever had.
    """
    ids: dict[int, list[UUID]] = {}
    for job in jobs:
        if (group := ids.get(job.revision)) is None:
            group = ids[job.revision] = []
        group.append(job.id)
    terms = []
    for number, (revision, group) in enumerate(ids.items()):
        parameters[f"revision{number}"], parameters[f"ids{number}"] = revision, spelled.id_list(group)
        terms.append(f"(revision = %(revision{number})s AND {spelled.among(f'ids{number}')})")
    return f"({' OR '.join(terms)})"
