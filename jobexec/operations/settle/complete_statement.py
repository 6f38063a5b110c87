"""The fast form of completion: one statement that deletes jobs, where DELETE can return rows; logs them as well.

The portable form is in :mod:`~jobexec.operations.settle.complete`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import connections

from jobexec import clock
from jobexec.models import Job, JobLog, LogState

from ..history.job_log import COPIED
from ..sql.dialect import dialect
from ..sql.locks import atomic
from ..sql.portable import Dialect
from ..values.acquired_job import AcquiredJob
from ..values.run import Run

#: So many texts of one kind of statement are kept: of what varies with the data, numbers of groups for example.
KEPT = 64

_JOB, _LOG = Job._meta.db_table, JobLog._meta.db_table
_COPIED = ", ".join(COPIED)
_INTO = f"INSERT INTO {_LOG} (job_id, timestamp, state, attempt, retries, node, duration, wait, {_COPIED}, {{rest}})"
_VALUES = f"id, %(now)s, '{LogState.SUCCESSFUL}', attempts + 1, retries, node, duration, {{wait}}, {_COPIED}, {{rest}}"
_NAMED = {"job_id", "timestamp", "state", "attempt", "retries", "node", "duration", "wait", *COPIED}
#: Columns of the log that say nothing of a success; all are texts.
_REST = [field.name for field in JobLog._meta.concrete_fields if not field.primary_key and field.name not in _NAMED]
_INSERT = _INTO.format(rest=", ".join(_REST))
_EMPTY = ", ".join("''" for _ in _REST)


def delete_ours(using: str, owner: str, jobs: Sequence[AcquiredJob], runs: Mapping[UUID, Run]) -> set[UUID]:
    """Delete those jobs that ``owner`` still holds at their revision, and return the ids of the others.

    For each of them that is in ``runs`` a log row is written; all or none of the jobs must be in it. A row changes
    nothing if it is not ours; nothing else is looked at, and no row is locked before it is deleted.
    """
    connection, spelled = connections[using], dialect(using)
    parameters: dict[str, Any] = {"owner": owner}
    condition = ours(jobs, parameters, spelled)
    if runs:
        parameters["now"] = connection.ops.adapt_datetimefield_value(clock.now(using))
    with connection.cursor() as cursor:
        if not runs:
            cursor.execute(f"DELETE FROM {_JOB} WHERE {condition} RETURNING id", parameters)
        elif spelled.writes_in_with:
            cursor.execute(_logged_at_once(condition), parameters | as_arrays(runs))
        else:
            return _logged_before(using, cursor, condition, parameters, jobs, runs)
        return lost(cursor, jobs)


def ours(jobs: Iterable[AcquiredJob], parameters: dict[str, Any], spelled: Dialect) -> str:
    """The condition for rows still held at their revisions: nearly always one or two.

    Owner, ids and revisions are parameters: statements are kept by their text, and there is one for each number of
    different revisions, not one for each revision that a row ever had.
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
    return f"lock_owner = %(owner)s AND ({' OR '.join(terms)})"


def lost(cursor: Any, jobs: Sequence[AcquiredJob]) -> set[UUID]:
    """The ids of those that a statement, which returns ids, has not deleted."""
    if cursor.rowcount == len(jobs):  # nearly always; SQLite does not know before all rows are fetched
        return set()
    deleted = {pk if isinstance(pk, UUID) else UUID(pk) for (pk,) in cursor.fetchall()}
    return {job.id for job in jobs} - deleted


#: What a run leaves in the log, from ``gone``, the rows that were deleted, and ``run``.
LOGGED = f"""logged AS ({_INSERT} SELECT {
    _VALUES.format(
        wait="greatest(0.0, extract(epoch FROM started - coalesce(due_date, create_time)))::float8", rest=_EMPTY
    )
} FROM gone JOIN run USING (id))"""
#: What it needs of a row.
RETURNED = f"id, attempts, retries, create_time, {_COPIED}"


@lru_cache(maxsize=KEPT)
def _logged_at_once(condition: str) -> str:
    return f"""
        WITH run AS (
          SELECT * FROM unnest(%(runs)s::uuid[], %(started)s::timestamptz[], %(durations)s::float8[], %(nodes)s::text[])
          AS run(id, started, duration, node)),
        gone AS (DELETE FROM {_JOB} WHERE {condition} RETURNING {RETURNED}),
        {LOGGED}
        SELECT id FROM gone"""


def as_arrays(runs: Mapping[UUID, Run]) -> dict[str, Any]:
    """Runs as arrays of parameters."""
    return {
        "runs": list(runs),
        "started": [run.started_at for run in runs.values()],
        "durations": [run.duration for run in runs.values()],
        "nodes": [run.node for run in runs.values()],
    }


def _logged_before(
    using: str,
    cursor: Any,
    condition: str,
    parameters: dict[str, Any],
    jobs: Sequence[AcquiredJob],
    runs: Mapping[UUID, Run],
) -> set[UUID]:
    adapt = connections[using].ops.adapt_datetimefield_value
    told = [[id.hex, adapt(run.started_at), run.duration, run.node] for id, run in runs.items()]
    with atomic(using):
        cursor.execute(_LOGGED_BEFORE.format(condition=condition), parameters | {"runs": json.dumps(told)})
        cursor.execute(f"DELETE FROM {_JOB} WHERE {condition} RETURNING id", parameters)
        return lost(cursor, jobs)


# A day has 86,400,000 milliseconds, and a julian day as a float is not good for much more.
_WAIT = "max(0.0, round((julianday(started) - julianday(coalesce(due_date, create_time))) * 86400.0, 3))"
_RUN = ", ".join(
    f"json_extract(value, '$[{number}]') AS {name}"
    for number, name in enumerate(("run_id", "started", "duration", "node"))
)
# CROSS: SQLite takes the tables in the order written. Else it reads the whole list for each job of the table.
_LOGGED_BEFORE = f"""
    {_INSERT} SELECT {_VALUES.format(wait=_WAIT, rest=_EMPTY)}
    FROM (SELECT {_RUN} FROM json_each(%(runs)s)) CROSS JOIN {_JOB} ON id = run_id WHERE {{condition}}"""
