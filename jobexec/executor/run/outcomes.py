"""The outcome of a run, and how it is written."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast
from uuid import UUID

from django.db import connections

from jobexec import clock, signals
from jobexec.encryption import stored_result
from jobexec.exceptions import DoNotRetry
from jobexec.handlers.base import JobHandler, ResultHandler, SharedEnd, WriteEnds
from jobexec.json_values import encode_json
from jobexec.models import AbstractJob, DeadLetterJob, Job
from jobexec.operations.notify.signals import announce, failure_signal
from jobexec.operations.rows.bury_unreadable import bury
from jobexec.operations.settle.complete import Freed, complete_or_lose, complete_with_results
from jobexec.operations.settle.fail import fail_jobs
from jobexec.operations.settle.release import release_jobs
from jobexec.operations.sql.errors import storable
from jobexec.operations.sql.locks import atomic
from jobexec.operations.sql.session import is_of_connection
from jobexec.operations.tasks.return_values import not_stored
from jobexec.operations.values.acquired_job import AcquiredJob
from jobexec.operations.values.failure import Failure
from jobexec.operations.values.log_fields import log_fields
from jobexec.operations.values.run import Result, Run
from jobexec.sensitive import json_problem

from ...runtime.connections import discard_broken_connections
from .redacted import without_secrets
from .stack import stack_of

logger = logging.getLogger("jobexec.settlement")


class Outcome:
    """The outcome of a run: ``failure`` None is success; ``run`` None releases the job unstarted.

    ``began``: the handler was called. ``timed_out``: the job was already settled at its timeout. ``undone``: its
    transaction ended with its connection, and so did all its changes. ``siblings`` may start when this is committed.
    """

    # Class-level defaults: an object with one attribute is created faster than one with nine.
    run: Run | None = None
    failure: Failure | None = None
    began: bool = False
    counted: bool = False
    in_doubt: bool = False
    timed_out: bool = False
    undone: bool = False
    settled: threading.Event | None = None
    siblings: list[AcquiredJob] | None = None
    #: The table in which its job now is, if the run did not succeed; Job if it was cancelled.
    became: type[AbstractJob] | None = None
    #: Whether it was cancelled before it had failed.
    cancelled: bool = False
    #: Its span while it runs, if tracing is enabled.
    span: Any = None
    #: Its handler, if its return value is to be kept, and that value.
    keeper: ResultHandler | None = None
    result: Result = Result()
    #: The JSON of its arguments, if they were too long to be loaded with the job.
    arguments: str | None = None
    #: Whether its arguments were decrypted for this run: no text of a failure is recorded, and its result is encrypted.
    encrypted: bool = False
    #: What is to be written with its end, together with others.
    shared: SharedEnd | None = None
    #: Whether the permit of its resource was passed on when it was written.
    passed_on: bool = False

    def __init__(self, work: AcquiredJob, run: Run | None = None, failure: Failure | None = None) -> None:
        self.work = work
        if run is not None:
            self.run = run
        if failure is not None:
            self.failure = failure

    def keep_for(self, handler: JobHandler) -> None:
        """Remember the handler if its return value is to be kept."""
        if getattr(handler, "keeps_result", False):
            self.keeper = cast(ResultHandler, handler)

    def take(self, value: Any) -> None:
        """Keep the return value. Raises DoNotRetry if it must be kept and cannot: the run's effects are there."""
        if self.keeper is None:
            return
        try:
            text = self.keeper.encode_result(value)
            secret = self.encrypted or getattr(self.keeper, "encrypted", False)
            self.result = Result(stored_result(text, self.work.id, secret=secret), self.keeper.keep_for)
        except DoNotRetry:
            raise
        except Exception as error:
            name, is_json = f"return value of {self.work.handler_type}", encode_json(value) is not None
            problem = f"{name} ({type(error).__name__})" if is_json else json_problem(name, value)
            raise not_stored(problem) from error

    @property
    def name(self) -> str:
        """The outcome in one word: successful, failed, snoozed, cancelled, timeout or returned."""
        if self.timed_out:
            return "timeout"
        if self.failure is not None:
            return self.failure.kind if self.failure.kind in ("cancelled", "snoozed") else "failed"
        return "successful" if self.run is not None else "returned"

    @property
    def handled(self) -> bool:
        """Whether it is a failure that something else has taken care of, and its job was not cancelled."""
        return self.failure is not None and self.failure.kind == "handled" and not self.cancelled

    @property
    def urgent(self) -> bool:
        """Whether a thread, siblings or jobs of the same resource wait for its commit."""
        return self.siblings is not None or self.settled is not None or self.work.resource is not None


def unreachable(using: str, error: Exception) -> bool:
    """Whether an error means that the database is away, rather than a problem with the data to write."""
    if not is_of_connection(error):
        return False
    discard_broken_connections()
    try:
        connections[using].ensure_connection()
    except Exception:
        return True
    return not connections[using].is_usable()


#: Entered around the writing of successes: what it yields passes their permits on, in the same transaction.
PassingOn = Callable[[Sequence[Outcome]], AbstractContextManager[Freed | None]]


def write(using: str, outcomes: Sequence[Outcome], passing_on: PassingOn | None = None) -> None:
    """Write a group of outcomes; after an error it may be called again with the same ones."""
    completed = [each for each in outcomes if each.failure is None and each.run is not None and not each.counted]
    if completed:
        _complete(using, completed, passing_on)
    failed = [outcome for outcome in outcomes if outcome.run and outcome.failure and not outcome.counted]
    if failed:
        _fail(using, failed)
    unbegun = [outcome.work for outcome in outcomes if outcome.run is None]
    if unbegun:
        release_jobs(using, unbegun)


def write_shared(using: str, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Write successes with a shared end, and delete their jobs in the same transaction.

    Returns those that have to wait for others. As :func:`write`, it may be called again after an error.
    """
    ends: dict[WriteEnds, list[tuple[AcquiredJob, Any]]] = {}
    for each in outcomes:
        if each.shared is not None and not each.counted:
            ends.setdefault(each.shared.write, []).append((each.work, each.shared.value))
    with atomic(using):
        waiting = {id for write_ends, group in ends.items() for id in write_ends(using, group)}
        done = [each for each in outcomes if not each.counted and each.work.id not in waiting]
        keep = {each.work.serial_key for each in done if each.siblings is not None}
        runs = [(each.work, each.run) for each in done if each.run is not None]
        lost = complete_or_lose(using, runs, keep) if runs else set()
    _count(using, done, lost)
    return [each for each in outcomes if each.work.id in waiting]


def _complete(using: str, outcomes: Sequence[Outcome], passing_on: PassingOn | None) -> None:
    keep = {each.work.serial_key for each in outcomes if each.siblings is not None}
    kept = [each for each in outcomes if each.keeper is not None]
    plain = [each for each in outcomes if each.keeper is None] if kept else outcomes
    if plain:
        runs = [(each.work, each.run) for each in plain if each.run is not None]
        with passing_on(plain) if passing_on is not None else nullcontext() as freed:
            lost = complete_or_lose(using, runs, keep, freed)
        _count(using, plain, lost)
    if kept:
        results = [(each.work, each.run, each.result) for each in kept if each.run is not None]
        _count(using, kept, complete_with_results(using, results, keep))
        tell_finished(kept)


def complete_alone(outcome: Outcome, run: Run) -> bool:
    """Delete the job of one successful run, in the caller's transaction if there is one; returns whether it counts.

    Also that of a run whose failure is handled.
    """
    work = outcome.work
    if outcome.failure is not None:
        return _end_handled(outcome, outcome.failure, run)
    if outcome.keeper is None:
        return not complete_or_lose(work.using, [(work, run)])
    return not complete_with_results(work.using, [(work, run, outcome.result)])


def _end_handled(outcome: Outcome, failure: Failure, run: Run) -> bool:
    using = outcome.work.using
    (row,) = fail_jobs(using, [(outcome.work, failure, run)])
    if row is None:
        return False
    outcome.became = type(row)
    outcome.cancelled = row.cancel_requested
    signal, values = failure_signal(row, failure.error, handled=outcome.handled)
    announce(signal, using, type(row), **values)
    return True


def _count(using: str, outcomes: Sequence[Outcome], lost: set[UUID]) -> None:
    done = [each for each in outcomes if each.work.id not in lost] if lost else outcomes
    for outcome in done:  # at once: after an error further down we are called again
        outcome.counted = True
    if done and signals.job_completed.has_listeners(Job):
        signals.job_completed.send_robust(sender=Job, using=using, jobs=[outcome.work for outcome in done])


def _fail(using: str, outcomes: Sequence[Outcome]) -> None:
    moved = fail_jobs(using, [(each.work, each.failure, each.run) for each in outcomes if each.failure and each.run])
    for outcome, job in zip(outcomes, moved, strict=True):
        outcome.counted = job is not None
        outcome.became = type(job) if job is not None else None
        outcome.cancelled = job is not None and job.cancel_requested
    for outcome, job in zip(outcomes, moved, strict=True):
        if job is not None and outcome.failure:
            signal, values = failure_signal(job, outcome.failure.error, handled=outcome.handled)
            if signal.receivers and signal.has_listeners(type(job)):
                signal.send_robust(sender=type(job), using=using, **values)
    tell_finished(outcomes)


def tell_finished(outcomes: Iterable[Outcome]) -> None:
    """Tell handlers that keep results which of their jobs are committed and over: done, dead letter or cancelled."""
    for each in outcomes:
        if each.keeper is not None and each.counted and (each.failure is None or each.became in _OVER):
            try:
                each.keeper.finished(each.work, each.work.using, each.failure)
            except Exception:  # also of a project's receiver: what is written stays written
                text = "Job %s has ended, but reporting its end failed"
                logger.exception(text, each.work.id, extra=log_fields(each.work))


_OVER = (DeadLetterJob, Job)


def write_alone(using: str, outcome: Outcome) -> None:
    """Write one outcome, or a dead letter with the reason why it cannot be written."""
    try:
        write(using, [outcome])
        return
    except Exception as error:
        if is_of_connection(error):
            raise
        work = outcome.work
        # Database errors quote the values that they refuse.
        stack = storable(without_secrets(stack_of(error), outcome, error))
        text = "Job %s: its outcome could not be written; it becomes a dead letter\n%s"
        logger.error(text, work.id, stack, extra=log_fields(work, outcome=outcome.name))
        reason = without_secrets(f"{type(error).__name__}: {error}", outcome, error)
    message = f"The outcome could not be written: {reason}"
    if outcome.failure:
        message = f"{outcome.failure.message} ({message})"
    run = outcome.run or Run(clock.now(using), 0.0, "")
    keeps_instance = outcome.failure is not None and outcome.failure.keeps_instance
    failure = Failure(message, kind="fatal", keeps_instance=keeps_instance)
    try:
        (moved,) = fail_jobs(using, [(outcome.work, failure, run)])
        outcome.counted, outcome.became = moved is not None, type(moved) if moved is not None else None
    except Exception as error:
        if is_of_connection(error):
            raise
        buried = bury(using, Job, work.id, message, lock_owner=work.lock_owner, keeps_instance=keeps_instance)
        outcome.counted, outcome.became, outcome.failure = buried, DeadLetterJob, failure
        return  # bury() sends the signals
    outcome.failure = failure  # not earlier: after an error the original outcome may be written
    tell_finished([outcome])  # as failed, even if the run succeeded
