"""Running jobs in a test, without the threads of an executor."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections

from jobexec.executor.run.execution import execute_batch
from jobexec.executor.run.outcomes import Outcome, write, write_alone
from jobexec.executor.run.running import RunningJobs
from jobexec.models import JOB_TABLES
from jobexec.operations.values.acquired_job import AcquiredJob
from jobexec.runtime.threads import call_in_thread
from tests.support.factories import acquire
from tests.support.waiting import TIMEOUT


class Host:
    """The executor interface that execution needs. Writes outcomes at once, in the thread that runs the job."""

    node_name = "test host"

    def __init__(self) -> None:
        self.shutting_down = False
        self.lost: set[str] = set()
        self.outcomes: list[Outcome] = []
        self.running = RunningJobs()

    def owns(self, lock_owner: str, using: str) -> bool:
        return lock_owner not in self.lost

    def begin(self, context: Any, handler: Any) -> None:
        self.running.begin(context, handler)

    def end(self, context: Any) -> None:
        self.running.end(context)

    def may_start(self, work: AcquiredJob) -> bool:
        return not self.shutting_down and work.lock_owner not in self.lost

    def submit(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        try:
            write(outcome.work.using, [outcome])
        except Exception:
            write_alone(outcome.work.using, outcome)

    def has_settled_itself(self, outcome: Outcome) -> None:
        """Do nothing; called for atomic jobs."""

    def follow(self, work: AcquiredJob, batch: list[AcquiredJob]) -> list[AcquiredJob]:
        """Return no follow-ups: no job stays with this host."""
        return []

    def settle(self, outcome: Outcome) -> bool:
        self.submit(outcome)
        return outcome.counted

    def settle_before(self, outcome: Outcome, siblings: list[AcquiredJob]) -> None:
        """Settle the outcome and run the siblings as the settlement and the pool do, but in this thread."""
        if self.settle(outcome):
            execute_batch(siblings, self)
        else:
            for sibling in siblings:
                self.submit(Outcome(sibling))


def stop_all(benches: Iterable[Any]) -> None:
    """Release all batches that these benches hold, and stop their pools."""
    for bench in benches:
        for event in bench.go.values():
            event.set()
        assert bench.pool.stop(TIMEOUT)


@contextmanager
def watching(running: Any, context: Any, handler: Any) -> Iterator[None]:
    """Register a handler as running during the block."""
    running.begin(context, handler)
    try:
        yield
    finally:
        running.end(context)


def run_one(alias: str, host: Any = None) -> Any:
    """Acquire all jobs and run them as one batch, in a thread like the pool's; return the host with the outcomes."""
    host = host or Host()
    jobs = acquire(alias)
    call_in_thread("jobexec-one", lambda: execute_batch(jobs, host), TIMEOUT)
    return host


def all_gone(alias: str) -> bool:
    """Whether no job is left in any table, in one statement, so that a job that is being moved is seen."""
    counts = " + ".join(f"(SELECT count(*) FROM {table._meta.db_table})" for table in JOB_TABLES)
    with connections[alias].cursor() as cursor:
        cursor.execute(f"SELECT {counts}")
        return bool(cursor.fetchone()[0] == 0)
