"""Runs several jobs of one handler in one transaction (:class:`~jobexec.handlers.base.RunGroup`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.db import transaction
from django.db.transaction import TransactionManagementError

from jobexec import clock
from jobexec.encryption import may_be_sealed
from jobexec.exceptions import LockLost
from jobexec.handlers.base import BeginGroup, JobHandler, RunGroup
from jobexec.handlers.context import JobContext
from jobexec.handlers.registry import get_handler, registered
from jobexec.operations.settle.complete import complete_or_lose
from jobexec.operations.sql.dialect import dialect
from jobexec.operations.sql.errors import one_line
from jobexec.operations.sql.savepoint import savepoint
from jobexec.operations.values.acquired_job import AcquiredJob

from ...runtime.connections import prepare_connections
from .execution import (
    Host,
    call_handler,
    caught,
    check_may_begin,
    clean_up,
    ended,
    execute_batch,
    hand_on,
    with_followers,
)
from .outcomes import Outcome

logger = logging.getLogger("jobexec.execution")

#: Seconds after which a group begins no other job: those that have ended wait for the commit.
_LONGEST = 0.05

Batch = list[AcquiredJob]


def may_share(batch: Batch) -> bool:
    """Whether a batch is a job that may share a transaction with others of its handler."""
    work = batch[0]
    if not work.atomic or work.alone or len(batch) > 1 or work.lost_runs or work.followers is not None:
        return False
    if work.timeout is not None or work.resource is not None or not dialect(work.using).writes_in_with:
        return False
    return getattr(registered(work.handler_type), "begin_group", None) is not None


def are_alike(one: Batch, other: Batch) -> bool:
    """Whether two jobs may share a transaction with each other."""
    return one[0].handler_type == other[0].handler_type and one[0].using == other[0].using


def execute_group(batches: Sequence[Batch], host: Host) -> list[Batch]:
    """Run single jobs of one handler in one transaction. Returns the batches that have not run.

    They are marked as ``alone`` if they cannot share a transaction: by their handler, or because something has gone
    wrong that concerns all of it; it was then rolled back. So they are after an unforeseen error, too.
    """
    for batch in batches:
        batch[0].alone = True
    handler = get_handler(batches[0][0].handler_type)
    begin: BeginGroup | None = getattr(handler, "begin_group", None)
    able = [batch for batch in batches if begin is not None and _is_able(batch[0], handler, host)]
    group = _Group(handler, host)
    try:
        if begin is not None and len(able) > 1:
            prepare_connections()
            group.run(begin, [batch[0] for batch in able])
    except BaseException as error:  # each job will meet it alone, if it has caused it
        if not group.committed:
            logger.debug("%d jobs run alone and not in one transaction: %s", len(able), one_line(error))
            group.outcomes, group.late = [], []
    clean_up()
    for work in group.late:
        work.alone = False
    ran = {id(outcome.work): outcome for outcome in group.outcomes}
    left = [batch for batch in batches if id(batch[0]) not in ran]
    for batch in batches:
        if id(batch[0]) in ran:
            _leave(ran[id(batch[0])], batch, host)
    return left


def _is_able(work: AcquiredJob, handler: JobHandler, host: Host) -> bool:
    """Whether a job may start, and its arguments can be read without another look at the database."""
    text = work.configuration
    return work.handler_type == handler.name and text is not None and not may_be_sealed(text) and host.may_start(work)


def _leave(outcome: Outcome, batch: Batch, host: Host) -> None:
    """Settle a job that has run, and run its follow-ups that have joined its batch."""
    outcome.work.ended = True  # see execute_batch()
    joined = with_followers(batch, batch, host)[1:] if outcome.work.followers is not None else []
    hand_on(outcome, [], host)
    if joined:
        execute_batch(joined, host)


class _Group:
    """The outcomes of one transaction."""

    def __init__(self, handler: JobHandler, host: Host) -> None:
        self._handler, self._host = handler, host
        self.outcomes: list[Outcome] = []
        #: Jobs that can share another transaction: this one has taken long enough.
        self.late: list[AcquiredJob] = []
        self.committed = False
        self._changed = False

    def run(self, begin: BeginGroup, works: Sequence[AcquiredJob]) -> None:
        """Raises an error if the transaction was rolled back, or after the commit."""
        using = works[0].using
        jobs = [(work, self._handler.read(work.arguments())) for work in works]
        with transaction.atomic(using=using):
            transaction.on_commit(self._note_commit, using=using)
            group = begin(using, jobs)
            if group is None:
                return
            deadline = clock.monotonic() + _LONGEST
            for work, arguments in jobs:
                if self._changed:
                    break  # the others must not feel what this one has set
                if clock.monotonic() >= deadline and self.outcomes:
                    self.late.append(work)
                elif group.takes(arguments):
                    self._run_one(group, work, arguments)
            group.end()
            done = [(each.work, each.run) for each in self.outcomes if each.failure is None and each.run is not None]
            if done and complete_or_lose(using, done):
                raise LockLost()

    def _note_commit(self) -> None:
        self.committed = True
        for outcome in self.outcomes:
            outcome.counted = outcome.failure is None

    def _run_one(self, group: RunGroup, work: AcquiredJob, arguments: Any) -> None:
        started_at, start = clock.now(work.using), clock.monotonic()
        outcome = Outcome(work)
        context = JobContext(work, self._host, started_at)
        context.group = group
        error: BaseException | None = None
        with savepoint(work.using) as point:
            try:
                check_may_begin(work, started_at)
                call_handler(self._handler, context, arguments, self._host, outcome)
            except BaseException as raised:  # see execute()
                error = raised
        self._changed = point.changed
        if error is None:
            if point.is_broken:
                raise TransactionManagementError("A handler has left a transaction that can only be rolled back.")
            point.wrap_hooks(lambda hook: partial(_call_hook, hook, outcome, self._handler))
        else:
            point.undo()
            group.undo()
            if not caught(outcome, error, self._handler, self._host.shutting_down):
                return  # it could not begin
        self.outcomes.append(ended(outcome, self._host, started_at, start))


def _call_hook(hook: Callable[[], object], outcome: Outcome, handler: JobHandler) -> None:
    """Report an error of a hook on the commit for its own job, and let the hooks of others run."""
    try:
        hook()
    except Exception as error:
        caught(outcome, error, handler)
