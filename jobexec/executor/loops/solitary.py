"""Runs a job that was lost twice while it ran in its own process.

If such a job kills its process again, no other job is lost, and none waits for it meanwhile. The child is an executor
with its own node, which takes over one job with its lock; the process that started it keeps the lock until then. Where
no child can be started (an embedded executor), the job runs with nothing beside it instead, see
:class:`~jobexec.executor.pool.work_queue.WorkQueue`.
"""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from jobexec import clock
from jobexec.operations.resources.limits import cut_off_among
from jobexec.operations.settle.release import release_jobs
from jobexec.operations.settle.take_over import is_held, take_over
from jobexec.operations.sql.errors import one_line
from jobexec.operations.values.acquired_job import ALONE_FROM, AcquiredJob, Acquisition, ServedJobs
from jobexec.operations.values.log_fields import log_fields

from ...runtime.threads import SELDOM, Deadline, Service, spawn
from ..pool.fair_queue import Batch, runs_alone
from .acquisition import JobAcquisition

logger = logging.getLogger("jobexec.executor")

#: Children at a time; each is as large as any executor. A job that waits for one holds up no others.
_MOST = 2
#: Seconds without a new child after one that could not even take over its job.
_BROKEN = 300.0
_TURN = 0.2


class Held(NamedTuple):
    """A job that another process has locked, as one argument of a command."""

    using: str
    id: UUID
    revision: int
    owner: str

    @classmethod
    def parse(cls, text: str) -> Held:
        """Parse the argument. Raises ValueError."""
        using, id, revision, owner = text.split(" ", 3)
        return cls(using, UUID(id), int(revision), owner)

    def __str__(self) -> str:
        return " ".join(map(str, self))


class SolitaryAcquisition(JobAcquisition):
    """Takes over one job, once, and nothing else."""

    held: Held
    #: Whether it has been tried.
    over = False

    def run_once(self) -> float:
        if self.over:
            return SELDOM
        return min(super().run_once(), SELDOM if self.over else _TURN)

    def _lock(self, limit: int, scope: ServedJobs) -> Acquisition:
        work = take_over(self.held, self.node.owner, clock.now(self.node.using) + self._engine.lock_time, scope.wide)
        self.over = True
        if work is not None and work.resource is not None and cut_off_among(work.using, [work.resource]):
            release_jobs(work.using, [work])
            return Acquisition(found=1)
        if work is None:
            logger.warning(
                "The job that was to run in a process of its own on %s is no longer locked for it", self.held.using
            )
        return Acquisition([work] if work else [], found=1)


class SolitaryProcesses(Service):
    """Starts the child processes, with the command of this process and an additional argument."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = [*command, "--solitary"]
        self._changed = threading.Condition()
        self._closed = False
        self._broken_until = 0.0
        #: Called with a database when one of its jobs, which is no longer in hand, could not be released.
        self.doubt: Callable[[str], object] = lambda using: None
        #: Jobs accepted and not ended, by id and revision, and their child once there is one.
        self._runs: dict[tuple[UUID, int], tuple[AcquiredJob, subprocess.Popen[bytes] | None]] = {}

    def sift(self, batches: list[Batch]) -> tuple[list[Batch], Batch]:
        """Remove jobs that run alone; returns the other batches, in order, and siblings to be released."""
        if not any(map(runs_alone, batches)) or self._closed or clock.monotonic() < self._broken_until:
            return batches, []
        rest, behind = [], []
        for batch in batches:
            place = next((number for number, job in enumerate(batch) if job.lost_runs >= ALONE_FROM), len(batch))
            taken = 1 if place == 0 else 0  # otherwise it is not its turn yet
            behind += batch[place + taken :]
            if taken:
                self._take(batch[0])
            elif place:
                rest.append(batch[:place])
        return rest, behind

    def jobs(self, using: str) -> list[AcquiredJob]:
        """The jobs of an engine in hand, whether or not their child has taken them over."""
        with self._changed:
            return [work for work, _ in self._runs.values() if work.using == using]

    @property
    def empty(self) -> bool:
        return not self._runs

    def start(self) -> None:
        self._closed = False

    def ask_to_stop(self) -> None:
        """Start no more children, and let those that run drain."""
        with self._changed:
            if self._closed:
                return  # a child that is signalled twice abandons its job
            self._closed = True
            self._changed.notify_all()
            children = [child for _, child in self._runs.values() if child is not None]
        for child in children:
            child.terminate()

    def stop(self, timeout: float) -> bool:
        self.ask_to_stop()
        deadline = Deadline(timeout)
        with self._changed:
            return self._changed.wait_for(lambda: not self._runs, deadline.left)

    def _take(self, work: AcquiredJob) -> None:
        with self._changed:
            self._runs[work.id, work.revision] = work, None
        spawn("jobexec-solitary", lambda: self._run(work))

    def _run(self, work: AcquiredJob) -> None:
        settled = False
        try:
            code = self._child(work)
            if is_held(work):  # otherwise its process instance may be ours for another job, and is not to be released
                release_jobs(work.using, [work])
                if code is not None and not self._closed:
                    self._broken_until = clock.monotonic() + _BROKEN
                    text = (
                        "Job %s could not run in its own process (exit code %s); it will run here, without other jobs"
                    )
                    logger.error(text, work.id, code, extra=log_fields(work))
            settled = True
        except Exception as error:
            text = "Job %s could not be released (%s); trying again"
            logger.warning(text, work.id, one_line(error), extra=log_fields(work))
        finally:
            with self._changed:
                del self._runs[work.id, work.revision]
                self._changed.notify_all()
        if not settled:
            self.doubt(work.using)

    def _child(self, work: AcquiredJob) -> int | None:
        """Run a child; returns its exit code, or None if none was started."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self.running < _MOST)
            if self._closed:
                return None
            held = Held(work.using, work.id, work.revision, work.lock_owner)
            text = "Job %s was lost twice while it ran; it now runs in its own process"
            logger.warning(text, work.id, extra=log_fields(work))
            try:
                # In its own session: Ctrl-C of a terminal is passed on as a drain, and counts once.
                child = subprocess.Popen([*self._command, str(held)], stdin=subprocess.DEVNULL, start_new_session=True)
            except OSError as error:
                logger.warning("A process could not be started: %s", one_line(error))
                return -1
            self._runs[work.id, work.revision] = work, child
        try:
            return child.wait()
        finally:
            with self._changed:
                self._runs[work.id, work.revision] = work, None

    @property
    def running(self) -> int:
        """How many children are running."""
        return sum(child is not None for _, child in tuple(self._runs.values()))
