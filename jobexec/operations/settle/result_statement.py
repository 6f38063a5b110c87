"""The fast form of completing tasks: one statement that deletes the jobs, stores their results and logs them.

For databases where WITH may contain DELETE and INSERT. The portable form is in
:mod:`~jobexec.operations.settle.complete`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import connections

from jobexec import clock
from jobexec.models import Job, JobType, ResultStatus, TaskResult

from ..rows.fencing import held_sql
from ..rows.tallies import COUNTED, OPEN, batches_of
from ..sql.dialect import dialect
from ..values.acquired_job import AcquiredJob
from ..values.run import Result, Run
from .complete_statement import KEPT, LOGGED, RETURNED, as_arrays, lost, lost_of_batches

_JOB, _RESULT = Job._meta.db_table, TaskResult._meta.db_table

# The results of earlier attempts are kept, and this one is added.
_KEPT = f"""
    kept AS (
      INSERT INTO {_RESULT} AS there (
        id, backend, handler_type, handler_configuration, category, priority, process_instance_id, tenant_id,
        create_time, run_after, status, first_time, last_time, end_time, expires_at, return_value, errors, workers)
      SELECT id, task_backend, handler_type, handler_configuration, category, priority, process_instance_id, tenant_id,
        create_time, CASE WHEN type = '{JobType.TIMER}' AND attempts = 0 THEN due_date END,
        '{ResultStatus.SUCCESSFUL}', began, began, began + duration * interval '1 second',
        began + (duration + keep_for) * interval '1 second',
        result::jsonb, '[]', jsonb_build_array(coalesce(node, %(node)s))
      FROM gone JOIN run USING (id) CROSS JOIN to_timestamp(started) AS began WHERE task_backend <> ''
      ON CONFLICT (id) DO UPDATE SET status = excluded.status, category = excluded.category,
        priority = excluded.priority, first_time = coalesce(there.first_time, excluded.first_time),
        last_time = excluded.last_time, end_time = excluded.end_time, expires_at = excluded.expires_at,
        return_value = excluded.return_value,
        workers = there.workers || excluded.workers)"""


def is_possible(using: str) -> bool:
    """Whether this database supports the statement."""
    return dialect(using).writes_in_with


def delete_and_keep(
    using: str,
    owner: str,
    jobs: Sequence[AcquiredJob],
    runs: Mapping[UUID, Run],
    results: Mapping[UUID, Result],
    log: bool,
    *,
    counted: bool = False,
) -> set[UUID]:
    """Delete the tasks that ``owner`` still holds at their revision and store their return values.

    ``results`` are by id. Returns the ids of the other tasks, for which nothing is written.
    With ``log`` a log row is written for each run; with ``counted`` children of batches are counted.
    """
    connection, spelled = connections[using], dialect(using)
    parameters: dict[str, Any] = {"owner": owner, **as_arrays(runs, spelled)}
    parameters["results"] = [results[pk].text for pk in runs]
    parameters["kept"] = [keep_for and keep_for.total_seconds() for keep_for in (results[pk].keep_for for pk in runs)]
    condition = held_sql(jobs, parameters, spelled)
    if log:
        parameters["now"] = connection.ops.adapt_datetimefield_value(clock.now(using))
    with spelled.cursor(connection) as cursor:
        if counted:
            batches = batches_of(jobs)
            cursor.execute(_statement(condition, log, counted), {**parameters, "batches": spelled.id_list(batches)})
            return lost_of_batches(using, cursor, jobs, batches)
        cursor.execute(_statement(condition, log, counted), parameters)
        return lost(cursor, jobs)


@lru_cache(maxsize=KEPT)
def _statement(condition: str, log: bool, counted: bool) -> str:
    return f"""
        WITH run AS (
          SELECT * FROM unnest(
            %(runs)s::uuid[], %(started)s::float8[], %(durations)s::float8[], %(nodes)s::text[],
            %(results)s::text[], %(kept)s::float8[]) AS run(id, started, duration, node, result, keep_for)),
        gone AS (DELETE FROM {_JOB} WHERE {condition}
          RETURNING {RETURNED}, type, task_backend, handler_configuration{", batch_id" if counted else ""}),
        {f"{LOGGED}," if log else ""}{f"{COUNTED}," if counted else ""}{_KEPT}
        SELECT id{f", {OPEN}" if counted else ""} FROM gone"""
