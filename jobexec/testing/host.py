"""The caller's thread in the role of an executor."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from django.db import InterfaceError, OperationalError

from jobexec import clock
from jobexec.executor.run.outcomes import Outcome, unreachable, write, write_alone
from jobexec.handlers.base import JobHandler
from jobexec.handlers.context import JobContext
from jobexec.operations.settle.release import release_jobs
from jobexec.operations.values.acquired_job import AcquiredJob

from . import faults
from .commits import own_transaction


class ManualHost:
    """The executor's interface for execution. Outcomes are written at once, in the thread that runs the job."""

    def __init__(self, using: str, node_name: str, owner: Callable[[], str]) -> None:
        self.using, self.node_name, self._owner = using, node_name, owner
        self.shutting_down = False
        #: Outcomes that could not be written, because the database was away.
        self.unsettled: list[Outcome] = []
        #: Siblings that may go on, because the outcome before theirs is written.
        self.siblings: list[AcquiredJob] = []
        #: Errors raised by faults.
        self.injected: list[BaseException] = []
        self._began: dict[int, datetime] = {}

    def owns(self, lock_owner: str, using: str) -> bool:
        return lock_owner == self._owner()

    def may_start(self, work: AcquiredJob) -> bool:
        return not self.shutting_down and self.owns(work.lock_owner, work.using)

    def begin(self, context: JobContext, handler: JobHandler) -> None:
        self._began[id(context)] = clock.now(self.using)
        self._strike("begins", context)

    def end(self, context: JobContext) -> None:
        """The caller's thread cannot be stopped: a handler past its timeout has failed when it ends."""
        began = self._began.pop(id(context))
        if context.timeout is not None and clock.now(self.using) - began > context.timeout:
            context.timed_out = True
        self._strike("ends", context)

    def _strike(self, moment: faults.Moment, context: JobContext) -> None:
        try:
            faults.strike(moment, context.work)
        except BaseException as error:
            self.injected.append(error)
            raise

    # Settling.

    def submit(self, outcome: Outcome) -> None:
        try:
            with own_transaction(self.using):
                write(self.using, [outcome])
        except Exception as error:
            if unreachable(self.using, error):
                self.unsettled.append(outcome)
                return
            self._submit_alone(outcome)

    def _submit_alone(self, outcome: Outcome) -> None:
        try:
            with own_transaction(self.using):
                write_alone(self.using, outcome)
        except (OperationalError, InterfaceError) as error:
            if not unreachable(self.using, error):
                raise
            self.unsettled.append(outcome)

    def settle(self, outcome: Outcome) -> bool:
        self.submit(outcome)
        return outcome.counted

    def settle_before(self, outcome: Outcome, siblings: list[AcquiredJob]) -> None:
        outcome.siblings = siblings
        if self.settle(outcome):
            self.siblings = siblings
        else:
            outcome.siblings = None
            self.give_back(siblings)

    def follow(self, work: AcquiredJob, batch: list[AcquiredJob]) -> list[AcquiredJob]:
        """None: jobs that a handler enqueues are always acquired."""
        return []

    def has_settled_itself(self, outcome: Outcome) -> None:
        """Nothing to do for an atomic job: everything is written."""

    def settle_rest(self) -> None:
        """Try again to write the unsettled outcomes."""
        rest, self.unsettled = self.unsettled, []
        for outcome in rest:
            self.submit(outcome)

    def give_back(self, jobs: list[AcquiredJob]) -> None:
        """Unlock jobs that have not started; if the database is away, later."""
        for work in jobs:
            self.submit(Outcome(work))

    def release(self, jobs: list[AcquiredJob]) -> None:
        """Unlock jobs that have not started, all at once."""
        if jobs:
            with own_transaction(self.using):
                release_jobs(self.using, jobs)
