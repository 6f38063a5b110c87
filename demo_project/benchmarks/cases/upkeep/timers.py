"""Many timers come due at once and become executable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, ClassVar

from jobexec import clock
from jobexec.executor.job_executor import JobExecutor
from jobexec.models import SHARED_COLUMNS, Job, TimerJob
from jobexec.operations.enqueue.create import create_jobs
from jobexec.operations.sql.locks import has_skip_locked

from ... import ours
from ...case import Case, Contenders
from ...measure import Sample, Stopwatch
from ...noop import CATEGORY, HANDLER, check_once, numbers_in, registered, wait_for
from ...raw.copy import as_they_are, insert_from, moment
from ...raw.sql import RawConnection
from ...sandbox import tidy

_CHUNK = 10_000
_LOOK = 0.005
#: Jobs of this deployment are moved by every executor and run by none here: what is timed is the move alone.
_ELSEWHERE = "jobbench-elsewhere"
_TABLE = TimerJob._meta.db_table


class Timers(Case):
    """Timed from the start of the executor until no timer is left; all are due in the same second."""

    name: ClassVar[str] = "timers"
    summary: ClassVar[str] = "move timers that come due together to the executable jobs, against the same moves in SQL"
    default_jobs: ClassVar[int] = 20_000
    own_settings: ClassVar[Mapping[str, Any]] = {"deployment_aware": True}

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "raw": self.raw}

    def ours(self) -> Sample:
        alias = self.plan.alias
        with registered(alias, lambda number: None):
            self._fill()
            executor = JobExecutor(self.plan.settings)
            left = _timers(alias)
            try:
                with Stopwatch(alias) as watch:
                    executor.start()
                    wait_for(lambda: not left.exists(), "the timers become executable", turn=_LOOK)
            finally:
                executor.stop()
        self._check()
        return watch.sample(self.plan.jobs)

    def raw(self) -> Sample:
        alias = self.plan.alias
        with registered(alias, lambda number: None):
            self._fill()
        with RawConnection(alias) as connection:
            move = Move(alias, connection, self.plan.raw_page)
            with Stopwatch(alias) as watch:
                while move.page():
                    pass
        self._check()
        return watch.sample(self.plan.jobs)

    def _fill(self) -> None:
        alias = self.plan.alias
        due = clock.now(alias) + timedelta(hours=1)
        rows = list(_rows(self.plan.jobs, due))
        for start in range(0, len(rows), _CHUNK):
            create_jobs(alias, rows[start : start + _CHUNK])
        _timers(alias).update(due_date=clock.now(alias))
        tidy(alias, Job, TimerJob)

    def _check(self) -> None:
        moved = Job.objects.using(self.plan.alias).filter(handler_type=HANDLER, lock_owner=None)
        check_once(numbers_in(moved), self.plan.jobs, "became executable")
        if _timers(self.plan.alias).exists():
            ours.check_nothing_left(self.plan.alias)


def _timers(alias: str) -> Any:
    return TimerJob.objects.using(alias).filter(handler_type=HANDLER)


def _rows(jobs: int, due: Any) -> Iterator[dict[str, Any]]:
    for number in range(jobs):
        yield {
            "handler_type": HANDLER,
            "handler_configuration": {"args": [number], "kwargs": {}},
            "category": CATEGORY,
            "deployment_id": _ELSEWHERE,
            "due_date": due,
            "atomic": False,
        }


class Move:
    """A page of due timers becomes executable: one statement on PostgreSQL, three in one transaction elsewhere."""

    def __init__(self, alias: str, connection: RawConnection, page: int) -> None:
        self._alias, self._connection, self._page = alias, connection, page
        self._now = int(clock.now(alias).timestamp() * 1000)
        self._columns = [name for name in SHARED_COLUMNS if name not in ("rank", "revision")]
        skip = " FOR UPDATE SKIP LOCKED" if has_skip_locked(alias) else ""
        due = f"FROM {_TABLE} WHERE due_date <= %s ORDER BY due_date, id LIMIT %s{skip}"
        self._due = due
        self._until = moment(alias, clock.now(alias))

    def page(self) -> int:
        """Move one; how many."""
        if self._connection.vendor == "postgresql":
            return self._in_one()
        return self._in_three()

    def _insert(self, source: str, condition: tuple[str, list[Any]]) -> tuple[str, list[Any]]:
        copied = [*as_they_are(self._alias, self._columns), ("revision", "revision + 1")]
        return insert_from(self._alias, source, Job, copied, {"rank": self._now}, condition)

    def _in_one(self) -> int:
        insert, values = self._insert("due", ("", []))
        ctids = f"ARRAY(SELECT ctid {self._due})"
        statement = f"WITH due AS (DELETE FROM {_TABLE} WHERE ctid = ANY({ctids}) RETURNING *) {insert}"
        return int(self._connection.execute(statement, [self._until, self._page, *values]).rowcount)

    def _in_three(self) -> int:
        connection = self._connection
        connection.begin()
        ids = [row[0] for row in connection.execute(f"SELECT id {self._due}", [self._until, self._page]).fetchall()]
        if ids:
            among = f"id IN ({', '.join(['%s'] * len(ids))})"
            connection.execute(*self._insert(_TABLE, (among, ids)))
            connection.execute(f"DELETE FROM {_TABLE} WHERE {among}", ids)
        connection.execute("COMMIT")
        return len(ids)
