"""The fast form of completion: one statement that deletes and logs jobs, where DELETE can return rows, or else two.

The portable form is in :mod:`~jobexec.operations.settle.complete`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import connections

from jobexec import clock
from jobexec.models import Job, JobLog, LogState

from ..history.job_log import COPIED
from ..rows.fencing import held_sql
from ..rows.tallies import COUNTED, OPEN, batches_of, look_after
from ..sql.dialect import dialect
from ..sql.locks import atomic, has_json_rows
from ..sql.portable import Dialect
from ..values.acquired_job import AcquiredJob
from ..values.run import Run

#: The number of cached texts per kind of statement; they vary with the data, for example with the number of groups.
KEPT = 64

#: Of more jobs, planning is a small part.
_FEW = 32

_JOB, _LOG = Job._meta.db_table, JobLog._meta.db_table
_COPIED = ", ".join(COPIED)
_INTO = f"INSERT INTO {_LOG} (job_id, timestamp, state, attempt, retries, node, duration, wait, {_COPIED}, {{rest}})"
_VALUES = (
    f"id, %(now)s, '{LogState.SUCCESSFUL}', attempts + 1, retries, {{node}}, duration, {{wait}}, {_COPIED}, {{rest}}"
)
_NAMED = {"job_id", "timestamp", "state", "attempt", "retries", "node", "duration", "wait", *COPIED}
#: Columns of the log that are empty for a success; all are texts.
_REST = [field.name for field in JobLog._meta.concrete_fields if not field.primary_key and field.name not in _NAMED]
_INSERT = _INTO.format(rest=", ".join(_REST))
_EMPTY = ", ".join("''" for _ in _REST)


def delete_ours(
    using: str, owner: str, jobs: Sequence[AcquiredJob], runs: Mapping[UUID, Run], *, counted: bool = False
) -> set[UUID]:
    """Delete the jobs that ``owner`` still holds at their revision, and return the ids of the others.

    A log row is written for each deleted job in ``runs``, which must contain all or none of the jobs. Rows that are not
    ours are not changed; no other rows are read, and no row is locked before it is deleted. With ``counted``, where
    WITH can write, children of batches are counted.
    """
    connection, spelled = connections[using], dialect(using)
    parameters: dict[str, Any] = {"owner": owner}
    condition = held_sql(jobs, parameters, spelled)
    if runs:
        parameters["now"] = connection.ops.adapt_datetimefield_value(clock.now(using))
    with spelled.cursor(connection, prepared=len(jobs) <= _FEW) as cursor:
        if counted:
            batches = batches_of(jobs)
            parameters["batches"] = spelled.id_list(batches)
            statement = _logged_at_once(condition, counted=True) if runs else _counted(condition)
            cursor.execute(statement, parameters | (as_arrays(runs, spelled) if runs else {}))
            return lost_of_batches(using, cursor, jobs, batches)
        if not runs:
            cursor.execute(f"DELETE FROM {_JOB} WHERE {condition} RETURNING id", parameters)
        elif spelled.writes_in_with:
            cursor.execute(_logged_at_once(condition, counted=False), parameters | as_arrays(runs, spelled))
        else:
            return _logged_before(using, cursor, condition, parameters, jobs, runs)
        return lost(cursor, jobs)


def lost_of_batches(using: str, cursor: Any, jobs: Sequence[AcquiredJob], batches: Collection[UUID]) -> set[UUID]:
    """Call :func:`lost` for a statement that has also counted children, and look at their batches if that is due."""
    first = cursor.fetchone()
    if first is not None:
        look_after(using, batches, first[1])
    if cursor.rowcount == len(jobs):
        return set()
    deleted = {pk for pk, _ in [*([first] if first else []), *cursor.fetchall()]}
    return {job.id for job in jobs} - deleted


def lost(cursor: Any, jobs: Sequence[AcquiredJob]) -> set[UUID]:
    """Return the ids of the jobs that a statement, which returns the deleted ids, has not deleted."""
    if cursor.rowcount == len(jobs):  # nearly always
        return set()
    found = cursor.fetchall()
    if len(found) == len(jobs):  # SQLite knows the number only after all rows are fetched
        return set()
    deleted = {pk if isinstance(pk, UUID) else UUID(pk) for (pk,) in found}
    return {job.id for job in jobs} - deleted


def delete_one(using: str, owner: str, job: AcquiredJob) -> bool:
    """Delete one job, without a log row, if ``owner`` still holds it at its revision. Needs no RETURNING."""
    connection = connections[using]
    with connection.cursor() as cursor:
        cursor.execute(_DELETE_ONE, [_ID.get_db_prep_value(job.id, connection), owner, job.revision])
        return bool(cursor.rowcount)


class NotOurs(Exception):
    """Some of the jobs are no longer held by their owner; the transaction must be rolled back."""


def delete_all(using: str, owner: str, jobs: Sequence[AcquiredJob]) -> None:
    """Delete jobs of one revision, without log rows, if ``owner`` still holds all of them.

    For databases whose DELETE returns no rows, and so does not say which it has deleted. Raises :class:`NotOurs` if
    these were not all.
    """
    connection = connections[using]
    beginning = dialect(using).delete_listed(connection, True).format(table=connection.ops.quote_name(_JOB))
    ids = [_ID.get_db_prep_value(job.id, connection) for job in jobs]
    statement = f"{beginning} WHERE id IN ({', '.join(['%s'] * len(ids))}) AND (lock_owner = %s AND revision = %s)"
    with connection.cursor() as cursor:
        # With IS TRUE no index serves the further conditions: the rows are found, and locked, by the list.
        cursor.execute(f"{statement} IS TRUE", [*ids, owner, jobs[0].revision])
        if cursor.rowcount < len(jobs):
            raise NotOurs


def lock_ours(using: str, owner: str, jobs: Iterable[AcquiredJob]) -> set[UUID]:
    """Lock the jobs that ``owner`` still holds at their revision, in the order of their ids, and return these."""
    spelled, revisions = dialect(using), {job.id: job.revision for job in jobs}
    statement = f"SELECT id, revision FROM {_JOB} WHERE lock_owner = %(owner)s AND {spelled.among('ids')} ORDER BY id"
    with spelled.cursor(connections[using]) as cursor:
        cursor.execute(f"{statement} {spelled.locks}", {"owner": owner, "ids": spelled.id_list(revisions)})
        found = [(pk if isinstance(pk, UUID) else UUID(pk), revision) for pk, revision in cursor.fetchall()]
    return {pk for pk, revision in found if revisions[pk] == revision}


_ID = Job._meta.pk
_DELETE_ONE = f"DELETE FROM {_JOB} WHERE id = %s AND lock_owner = %s AND revision = %s"


#: Inserts the log rows from ``gone``, the deleted rows, and ``run``.
LOGGED = f"""logged AS ({_INSERT} SELECT {
    _VALUES.format(
        node="coalesce(node, %(node)s)",
        wait="greatest(0.0, started - date_part('epoch', coalesce(due_date, create_time)))",
        rest=_EMPTY,
    )
} FROM gone JOIN run USING (id))"""
#: The columns of a deleted row that it needs.
RETURNED = f"id, attempts, retries, create_time, {_COPIED}"


@lru_cache(maxsize=KEPT)
def _counted(condition: str) -> str:
    return f"""
        WITH gone AS (DELETE FROM {_JOB} WHERE {condition} RETURNING id, batch_id, handler_type), {COUNTED}
        SELECT id, {OPEN} FROM gone"""


@lru_cache(maxsize=KEPT)
def _logged_at_once(condition: str, *, counted: bool) -> str:
    return f"""
        WITH run AS (
          SELECT * FROM unnest(%(runs)s::uuid[], %(started)s::float8[], %(durations)s::float8[], %(nodes)s::text[])
          AS run(id, started, duration, node)),
        gone AS (DELETE FROM {_JOB} WHERE {condition} RETURNING {RETURNED}{", batch_id" if counted else ""}),
        {LOGGED}{f", {COUNTED}" if counted else ""}
        SELECT id{f", {OPEN}" if counted else ""} FROM gone"""


def as_arrays(runs: Mapping[UUID, Run], spelled: Dialect) -> dict[str, Any]:
    """Convert runs to parameters: arrays of their ids, starts (in seconds since 1970), durations and nodes.

    ``nodes`` is empty if all are ``node``, which is nearly always so: unnest() fills up a shorter array with NULL.
    """
    nodes = [run.node for run in runs.values()]
    return {
        "runs": spelled.id_list(runs),
        "started": spelled.float_list([run.started_at.timestamp() for run in runs.values()]),
        "durations": spelled.float_list([run.duration for run in runs.values()]),
        "node": nodes[0],
        "nodes": nodes if nodes.count(nodes[0]) < len(nodes) else [],
    }


def _logged_before(
    using: str,
    cursor: Any,
    condition: str,
    parameters: dict[str, Any],
    jobs: Sequence[AcquiredJob],
    runs: Mapping[UUID, Run],
) -> set[UUID]:
    with atomic(using):
        log_runs(using, parameters["owner"], jobs, runs)
        cursor.execute(f"DELETE FROM {_JOB} WHERE {condition} RETURNING id", parameters)
        return lost(cursor, jobs)


def log_runs(using: str, owner: str, jobs: Iterable[AcquiredJob], runs: Mapping[UUID, Run]) -> None:
    """Write a log row for each of these runs whose job ``owner`` still holds at its revision; see :func:`can_log_runs`.

    The rows of the jobs must be locked. As long as MariaDB waited for one of them, all who write to the log would wait.
    """
    adapt = connections[using].ops.adapt_datetimefield_value
    told = []
    for job in {job.id: job for job in jobs}.values():  # an outcome that came twice counts once
        run = runs[job.id]
        told.append((job.id.hex, job.revision, adapt(run.started_at), run.duration, run.node))
    parameters = {"owner": owner, "now": adapt(clock.now(using)), "runs": json.dumps(told, default=str)}
    with connections[using].cursor() as cursor:
        cursor.execute(_log_of_runs(dialect(using)), parameters)


def can_log_runs(using: str) -> bool:
    """Whether the database can write log rows from those of the jobs and from runs that are passed as JSON.

    Ids that are texts may have another collation than those from JSON. Local times do not tell how long a wait was in
    which summer time began.
    """
    connection = connections[using]
    if not has_json_rows(using):
        return False
    return dialect(using).single_writer or (
        connection.features.has_native_uuid_field and connection.timezone_name == "UTC"
    )


@lru_cache
def _log_of_runs(spelled: Dialect) -> str:
    columns = {"run_id": "id", "held": "number", "started": "time", "duration": "number", "node": "text"}
    wait = spelled.seconds("coalesce(due_date, create_time)", "started")
    return f"""
        {_INSERT} SELECT {_VALUES.format(node="node", wait=wait, rest=_EMPTY)}
        FROM {spelled.given("run", columns, "%(runs)s")} {spelled.looked_up.format(_JOB)} ON id = run_id
        WHERE lock_owner = %(owner)s AND revision = held"""
