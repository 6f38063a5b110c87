"""The fast form of completing an external job: a read without a lock, then one statement that does everything.

For PostgreSQL. If the row is unchanged since the read, the statement deletes it, writes the log and inserts the job
of ``on_complete``. Otherwise it does nothing, and the portable form in :mod:`~jobexec.operations.external.settle`
decides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from django.db import connections, transaction

from jobexec import clock, signals
from jobexec.models import SHARED_COLUMNS, ExternalWorkerJob, Job, JobLog, LogState

from ..history import job_log
from ..history.job_log import COPIED
from ..history.task_attempts import is_task
from ..notify import external_observers
from ..notify.broker import announce_ids
from ..notify.signals import announce
from ..notify.wake import wake_on_commit
from ..resources.calls import report_call
from ..rows import tallies
from ..rows.fencing import UNLOCKED
from ..rows.routing import wake_for_permits
from ..sql.dialect import dialect
from ..sql.insert import parameters
from ..values.inserted_rows import instance
from ..values.ranking import rank
from .callbacks import SAID_BY_OPTIONS, brought, callback_columns, callback_of, on_complete
from .find import check_caller, check_lease, check_worker
from .types import Caller

_READ = (
    "id",
    "revision",
    "handler_type",
    "lock_owner",
    "lease_token",
    "exclusive",
    "deployment_id",
    "priority",
    "resource",
    "task_backend",
    "batch_id",
    "handler_configuration",
    *SAID_BY_OPTIONS,
)
_TABLE = ExternalWorkerJob._meta.db_table
_LOOK = f"SELECT {', '.join(_READ)} FROM {_TABLE} WHERE job_key = %s"
_MOST = 2**63 - 1


def complete_at_once(
    using: str, key: int, sent: Mapping[str, Any], worker: str | None, lease: str | None, caller: Caller
) -> bool:
    """Return whether the job was completed; if not, nothing changed. Raises the same errors as the portable form."""
    connection = connections[using]
    if not dialect(using).writes_in_with or not 0 < key <= _MOST:
        return False
    with connection.cursor() as cursor:
        cursor.execute(_LOOK, [key])
        found = cursor.fetchone()
    if found is None:
        return False
    columns = dict(zip(_READ, found, strict=True))
    configuration = json.loads(columns["handler_configuration"])
    row: ExternalWorkerJob = instance(
        using, ExternalWorkerJob, columns | {"job_key": key, "handler_configuration": configuration}
    )
    if row.serial_key or is_task(row):  # its process instance must be freed, its result written
        return False
    batch = tallies.batches_of([row])
    check_caller(row, key, "complete", caller)
    check_lease(row, lease, "complete", needed=True)
    check_worker(row, worker, "complete")
    changes: dict[str, Any] = {}
    callback, configuration = callback_of(row, on_complete)
    if callback is not None:
        changes = callback_columns(using, row, callback, {"variables": brought(configuration, callback, sent)})
        if changes["resource"] is not None:  # it must wait for a permit
            return False
        changes |= {"rank": rank(using, changes["due_date"], changes["priority"])}
        changes |= {**UNLOCKED, "revision": row.revision + 1}
    done = _write(using, row, changes, row.lock_owner or "" if worker is None else worker, caller)
    if done and batch and not changes:
        tallies.look_on_commit(using, batch)
    return done


def _write(using: str, row: ExternalWorkerJob, changes: Mapping[str, Any], node: str, caller: Caller) -> bool:
    connection = connections[using]
    values: dict[str, Any] = {"id": row.pk, "seen": row.revision}
    logged = job_log.wants(LogState.SUCCESSFUL)
    if logged:
        now = connection.ops.adapt_datetimefield_value(clock.now(using))
        values |= {"node": node, "client": caller.name[:150], "now": now}
    values |= {f"job_{name}": value for name, value in parameters(connection, Job, changes).items()}
    told = signals.job_completed.has_listeners(ExternalWorkerJob)
    try:
        gone = _gone(using, _statement(logged, tuple(changes), told, row.batch_id is not None), values, told)
    except Exception:
        with transaction.mark_for_rollback_on_error(using):  # as Model.save() does
            raise
    if gone and changes:
        wake_on_commit(using)
        announce_ids(using, [row.pk])
    if gone:
        external_observers.completed(using, row.handler_type)
        report_call(using, row.resource)
        wake_for_permits(using, [row])
    if gone and told:
        announce(signals.job_completed, using, ExternalWorkerJob, jobs=gone)
    return bool(gone)


def _gone(using: str, statement: str, values: dict[str, Any], told: bool) -> list[Any]:
    """The job that the statement deleted, as a complete row if the signal has receivers."""
    if told:
        return list(ExternalWorkerJob.objects.using(using).raw(statement, values))
    with connections[using].cursor() as cursor:
        cursor.execute(statement, values)
        found: list[Any] = cursor.fetchall()
    return found


@cache
def _statement(logged: bool, changed: tuple[str, ...], told: bool, child: bool) -> str:
    """``changed``: the columns in which the new job differs from the row; if empty, there is no new job.

    ``told``: return the complete deleted row, and not only its id. ``child``: count it in its batch if it is over.
    """
    parts = [f"gone AS (DELETE FROM {_TABLE} WHERE id = %(id)s AND revision = %(seen)s RETURNING *)"]
    if logged:
        parts.append(f"logged AS ({_LOG})")
    if child and not changed:
        parts.append(tallies.COUNTED)
    if changed:
        names = ", ".join(f'"{name}"' for name in SHARED_COLUMNS)
        given = ", ".join(f"%(job_{name})s" if name in changed else f'gone."{name}"' for name in SHARED_COLUMNS)
        parts.append(f"made AS (INSERT INTO {Job._meta.db_table} ({names}) SELECT {given} FROM gone)")
    return f"WITH {', '.join(parts)} SELECT {'*' if told else 'id'} FROM gone"


_SAID = {"job_id", "timestamp", "state", "attempt", "retries", "node", "client", *COPIED}
#: Text columns of the log that stay empty for a success; columns that may be NULL stay NULL.
_SILENT = [
    field.name
    for field in JobLog._meta.concrete_fields
    if not field.primary_key and field.name not in _SAID and not field.null
]
_LOG = f"""
    INSERT INTO {JobLog._meta.db_table}
      (job_id, timestamp, state, attempt, retries, node, client, {", ".join((*COPIED, *_SILENT))})
    SELECT id, %(now)s, '{LogState.SUCCESSFUL}', attempts, retries, %(node)s, %(client)s,
      {", ".join((*COPIED, *("''" for _ in _SILENT)))} FROM gone"""
