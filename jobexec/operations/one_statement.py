"""The fast form of acquisition: one statement that finds and locks a page, where UPDATE can return rows.

It takes plain pages only: no suspension is in force, no job of the page is suspended by itself or belongs to a process
instance. Any other page it leaves as it is, and :mod:`~jobexec.operations.acquire` does it in the portable form, which
defines what acquisition means.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import F

from jobexec import clock
from jobexec.models import ExclusiveLock, Job, Suspension

from .binary import binary_cursor
from .locking import atomic, returns_rows
from .unreadable import UNREADABLE
from .walk import Position
from .work import LONG, AcquiredJob, Scope

_JOB, _LOCK, _SUSPENSION = (model._meta.db_table for model in (Job, ExclusiveLock, Suspension))
_MANY_PAIRS = 100  # SQLite puts a limit on the terms of a UNION
_INLINE = 1000  # bytes: so short, a value is not stored elsewhere, and need not be measured as text

_CHOSEN = "SELECT place FROM page WHERE NOT EXISTS (SELECT 1 FROM page WHERE odd)"

# MATERIALIZED: the page is looked at twice, and must be the same page.
_UPDATE = """
WITH page AS MATERIALIZED ({page})
UPDATE {job} SET lock_owner = %(owner)s, lock_expiration_time = %(until)s, revision = revision + 1
WHERE {among}
RETURNING {columns}, {configuration}"""

# The jobs of one category and deployment: one short run of the acquisition index.
_RUN = """
SELECT {place} AS place, rank, id, (suspend_requested OR (exclusive AND process_instance_id <> '')) AS odd
FROM {job} WHERE category = {category} AND deployment_id = {deployment} AND lock_owner IS NULL
AND NOT (exclusive AND process_instance_id <> '' AND EXISTS (
  SELECT 1 FROM {lock} AS held WHERE held.process_instance_id = {job}.process_instance_id))
{bounds} ORDER BY rank, id LIMIT %(limit)s"""

_NO_SUSPENSION = """NOT EXISTS (SELECT 1 FROM {suspension} WHERE live
AND (suspend_time IS NULL OR suspend_time <= %(now)s) AND (activate_time IS NULL OR activate_time > %(now)s))"""


def lock_plain_page(
    using: str, owner: str, limit: int, scope: Scope, until: datetime, position: Position | None = None
) -> list[AcquiredJob]:
    """Lock the first ``limit`` jobs behind ``position`` and return them in order, as they are now.

    Empty if nothing is there, if the page is not plain, or if the database or the order of the categories asks for the
    portable form. Commits by itself, or is a part of the caller's transaction.
    """
    connection = connections[using]
    in_order = scope.category_order == "rank" or len(scope.categories) == 1
    if not (in_order and returns_rows(using) and connection.vendor in _FORMS):
        return []
    pairs = scope.pairs()
    if connection.vendor == "sqlite" and len(pairs) > _MANY_PAIRS:
        return []
    adapt = connection.ops.adapt_datetimefield_value
    parameters: dict[str, Any] = {"owner": owner, "until": adapt(until), "now": adapt(clock.now(using)), "limit": limit}
    bounds = _bounds(scope, position, parameters)
    return _FORMS[connection.vendor](using, owner, pairs, bounds, parameters)


def _bounds(scope: Scope, position: Position | None, parameters: dict[str, Any]) -> str:
    """The conditions of the scope and of the position, as SQL; adds their values to the parameters."""
    bounds = ""
    if scope.priority_min is not None:
        bounds += " AND priority >= %(least)s"
        parameters["least"] = scope.priority_min
    if scope.priority_max is not None:
        bounds += " AND priority <= %(most)s"
        parameters["most"] = scope.priority_max
    if position is not None:
        bounds += " AND rank >= %(rank)s AND (rank, id) > (%(rank)s, %(id)s)"
        parameters |= {"rank": position.rank, "id": position.id}
    return bounds


Pairs = list[tuple[str, str]]


def _lock_on_postgresql(
    using: str, owner: str, pairs: Pairs, bounds: str, parameters: dict[str, Any]
) -> list[AcquiredJob]:
    parameters["categories"], parameters["deployments"] = map(list, zip(*pairs, strict=True))
    with binary_cursor(using) as cursor:
        cursor.execute(_on_postgresql(bounds), parameters)
        try:
            return _in_order(AcquiredJob(using, owner, *row) for row in cursor.fetchall())
        except UNREADABLE:  # one of them; all are locked by now, and committed
            _unlock(using, owner, parameters["until"])
            return []


def _unlock(using: str, owner: str, until: datetime) -> None:
    page = Job.objects.using(using).filter(lock_owner=owner, lock_expiration_time=until)
    page.update(lock_owner=None, lock_expiration_time=None, revision=F("revision") + 1)


@cache
def _on_postgresql(bounds: str) -> str:
    run = _RUN.format(
        place="ctid", job=_JOB, lock=_LOCK, category="pair.category", deployment="pair.deployment", bounds=bounds
    )
    page = f"""
        SELECT place, odd FROM unnest(%(categories)s::text[], %(deployments)s::text[]) AS pair(category, deployment)
        CROSS JOIN LATERAL ({run} FOR UPDATE SKIP LOCKED) AS run
        WHERE {_NO_SUSPENSION.format(suspension=_SUSPENSION)} ORDER BY rank, id LIMIT %(limit)s"""
    text = "handler_configuration::text"
    short = f"WHEN pg_column_size(handler_configuration) <= {_INLINE} THEN {text}"
    # By its place a row is found fastest. One that was changed since the statement began is at another place by now,
    # is not found there, and stays for the next page.
    return _UPDATE.format(
        page=page,
        job=_JOB,
        among=f"ctid = ANY (ARRAY ({_CHOSEN}))",
        columns=", ".join(AcquiredJob.COLUMNS),
        configuration=f"CASE {short} WHEN length({text}) <= {LONG} THEN {text} END",
    )


def _lock_on_sqlite(using: str, owner: str, pairs: Pairs, bounds: str, parameters: dict[str, Any]) -> list[AcquiredJob]:
    for number, pair in enumerate(pairs):
        parameters[f"category{number}"], parameters[f"deployment{number}"] = pair
    if "id" in parameters:
        parameters["id"] = parameters["id"].hex
    try:
        with atomic(using), connections[using].cursor() as cursor:  # undone if one of them cannot be read
            cursor.execute(_on_sqlite(len(pairs), bounds), parameters)
            return _in_order(_from_sqlite(row, using, owner) for row in cursor.fetchall())
    except UNREADABLE:
        return []


@cache
def _on_sqlite(pairs: int, bounds: str) -> str:
    runs = [
        _RUN.format(
            place="rowid",
            job=_JOB,
            lock=_LOCK,
            category=f"%(category{number})s",
            deployment=f"%(deployment{number})s",
            bounds=bounds,
        )
        for number in range(pairs)
    ]
    union = " UNION ALL ".join(f"SELECT * FROM ({run})" for run in runs)
    no_suspension = _NO_SUSPENSION.format(suspension=_SUSPENSION)
    return _UPDATE.format(
        page=f"SELECT place, odd FROM ({union}) WHERE {no_suspension} ORDER BY rank, id LIMIT %(limit)s",
        job=_JOB,
        among=f"rowid IN ({_CHOSEN})",
        columns=", ".join(AcquiredJob.COLUMNS),
        configuration=f"CASE WHEN length(handler_configuration) <= {LONG} THEN handler_configuration END",
    )


def _from_sqlite(row: tuple[Any, ...], using: str, owner: str) -> AcquiredJob:
    job = AcquiredJob(using, owner, *row)
    job.id = UUID(row[0])
    job.exclusive, job.atomic = bool(job.exclusive), bool(job.atomic)
    job.suspend_requested, job.cancel_requested = bool(job.suspend_requested), bool(job.cancel_requested)
    if job.timeout is not None:
        job.timeout = timedelta(microseconds=int(row[AcquiredJob.COLUMNS.index("timeout")]))
    return job


def _in_order(jobs: Iterable[AcquiredJob]) -> list[AcquiredJob]:
    return sorted(jobs, key=lambda job: (job.rank, job.id.int))


_FORMS = {"postgresql": _lock_on_postgresql, "sqlite": _lock_on_sqlite}
