"""The fast form of acquisition: one statement that finds and locks a page, where UPDATE can return rows.

It takes only plain jobs. Other jobs on the page (suspended, or exclusive in a process instance) are unlocked again and
left to the portable form, :mod:`~jobexec.operations.acquire.acquire`, which defines what acquisition means.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from django.db import connections
from django.db.models import F
from django.utils.timezone import make_aware

from jobexec import clock
from jobexec.models import ExclusiveLock, Job

from ..rows.bury_unreadable import UNREADABLE
from ..rows.fencing import LOCK_SQL
from ..rows.suspension_cover import IN_FORCE, suspended_among
from ..sql.dialect import dialect
from ..sql.locks import returns_rows
from ..sql.portable import Dialect
from ..values.acquired_job import AcquiredJob, ServedJobs, columns_sql, in_order
from .cursor import Position

JOB, _LOCK = (model._meta.db_table for model in (Job, ExclusiveLock))
Pair: TypeAlias = tuple[str, str]

_UPDATE = f"""
UPDATE {{job}} SET {LOCK_SQL}
WHERE {{page}} RETURNING {{columns}}, {{suspensions}}"""

_SELECT = "SELECT {columns}, {suspensions} FROM {job} WHERE lock_owner = %(owner)s AND {among}"

# The jobs of one category and deployment: one short run of the acquisition index. Qualified, "rank" needs no quotes
# where it is a reserved word.
_RUN = """
SELECT {columns} FROM {job} WHERE category = {category} AND deployment_id = {deployment} AND lock_owner IS NULL
AND NOT (exclusive AND process_instance_id <> '' AND EXISTS (
  SELECT 1 FROM {lock} AS held WHERE held.process_instance_id = {key}))
{bounds} ORDER BY {job}.rank, id LIMIT %(limit)s"""


class PlainPage(NamedTuple):
    """The locked plain jobs of a page, and whether there were ``others``, which are not locked."""

    jobs: list[AcquiredJob]
    others: bool


_NOTHING = PlainPage([], others=False)


def lock_plain_page(
    using: str,
    owner: str,
    limit: int,
    scope: ServedJobs,
    until: datetime,
    position: Position | None = None,
    *,
    pairs: Sequence[Pair] | None = None,
) -> PlainPage:
    """Lock the first ``limit`` jobs behind ``position`` and return them in order, as they are after locking.

    ``pairs`` of category and deployment are those of the scope, or some of them. Jobs that are not plain are left out.
    The page is empty if there are no other jobs, or if the database or the category order requires the portable form.
    Commits on its own, or joins the caller's transaction.
    """
    connection, spelled = connections[using], dialect(using)
    pairs = scope.pairs() if pairs is None else pairs
    if not (returns_rows(using) and _spells(using, scope, pairs)):
        return _NOTHING
    adapt = connection.ops.adapt_datetimefield_value
    parameters: dict[str, Any] = {"owner": owner, "until": adapt(until), "now": adapt(clock.now(using)), "limit": limit}
    bounds = bounds_of(scope, position, parameters)
    try:
        name_pairs(pairs, parameters, spelled)
        made = _of_page(spelled, len(pairs), bounds, scope.wide)
        with spelled.cursor(connection, prepared=True) as cursor:
            cursor.execute(made, parameters)
            locked = read(using, owner, cursor.fetchall())
    except UNREADABLE:  # one row is unreadable; all are locked by now, and committed
        unlock_page(using, owner, until)
        return PlainPage([], others=True)
    return plain_of(using, owner, locked, until)


def any_free(using: str, scope: ServedJobs, position: Position | None, pairs: Sequence[Pair]) -> bool | None:
    """Whether there is a job behind ``position`` that could be acquired; None if the portable form must look.

    Nothing is locked. An executor without work asks with each look, and to build the portable query takes milliseconds.
    """
    spelled = dialect(using)
    if not _spells(using, scope, pairs):
        return None
    parameters: dict[str, Any] = {"limit": 1}
    bounds = bounds_of(scope, position, parameters)
    name_pairs(pairs, parameters, spelled)
    with spelled.cursor(connections[using], prepared=True) as cursor:
        cursor.execute(_of_any(spelled, len(pairs), bounds), parameters)
        return bool(cursor.fetchone()[0])


def _spells(using: str, scope: ServedJobs, pairs: Sequence[Pair]) -> bool:
    """Whether one statement finds the jobs of these pairs in the order of the scope."""
    return (scope.category_order == "rank" or len(scope.categories) == 1) and len(pairs) <= dialect(using).most_pairs


def bounds_of(scope: ServedJobs, position: Position | None, parameters: dict[str, Any]) -> str:
    """Return the conditions of the scope and the position as SQL; adds their values to the parameters."""
    bounds = ""
    if scope.priority_min is not None:
        bounds += " AND priority >= %(least)s"
        parameters["least"] = scope.priority_min
    if scope.priority_max is not None:
        bounds += " AND priority <= %(most)s"
        parameters["most"] = scope.priority_max
    if position is not None:
        bounds += f" AND {JOB}.rank >= %(rank)s AND ({JOB}.rank, id) > (%(rank)s, %(id)s)"
        parameters |= {"rank": position.rank, "id": position.id}
    return bounds


def name_pairs(pairs: Sequence[Pair], parameters: dict[str, Any], spelled: Dialect) -> None:
    """Add the pairs to the parameters, and spell the position."""
    if len(pairs) == 1:
        parameters["category"], parameters["deployment"] = pairs[0]
    elif spelled.writes_in_with:
        parameters["categories"], parameters["deployments"] = map(list, zip(*pairs, strict=True))
    else:
        for number, pair in enumerate(pairs):
            parameters[f"category{number}"], parameters[f"deployment{number}"] = pair
    if "id" in parameters and not spelled.native_types:
        parameters["id"] = parameters["id"].hex


@lru_cache(maxsize=64)
def _of_any(spelled: Dialect, pairs: int, bounds: str) -> str:
    if pairs == 1:
        return f"SELECT EXISTS ({run_of_one(spelled, '1', bounds)})"
    if spelled.writes_in_with:
        run = run_of_pair(spelled, "1", "pair.category", "pair.deployment", bounds)
        table = "unnest(%(categories)s::text[], %(deployments)s::text[]) AS pair(category, deployment)"
        return f"SELECT EXISTS (SELECT 1 FROM {table} CROSS JOIN LATERAL ({run}) AS run)"
    return f"SELECT EXISTS ({union_of_pairs(spelled, '1', pairs, bounds)})"


@lru_cache(maxsize=64)
def _of_page(spelled: Dialect, pairs: int, bounds: str, wide: bool) -> str:
    if pairs == 1:
        return _at_places(spelled, f"{run_of_one(spelled, spelled.row_place, bounds)} {spelled.skip_locked}", wide)
    columns = f"{spelled.row_place} AS place, rank, id"
    if spelled.writes_in_with:
        run = run_of_pair(spelled, columns, "pair.category", "pair.deployment", bounds)
        runs = f"""unnest(%(categories)s::text[], %(deployments)s::text[]) AS pair(category, deployment)
            CROSS JOIN LATERAL ({run} {spelled.skip_locked}) AS run"""
    else:
        runs = f"({union_of_pairs(spelled, columns, pairs, bounds)})"
    return _at_places(spelled, f"SELECT place FROM {runs} ORDER BY rank, id LIMIT %(limit)s", wide)


def union_of_pairs(spelled: Dialect, columns: str, pairs: int, bounds: str) -> str:
    runs = [run_of_pair(spelled, columns, f"%(category{n})s", f"%(deployment{n})s", bounds) for n in range(pairs)]
    return " UNION ALL ".join(f"SELECT * FROM ({run}) AS run" for run in runs)


def run_of_one(spelled: Dialect, columns: str, bounds: str) -> str:
    return run_of_pair(spelled, columns, "%(category)s", "%(deployment)s", bounds)


def run_of_pair(spelled: Dialect, columns: str, category: str, deployment: str, bounds: str) -> str:
    pair = {"category": category, "deployment": deployment}
    return _RUN.format(columns=columns, job=JOB, lock=_LOCK, key=spelled.serial_key(JOB), bounds=bounds, **pair)


def _at_places(spelled: Dialect, page: str, wide: bool) -> str:
    # The physical place finds a row fastest. A row changed since the statement began is now at another place, is not
    # found, and is left to the next page.
    return update(spelled, spelled.row_place, page, wide)


def update(spelled: Dialect, column: str, page: str, wide: bool) -> str:
    """Return the statement that locks the rows whose ``column`` a SELECT returns."""
    found = f"{column} {spelled.chosen(page)}"
    return _UPDATE.format(page=found, job=JOB, columns=columns_sql(spelled, wide), suspensions=IN_FORCE)


@lru_cache(maxsize=8)
def select(spelled: Dialect, wide: bool) -> str:
    """Return the statement that reads what :func:`update` returns, of the rows in ``ids`` that ``owner`` holds."""
    return _SELECT.format(columns=columns_sql(spelled, wide), suspensions=IN_FORCE, job=JOB, among=spelled.among("ids"))


class Locked(NamedTuple):
    """The jobs locked by one statement, and whether a suspension was in force then."""

    jobs: list[AcquiredJob]
    suspensions: bool


def read(using: str, owner: str, rows: list[tuple[Any, ...]]) -> Locked:
    """Convert the rows that such a statement returns."""
    return Locked(jobs_of(using, owner, (row[:-1] for row in rows)), bool(rows) and bool(rows[0][-1]))


def jobs_of(using: str, owner: str, rows: Iterable[tuple[Any, ...]]) -> list[AcquiredJob]:
    """Convert rows of :func:`~jobexec.operations.values.acquired_job.columns_sql`."""
    one = AcquiredJob if dialect(using).native_types else _converted
    return [one(using, owner, *row) for row in rows]


def _converted(using: str, owner: str, *row: Any) -> AcquiredJob:
    job = AcquiredJob(using, owner, *row)
    job.id = UUID(row[0])
    job.batch_id = UUID(job.batch_id) if job.batch_id is not None else None  # type: ignore[arg-type]
    job.exclusive, job.atomic = bool(job.exclusive), bool(job.atomic)
    job.suspend_requested, job.cancel_requested = bool(job.suspend_requested), bool(job.cancel_requested)
    if job.timeout is not None:
        job.timeout = timedelta(microseconds=int(row[AcquiredJob.COLUMNS.index("timeout")]))
    if job.expires_at is not None:
        job.expires_at = make_aware(job.expires_at, connections[using].timezone)
    return job


def plain_of(using: str, owner: str, locked: Locked, until: datetime) -> PlainPage:
    """Return the jobs that may run as they are, in order, and unlock the others."""
    plain: list[AcquiredJob] = []
    others: list[AcquiredJob] = []
    suspended = suspended_among(using, [job.id for job in locked.jobs]) if locked.suspensions else frozenset()
    for job in locked.jobs:
        runs = not (job.suspend_requested or (job.process_instance_id and job.exclusive) or job.id in suspended)
        (plain if runs else others).append(job)
    if others:
        unlock_page(using, owner, until, pk__in=[job.id for job in others])
    plain.sort(key=in_order)
    return PlainPage(plain, bool(others))


def unlock_page(using: str, owner: str, until: datetime, **among: Any) -> None:
    """Undo the locks of one statement, which are identified by their expiration time.

    The revisions are restored as well: the rows are as before, and no caller has seen another state.
    """
    page = Job.objects.using(using).filter(lock_owner=owner, lock_expiration_time=until, **among)
    page.update(lock_owner=None, lock_expiration_time=None, revision=F("revision") - 1)
