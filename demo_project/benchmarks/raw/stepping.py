"""The raw SQL of the steps of processes: lock, load, one statement where WITH may write, commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
    """Takes each of its instances, with one token and one job each, through so many steps, and removes the token."""

    def __init__(
        self, connection: RawConnection, instances: Sequence[Any], steps: int, note: Callable[[int], None]
    ) -> None:
        self._connection, self._instances, self._steps, self._note = connection, instances, steps, note
        self.error: BaseException | None = None
        columns = ", ".join(_COLUMNS)
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
            for number in range(self._steps):
                for place, instance in enumerate(self._instances):
                    self._step(instance, number)
                    self._note(place)
        except BaseException as error:
            self.error = error

    def _step(self, instance: Any, number: int) -> None:
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


def steps(alias: str, ledger: Ledger, threads: int, count: int) -> Sample:
    """Take all running instances through ``count`` steps, on so many threads with a connection each."""
    threads = 1 if is_single_writer(alias) else threads
    own = RawConnection(alias)
    try:
        ids = [row[0] for row in own.execute(f"SELECT DISTINCT root_id FROM {_TOKEN}").fetchall()]
    finally:
        own.close()
    opened = [RawConnection(alias) for _ in range(threads)]
    try:
        loops = [
            StepLoop(each, ids[number::threads], count, lambda place: ledger.seen.append(place))
            for number, each in enumerate(opened)
        ]
        with Stopwatch(alias) as watch:
            run_all(loops)
    finally:
        for each in opened:
            each.close()
    return watch.sample(len(ids) * count)
