"""Enforces timeouts: warns handlers, fails their jobs, and replaces threads that go on regardless."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from jobexec import clock, signals
from jobexec.exceptions import JobTimeout
from jobexec.models import Job
from jobexec.operations.sql.errors import one_line
from jobexec.operations.values.failure import Failure
from jobexec.operations.values.failure_log import failure_log
from jobexec.operations.values.log_fields import log_fields
from jobexec.operations.values.run import Run

from ...runtime.threads import Loop, logger
from ..pool.pool import Pool
from ..run.outcomes import Outcome
from ..run.running import RunningJob, RunningJobs

_LONGEST = 60.0


class Timeouts(Loop):
    """Sleeps until the next running job reaches 80 or 100 per cent of its timeout; uses no database.

    At 80 per cent the context is marked and a signal is sent. At 100 per cent the job has failed: a retry, or a dead
    letter. Python cannot stop a thread, so whatever a handler does after that has no effect on the job (an async
    handler is cancelled). The thread is stuck, and another replaces it; a process with more than ``most_stuck`` such
    threads asks to be restarted (``restart``). An exclusive job keeps its process instance locked until its thread ends
    or its process dies.
    """

    def __init__(
        self,
        running: RunningJobs,
        pool: Pool,
        submit: Callable[[Outcome], None],
        restart: Callable[[str], None],
        node_name: str,
        most_stuck: int,
    ) -> None:
        super().__init__("jobexec-timeouts")
        self._running, self._pool, self._submit, self._restart = running, pool, submit, restart
        self._node_name, self._most_stuck = node_name, most_stuck

    def run_once(self) -> float:
        for running in self._running.near_the_end():
            self._warn(running)
        for running in self._running.out_of_time(self._fail):
            self._give_up(running)
        left = self._running.next_limit()
        return _LONGEST if left is None else min(_LONGEST, left)

    def _warn(self, running: RunningJob) -> None:
        work = running.context.work
        text = "%s %s has used 80 %% of its timeout of %s"
        args = one_line(work.handler_type), work.id, work.timeout
        group = f"near its timeout {work.handler_type}"
        failure_log.log(logger, logging.WARNING, group, text, *args, extra=log_fields(work))
        signals.job_timeout_near.send_robust(sender=Job, using=work.using, job=work, context=running.context)

    def _fail(self, running: RunningJob) -> None:
        work, duration = running.context.work, clock.monotonic() - running.began
        error = JobTimeout(f"It ran longer than its timeout of {work.timeout}.")
        failure = Failure(f"JobTimeout: {error}", plan=running.handler.retry_plan, error=error, keeps_instance=True)
        outcome = Outcome(work, Run(running.context.started_at, duration, self._node_name), failure)
        outcome.keep_for(running.handler)
        outcome.settled = running.context.timeout_settled = threading.Event()
        self._submit(outcome)

    def _give_up(self, running: RunningJob) -> None:
        work = running.context.work
        running.context.interrupt()
        extra = log_fields(work, outcome="timeout")
        args = one_line(work.handler_type), work.id, work.timeout
        if not running.context.holds_thread:
            text = "%s %s ran longer than its timeout of %s; it is cancelled"
            failure_log.log(logger, logging.ERROR, f"timeout {work.handler_type}", text, *args, extra=extra)
            return
        stuck = self._pool.give_up(work, self._most_stuck)
        text = "%s %s ran longer than its timeout of %s; its thread is stuck (%d of this process)"
        failure_log.log(logger, logging.ERROR, f"stuck {work.handler_type}", text, *args, stuck, extra=extra)
        if stuck > self._most_stuck:
            self._restart(f"{stuck} threads are stuck in jobs that are past their timeout")
