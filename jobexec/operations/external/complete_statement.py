"""The fast form of completing external jobs: a read without a lock, then one statement that does everything.

For PostgreSQL. The statement deletes the rows that are unchanged since the read, writes the log and inserts the jobs of
``on_complete``. Rows that it does not delete are left to the portable form in
:mod:`~jobexec.operations.external.settle`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

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
from ..rows.fencing import UNLOCKED, unchanged_sql
from ..rows.routing import wake_for_permits
from ..sql.dialect import dialect
from ..sql.errors import one_line
from ..sql.insert import parameters
from ..sql.portable import Dialect
from ..values.inserted_rows import instance
from ..values.ranking import rank
from .callbacks import SAID_BY_OPTIONS, brought, callback_columns, callback_of, on_complete
from .find import check_caller, check_lease, check_worker
from .types import Completion

logger = logging.getLogger("jobexec.gateway")

#: What became of a completion: whether the job is completed (if not, nothing changed), or why it is refused.
Outcome: TypeAlias = bool | Exception

_READ = (
    "job_key",
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
    *SAID_BY_OPTIONS,
)
_TABLE = ExternalWorkerJob._meta.db_table
_MOST = 2**63 - 1
#: Characters of a job's configuration that is read and written together with others.
_SHORT = 65_536
#: Characters of the new jobs' configurations in one statement.
_LETTERS = 2_000_000


class _End(NamedTuple):
    """A completion that was found to be right. ``values`` are parameters of the statement that differ by job."""

    place: int
    row: ExternalWorkerJob
    changes: Mapping[str, Any]
    values: Mapping[str, Any]


def complete_at_once(using: str, completions: Sequence[Completion]) -> list[Outcome]:
    """Complete these jobs, if possible in one statement, which commits by itself.

    The variables must have been checked. The statement for several jobs waits for no lock. If it fails, nothing has
    changed, and its error is not raised. Of two completions of one job, the second is left.
    """
    outcomes: list[Outcome] = [False] * len(completions)
    if not dialect(using).writes_in_with:
        return outcomes
    for part in _parts(_ends(using, completions, outcomes)):
        try:
            gone = _write(using, part)
        except Exception as error:
            if len(completions) == 1:
                raise
            logger.debug("%d completions are tried one by one: %s", len(part), one_line(error))
            continue
        for end in part:
            outcomes[end.place] = end.row.pk in gone
    return outcomes


def _ends(using: str, completions: Sequence[Completion], outcomes: list[Outcome]) -> Iterator[_End]:
    """Yield the completions that are right; the errors of those that are refused become their outcomes."""
    rows, now = _read(using, [each.key for each in completions]), clock.now(using)
    for place, completion in enumerate(completions):
        row = rows.pop(completion.key, None)
        if row is None or row.serial_key or is_task(row):  # its process instance must be freed, its result written
            continue
        try:
            end = _end_of(using, place, row, completion, now)
        except Exception as error:
            outcomes[place] = error
        else:
            if end is not None:
                yield end


def _read(using: str, keys: Sequence[int]) -> dict[int, ExternalWorkerJob]:
    wanted = [key for key in keys if 0 < key <= _MOST]
    if not wanted:
        return {}
    spelled, found = dialect(using), dict[int, ExternalWorkerJob]()
    with connections[using].cursor() as cursor:
        cursor.execute(_look(spelled, len(wanted) > 1), [f"{{{','.join(map(str, wanted))}}}"])
        for *values, configuration in cursor.fetchall():
            if configuration is not None:
                columns = dict(zip(_READ, values, strict=True), handler_configuration=json.loads(configuration))
                found[columns["job_key"]] = instance(using, ExternalWorkerJob, columns)
    return found


@lru_cache(maxsize=8)
def _look(spelled: Dialect, several: bool) -> str:
    configuration = spelled.short_json("handler_configuration", _SHORT) if several else "handler_configuration"
    return f"SELECT {', '.join(_READ)}, {configuration} FROM {_TABLE} WHERE job_key = ANY(%s::bigint[])"


def _end_of(using: str, place: int, row: ExternalWorkerJob, completion: Completion, now: Any) -> _End | None:
    """Return None for a job whose ``on_complete`` must wait for a permit. Raises the errors of the portable form."""
    check_caller(row, completion.key, "complete", completion.caller)
    check_lease(row, completion.lease, "complete", needed=True)
    check_worker(row, completion.worker, "complete")
    changes: dict[str, Any] = {}
    callback, configuration = callback_of(row, on_complete)
    if callback is not None:
        given = {"variables": brought(configuration, callback, completion.variables or {})}
        changes = callback_columns(using, row, callback, given)
        if changes["resource"] is not None:
            return None
        changes |= {**UNLOCKED, "revision": row.revision + 1, "due_date": now}
        changes["rank"] = rank(using, now, changes["priority"])
    values = {f"job_{name}": value for name, value in parameters(connections[using], Job, changes).items()}
    return _End(place, row, changes, {"client": completion.caller.name[:150], **values})


def _parts(ends: Iterable[_End]) -> list[list[_End]]:
    """Return the jobs of each statement: those that are over, and those that go on as other jobs."""
    over: list[_End] = []
    parts, letters = [over], 0
    for end in ends:
        if not end.changes:
            over.append(end)
            continue
        length = len(end.values["job_handler_configuration"])
        letters += length
        if len(parts) == 1 or letters > _LETTERS:
            parts.append([])
            letters = length
        parts[-1].append(end)
    return [part for part in parts if part]


def _write(using: str, ends: Sequence[_End]) -> set[UUID]:
    """Complete jobs that all go on, or that are all over; return the ids of those that were as they had been read."""
    connection, spelled = connections[using], dialect(using)
    rows, names = [end.row for end in ends], tuple(ends[0].changes)
    values: dict[str, Any] = {"ids": spelled.id_list([row.pk for row in rows])}
    condition = unchanged_sql(rows, values, spelled)
    logged = job_log.wants(LogState.SUCCESSFUL)
    if logged:
        values["now"] = connection.ops.adapt_datetimefield_value(clock.now(using))
    own = []
    for name, first in ends[0].values.items():
        each = [end.values[name] for end in ends]
        is_shared = all(value == first for value in each)
        values[name] = first if is_shared else each
        own += [] if is_shared else [(name, _type_of(connection, name))]
    batches = tallies.batches_of(rows) if not names else None
    told = signals.job_completed.has_listeners(ExternalWorkerJob)
    shape = _Shape(len(ends) == 1, condition, names, tuple(own), logged, bool(batches), told)
    try:
        gone = _gone(using, _statement(spelled, shape), values, told)
    except Exception:
        with transaction.mark_for_rollback_on_error(using):  # as Model.save() does
            raise
    if gone:
        _tell(using, [row for row in rows if row.pk in gone], list(gone.values()) if told else [], bool(names))
    return set(gone)


def _type_of(connection: Any, name: str) -> str:
    return "text" if name == "client" else str(Job._meta.get_field(name.removeprefix("job_")).db_type(connection))


def _gone(using: str, statement: str, values: dict[str, Any], told: bool) -> dict[UUID, Any]:
    """The jobs that the statement deleted, as complete rows if the signal has receivers."""
    if told:
        return {row.pk: row for row in ExternalWorkerJob.objects.using(using).raw(statement, values)}
    with connections[using].cursor() as cursor:
        cursor.execute(statement, values)
        return {pk: None for (pk,) in cursor.fetchall()}


def _tell(using: str, rows: Sequence[ExternalWorkerJob], complete: Sequence[ExternalWorkerJob], go_on: bool) -> None:
    """``complete``: the rows with all of their columns, if the signal has receivers."""
    if go_on:
        wake_on_commit(using)
        announce_ids(using, [row.pk for row in rows])
    elif batches := tallies.batches_of(rows):
        tallies.look_on_commit(using, batches)
    for row in rows:
        external_observers.completed(using, row.handler_type)
        report_call(using, row.resource)
    wake_for_permits(using, rows)
    if complete:
        announce(signals.job_completed, using, ExternalWorkerJob, jobs=complete)


class _Shape(NamedTuple):
    """What the text of a statement depends on."""

    #: One job, whose row it may wait for; several are skipped where other transactions lock them.
    is_one: bool
    #: The condition for the rows.
    condition: str
    #: The columns in which the new jobs differ from the rows; if empty, there are no new jobs.
    changed: tuple[str, ...]
    #: The parameters that differ by job, with their types.
    own: tuple[tuple[str, str], ...]
    logged: bool
    #: Whether the jobs are counted in their batches.
    counted: bool
    #: Whether complete rows are returned, and not only ids.
    told: bool


@lru_cache(maxsize=64)
def _statement(spelled: Dialect, shape: _Shape) -> str:
    def given(name: str) -> str:
        return f"given_{name}" if name in own else f"%({name})s"

    own, source, parts = dict(shape.own), "gone", list[str]()
    if own:
        arrays = ", ".join(f"%({name})s::{type}[]" for name, type in own.items())
        names = ", ".join(f"given_{name}" for name in own)
        parts.append(f"given AS (SELECT * FROM unnest(%(ids)s::uuid[], {arrays}) AS given(id, {names}))")
        source = "gone JOIN given USING (id)"
    condition = shape.condition
    if not shape.is_one:
        place = spelled.row_place
        # A row that was changed since the statement began is now at another place, and is left.
        locked = f"SELECT {place} FROM {_TABLE} WHERE {condition} {spelled.skip_locked}"
        condition = f"{place} {spelled.chosen(locked)}"
    parts.append(f"gone AS (DELETE FROM {_TABLE} WHERE {condition} RETURNING *)")
    if shape.logged:
        parts.append(f"logged AS ({_LOG.format(client=given('client'), source=source)})")
    if shape.counted:
        parts.append(tallies.COUNTED)
    if shape.changed:
        into = ", ".join(f'"{name}"' for name in SHARED_COLUMNS)
        made = ", ".join(given(f"job_{name}") if name in shape.changed else f'gone."{name}"' for name in SHARED_COLUMNS)
        parts.append(f"made AS (INSERT INTO {Job._meta.db_table} ({into}) SELECT {made} FROM {source})")
    return f"WITH {', '.join(parts)} SELECT {'*' if shape.told else 'id'} FROM gone"


_SAID = {"job_id", "timestamp", "state", "attempt", "retries", "node", "client", *COPIED}
#: Text columns of the log that stay empty for a success; columns that may be NULL stay NULL.
_SILENT = [
    field.name
    for field in JobLog._meta.concrete_fields
    if not field.primary_key and field.name not in _SAID and not field.null
]
# A worker that gives its name is the one that fetched the job last.
_LOG = f"""
    INSERT INTO {JobLog._meta.db_table}
      (job_id, timestamp, state, attempt, retries, node, client, {", ".join((*COPIED, *_SILENT))})
    SELECT id, %(now)s, '{LogState.SUCCESSFUL}', attempts, retries, coalesce(lock_owner, ''), {{client}},
      {", ".join((*COPIED, *("''" for _ in _SILENT)))} FROM {{source}}"""
