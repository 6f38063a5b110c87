"""The raw SQL of the steps of processes: lock, load, one statement where WITH may write, commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connections

from jobexec.identifiers import uuid7
from jobexec.models import Job
from jobexec.operations.sql.locks import is_single_writer
from jobexec.processes.models import ActivityInstance, Execution, ProcessInstance, Variable

from ..measure import Sample, Stopwatch
from ..noop import Ledger
from .drain import Loop, run_all
from .sql import RawConnection

_INSTANCE, _TOKEN, _VARIABLE, _HISTORY, _JOB = (
    model._meta.db_table for model in (ProcessInstance, Execution, Variable, ActivityInstance, Job)
)
_COLUMNS = [str(field.column) for field in Job._meta.concrete_fields if field.column != "id"]


class StepLoop(Loop):
    """Takes each of its instances, with one token and one job each, through so many steps."""

    def __init__(
        self, alias: str, connection: RawConnection, instances: Sequence[tuple[str, int]], note: Callable[[int], None]
    ) -> None:
        self._connection, self._instances, self._note = connection, instances, note
        self.error: BaseException | None = None
        columns = ", ".join(map(connections[alias].ops.quote_name, _COLUMNS))
        mark = "FOR UPDATE" if connection.vendor != "sqlite" else ""
        self._lock = f"SELECT id, definition_id FROM {_INSTANCE} WHERE id = %s {mark}"
        self._load = (
            f"SELECT e.id, e.element_id, e.job_id, v.name, v.value FROM {_TOKEN} e "
            f"LEFT JOIN {_VARIABLE} v ON v.scope_id = e.instance_id WHERE e.root_id = %s"
        )
        self._next = f"INSERT INTO {_JOB} (id, {columns}) SELECT %s, {columns} FROM {_JOB} WHERE id = %s"
        self._end = f"DELETE FROM {_JOB} WHERE id = %s"
        self._move = f"UPDATE {_TOKEN} SET element_id = %s, job_id = %s, activity_id = %s WHERE id = %s"
        self._history = (
            f"INSERT INTO {_HISTORY} (id, instance_id, definition_id, element_id, kind, start_time, end_time, state) "
            f"SELECT %s, id, definition_id, %s, 'serviceTask', start_time, start_time, 'completed' FROM {_INSTANCE} "
            "WHERE id = %s"
        )

    def __call__(self) -> None:
        try:
            for number in range(max((steps for _, steps in self._instances), default=0)):
                for place, (instance, steps) in enumerate(self._instances):
                    if number < steps:
                        self._step(instance, number)
                        self._note(place)
        except BaseException as error:
            self.error = error

    def _step(self, instance: str, number: int) -> None:
        connection = self._connection
        connection.begin()
        connection.execute(self._lock, [instance]).fetchall()
        token, _, job, *_ = connection.execute(self._load, [instance]).fetchall()[0]
        following = uuid7()
        self._write(
            (self._move, [f"s{number + 1}", following.hex, uuid7().hex, token]),
            (self._history, [uuid7().hex, f"s{number}", instance]),
            (self._next, [following.hex, job]),
            (self._end, [job]),
        )
        connection.execute("COMMIT")

    def _write(self, *statements: tuple[str, list[Any]]) -> None:
        if self._connection.vendor != "postgresql":
            for statement, parameters in statements:
                self._connection.execute(statement, parameters)
            return
        *parts, (last, _) = statements
        text = ", ".join(f"p{number} AS ({part})" for number, (part, _) in enumerate(parts))
        self._connection.execute(f"WITH {text} {last}", [each for _, given in statements for each in given])


def steps(alias: str, ledger: Ledger, threads: int, started: Mapping[UUID, int]) -> Sample:
    """Take each of these instances through its number of steps, on so many threads with a connection each."""
    threads = 1 if is_single_writer(alias) else threads
    instances = [(id.hex, count) for id, count in started.items()]
    opened = [RawConnection(alias) for _ in range(threads)]
    try:
        loops = [
            StepLoop(alias, each, instances[number::threads], ledger.seen.append) for number, each in enumerate(opened)
        ]
        with Stopwatch(alias) as watch:
            run_all(loops)
    finally:
        for each in opened:
            each.close()
    return watch.sample(sum(started.values()))
