"""A storm of failures: each job fails at its first run and waits for a retry."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, ClassVar

from jobexec import clock
from jobexec.models import SHARED_COLUMNS, JobLog, LogState, TimerJob

from ... import ours
from ...case import Case, Contenders
from ...measure import BenchError, Sample
from ...noop import HANDLER, check_once, fill, numbers_in, registered
from ...raw import drain
from ...raw.copy import Statement, as_they_are, insert_from, moment
from ...raw.log import log_statement
from ...raw.queue import TABLE, RawQueue
from ...sandbox import tidy

_MESSAGE = "The service is not there."
#: About as long as the stack of the handler that fails.
_STACK = "Traceback (most recent call last):\n" + '  File "/srv/project/module.py", line 100, in function\n' * 8
_CHANGED = {
    "revision": "revision + 1",
    "retries": "retries - 1",
    "attempts": "attempts + 1",
    "lock_owner": "NULL",
    "lock_expiration_time": "NULL",
    "start_time": "NULL",
}


class RetryQueue(RawQueue):
    """Moves each job of a page to the timers and writes that it has failed."""

    def settling(self, ids: Sequence[Any]) -> Iterator[Statement]:
        told = {"exception_message": _MESSAGE, "exception_stack": _STACK}
        later = moment(self.alias, clock.now(self.alias) + timedelta(hours=1))
        kept = [name for name in SHARED_COLUMNS if name not in _CHANGED and name not in told and name != "due_date"]
        copied = [*as_they_are(self.alias, kept), *_CHANGED.items()]
        yield insert_from(self.alias, TABLE, TimerJob, copied, {"due_date": later, **told}, self.among(ids))
        yield log_statement(self, ids, LogState.FAILED, **told)
        yield from super().settling(ids)


class Retries(Case):
    """Timed until the last job stands among the timers; its retry is an hour away.

    The executor's log lines are off: each would have a stack.
    """

    name: ClassVar[str] = "retries"
    summary: ClassVar[str] = "let each job fail and wait for its retry, against the same moves and log rows in SQL"
    default_jobs: ClassVar[int] = 5_000
    own_settings = {"history_level": "failures"}

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "raw": self.raw}

    def ours(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()

        def fail(number: int) -> None:
            ledger.note(number)
            raise ConnectionError(_MESSAGE)

        with registered(alias, fail, retries="R3/PT1H") as handler, silent():
            fill(handler, ledger.wanted)
            tidy(alias)
            sample = ours.execute(self.plan.settings, alias, ledger)
        self._check()
        return sample

    def raw(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with registered(alias, ledger.note) as handler:
            fill(handler, ledger.wanted)
        tidy(alias)
        sample = drain.drain(alias, ledger, self.plan.raw_page, queue=RetryQueue)
        self._check()
        return sample

    def _check(self) -> None:
        jobs, alias = self.plan.jobs, self.plan.alias
        waiting = TimerJob.objects.using(alias).filter(handler_type=HANDLER, attempts=1)
        check_once(numbers_in(waiting), jobs, "waits for its retry")
        log = JobLog.objects.using(alias).filter(handler_type=HANDLER, state=LogState.FAILED)
        if (written := log.count()) != jobs:
            raise BenchError(f"{jobs} jobs have failed, {written} log rows say so.")


@contextmanager
def silent() -> Iterator[None]:
    """No log lines of the executor during the block."""
    logger = logging.getLogger("jobexec")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
