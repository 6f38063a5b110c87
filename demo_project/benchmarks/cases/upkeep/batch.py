"""A batch gives new retries to dead letters."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from django.db import connections

from jobexec import clock
from jobexec.executor.job_executor import JobExecutor
from jobexec.models import SHARED_COLUMNS, Batch, DeadLetterJob, Incident, IncidentState, Job
from jobexec.operations import batch_progress, delete_batch, start_batch
from jobexec.operations.history.incidents import open_incidents
from jobexec.operations.sql.delete import delete_rows

from ...case import Case, Contenders
from ...measure import BenchError, Sample, Stopwatch
from ...noop import CATEGORY, HANDLER, check_once, numbers_in, registered, wait_for
from ...raw.copy import as_they_are, insert_from, moment
from ...raw.sql import RawConnection
from ...report import Shown
from ...sandbox import tidy

_CHUNK = 10_000
_LOOK = 0.01
#: Nobody here runs what was requeued: what is timed is the batch alone.
_ELSEWHERE = "jobbench-elsewhere"
_DEAD, _INCIDENT = DeadLetterJob._meta.db_table, Incident._meta.db_table
_AGE = """SELECT 1000 * max(extract(epoch FROM clock_timestamp() - xact_start)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""


class BatchCase(Case):
    """Timed from the start of the batch until it is over, by one executor.

    On PostgreSQL another connection looks meanwhile how long the oldest transaction has been open, and how long it
    takes itself to read a row.
    """

    name: ClassVar[str] = "batch"
    summary: ClassVar[str] = "requeue dead letters by a batch, against the same moves in SQL"
    default_jobs: ClassVar[int] = 20_000
    own_settings: ClassVar[Mapping[str, Any]] = {"deployment_aware": True, "batch_poll_time": 0.1}
    shown: ClassVar[Shown] = Shown({"longest transaction": "ms", "longest read": "ms"})

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "raw": self.raw}

    def ours(self) -> Sample:
        alias = self.plan.alias
        with registered(alias, lambda number: None), self._filled() as dead:
            executor = JobExecutor(self.plan.settings)
            batch = None
            try:
                executor.start()
                with _watched(alias) as seen, Stopwatch(alias) as watch:
                    batch = start_batch("requeue", dead, using=alias)
                    _wait_for_the_end(alias, batch)
            finally:
                executor.stop()
                if batch is not None:
                    delete_batch(batch.pk, using=alias)
            self._check()
        return watch.sample(self.plan.jobs, figures=seen)

    def raw(self) -> Sample:
        alias = self.plan.alias
        with registered(alias, lambda number: None), self._filled(), RawConnection(alias) as connection:
            requeue = Requeue(alias, connection, self.plan.settings.invocations_per_batch_job)
            with _watched(alias) as seen, Stopwatch(alias) as watch:
                while requeue.page():
                    pass
            self._check()
        return watch.sample(self.plan.jobs, figures=seen)

    @contextmanager
    def _filled(self) -> Iterator[Any]:
        """The dead letters, with their incidents, which are removed at the end."""
        alias = self.plan.alias
        rows = DeadLetterJob.objects.using(alias)
        common = {"handler_type": HANDLER, "category": CATEGORY, "deployment_id": _ELSEWHERE, "retries": 0}
        common |= {"exception_message": "ConnectionError: the service is not there", "exception_stack": "line\n" * 100}
        for start in range(0, self.plan.jobs, _CHUNK):
            numbers = range(start, min(start + _CHUNK, self.plan.jobs))
            arguments = [{"args": [number], "kwargs": {}} for number in numbers]
            made = rows.bulk_create([DeadLetterJob(handler_configuration=each, **common) for each in arguments])
            open_incidents(alias, made)
        tidy(alias, Job, DeadLetterJob, Incident)
        try:
            yield rows.filter(handler_type=HANDLER)
        finally:
            delete_rows(Incident.objects.using(alias).filter(handler_type=HANDLER))

    def _check(self) -> None:
        moved = Job.objects.using(self.plan.alias).filter(handler_type=HANDLER, lock_owner=None, retries=3)
        check_once(numbers_in(moved), self.plan.jobs, "was requeued")


def _wait_for_the_end(alias: str, batch: Batch) -> None:
    """Until it is over; BenchError if nothing was changed for a minute."""
    over, before = Batch.objects.using(alias).filter(pk=batch.pk, end_time__isnull=False), -1
    while True:
        try:
            wait_for(lambda: over.exists(), "the batch is over", turn=_LOOK)
            return
        except BenchError:
            now = batch_progress(batch).changed
            if now == before:
                raise
            before = now


@contextmanager
def _watched(alias: str) -> Iterator[dict[str, float]]:
    """The longest transaction and the longest read of a row during the block, in milliseconds; PostgreSQL only."""
    seen: dict[str, float] = {}
    ended = threading.Event()

    def look() -> None:
        with RawConnection(alias) as connection:
            while not ended.wait(_LOOK):
                (age,) = connection.execute(_AGE).fetchone()
                seen["longest transaction"] = max(seen.get("longest transaction", 0.0), float(age or 0))
                before = time.perf_counter()
                connection.execute(f"SELECT id FROM {_DEAD} ORDER BY id DESC LIMIT 1").fetchone()
                taken = 1000 * (time.perf_counter() - before)
                seen["longest read"] = max(seen.get("longest read", 0.0), taken)

    if connections[alias].vendor != "postgresql":
        yield seen
        return
    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()


class Requeue:
    """A page of dead letters becomes executable, and its incidents are over: four statements in one transaction."""

    def __init__(self, alias: str, connection: RawConnection, page: int) -> None:
        self._alias, self._connection = alias, connection
        now = clock.now(alias)
        self._now = moment(alias, now)
        fresh: dict[str, Any] = {
            "retries": 3,
            "attempts": 0,
            "lost_runs": 0,
            "conflicts": 0,
            "unknown_since": None,
            "due_date": None,
        }
        fresh |= {"exception_message": "", "exception_stack": "", "rank": int(now.timestamp() * 1000)}
        self._given = fresh
        kept = [name for name in SHARED_COLUMNS if name not in fresh and name != "revision"]
        self._copied = [*as_they_are(alias, kept), ("revision", "revision + 1")]
        lock = "" if connection.vendor == "sqlite" else " FOR UPDATE"
        self._next = f"SELECT id FROM {_DEAD} WHERE handler_type = %s ORDER BY id LIMIT {page}{lock}"

    def page(self) -> int:
        """Requeue one; how many."""
        connection = self._connection
        connection.begin()
        ids = [row[0] for row in connection.execute(self._next, [HANDLER]).fetchall()]
        if ids:
            marks = ", ".join(["%s"] * len(ids))
            among = f"id IN ({marks})"
            connection.execute(*insert_from(self._alias, _DEAD, Job, self._copied, self._given, (among, ids)))
            connection.execute(f"DELETE FROM {_DEAD} WHERE {among}", ids)
            closed = f"UPDATE {_INCIDENT} SET state = %s, end_time = %s WHERE job_id IN ({marks}) AND state = %s"
            connection.execute(closed, [IncidentState.RESOLVED.value, self._now, *ids, IncidentState.OPEN.value])
        connection.execute("COMMIT")
        return len(ids)
