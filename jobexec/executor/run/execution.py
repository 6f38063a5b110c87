"""A worker thread's whole work on one batch."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from django.db import transaction

from jobexec import clock, signals, tracing
from jobexec.exceptions import (
    DoNotRetry,
    HandlerNotFound,
    JobCancelled,
    JobTimeout,
    LockLost,
    RetryAt,
    RetryIn,
    UnreadableJob,
)
from jobexec.handlers.base import JobHandler, NotBegun
from jobexec.handlers.context import JobContext
from jobexec.handlers.registry import get_handler
from jobexec.models import Job
from jobexec.operations.settle.recover import mark_suspect_started
from jobexec.operations.sql.errors import is_conflict, one_line, storable
from jobexec.operations.sql.session import is_lost, is_of_connection
from jobexec.operations.values.acquired_job import ALONE_FROM, AcquiredJob
from jobexec.operations.values.failure import MESSAGE_LENGTH, Failure
from jobexec.operations.values.log_fields import log_fields
from jobexec.operations.values.run import Run
from jobexec.retry import RetryPlan

from ...runtime.connections import clean_connections, is_broken, note_loss, prepare_connections
from .forks import end_if_forked, generation
from .outcomes import Outcome, complete_alone, tell_finished
from .redacted import redacted
from .spans import begin_span, end_span
from .stack import stack_of

logger = logging.getLogger("jobexec.execution")


class Runner(Protocol):
    """What running one handler asks of whoever runs it."""

    node_name: str

    @property
    def shutting_down(self) -> bool: ...

    def owns(self, lock_owner: str, using: str) -> bool: ...

    def begin(self, context: JobContext, handler: JobHandler) -> None: ...

    def end(self, context: JobContext) -> None: ...


class Host(Runner, Protocol):
    """What execution asks of the executor it runs in."""

    def may_start(self, work: AcquiredJob) -> bool: ...

    def submit(self, outcome: Outcome) -> None: ...

    def has_settled_itself(self, outcome: Outcome) -> None: ...

    def settle(self, outcome: Outcome) -> bool: ...

    def settle_before(self, outcome: Outcome, siblings: list[AcquiredJob]) -> None: ...


def execute_batch(batch: list[AcquiredJob], host: Host) -> None:
    """Run a single job, or the first of exclusive siblings; never raises.

    A sibling's outcome is committed before the next sibling starts, so a crash never runs A again after B: the thread
    does not wait for that, the siblings come back to the queue when it is done. That of a job that runs alone is
    committed before anything else starts, or a crash then would be charged to it. What may not start any more (the
    executor stops, the lock is gone) is given back.
    """
    left = batch
    try:
        while left:
            if not host.may_start(left[0]):
                return
            outcome = execute(left[0], host)
            if outcome.run is None:
                return  # it could not begin
            if outcome.timed_out:
                return  # settled when its time was over; giving it back frees its process instance: it has ended now
            left = hand_on(outcome, left[1:], host)
    finally:  # also after what nobody foresaw: jobs that nobody gives back stay locked as long as the process lives
        for unbegun in left:
            host.submit(Outcome(unbegun))


def hand_on(outcome: Outcome, siblings: list[AcquiredJob], host: Host) -> list[AcquiredJob]:
    """Hand on the outcome of the first job of a batch; returns its siblings if they are still this thread's."""
    work = outcome.work
    if outcome.counted:
        host.has_settled_itself(outcome)
        _announce(outcome)
        return siblings
    if work.lost_runs >= ALONE_FROM:
        # Not counted: taken over by somebody else, and with it the process instance; or settled by a commit that was
        # in doubt, and then the others are still locked by us, and are given back.
        if host.settle(outcome):
            return siblings
        for sibling in siblings:
            host.submit(Outcome(sibling))
    elif siblings:
        host.settle_before(outcome, siblings)
    else:
        host.submit(outcome)
    return []


def _announce(outcome: Outcome) -> None:
    """An atomic job has settled itself; the settlement announces all others."""
    work = outcome.work
    tell_finished([outcome])
    if signals.job_completed.has_listeners(Job):
        signals.job_completed.send_robust(sender=Job, using=work.using, jobs=[work])


def execute(work: AcquiredJob, host: Host) -> Outcome:
    """One job from handler look-up to outcome; never raises. An outcome without a run gives back what did not begin."""
    started_at, start = clock.now(work.using), clock.monotonic()
    outcome = Outcome(work)
    handler: JobHandler | None = None
    try:
        prepare_connections()
        if work.cancel_requested:
            raise JobCancelled("It was cancelled before it started.")
        handler = get_handler(work.handler_type)
        run_handler(handler, work, host, outcome, started_at)
    except BaseException as error:  # also SystemExit and KeyboardInterrupt: no thread dies of a job
        if not caught(outcome, error, handler, host.shutting_down):
            _clean_up()
            return outcome
    open_on = _clean_up()
    if open_on and not (outcome.counted or outcome.timed_out) and outcome.failure is None:
        # Its work is undone: to call the job done would lose it.
        message = f"The handler left a transaction open on {', '.join(open_on)}; it was rolled back."
        outcome.run, outcome.failure = None, Failure(message, plan=handler.retry_plan if handler else None)
    return ended(outcome, host, started_at, start)


def caught(outcome: Outcome, error: BaseException, handler: JobHandler | None, draining: bool = False) -> bool:
    """Write down what a run raised; False if the job could not begin, and is to be given back. Never raises.

    ``draining``: the executor stops, and a handler that puts itself off does so for that reason.
    """
    work = outcome.work
    if outcome.counted:
        with suppress(Exception):
            failure = redacted(failure_of(error, work.using, handler), handler, outcome.arguments or work.configuration)
            text = "Job %s is done and committed, but a hook on its commit failed\n%s"
            logger.error(text, work.id, storable(failure.stack), extra=log_fields(work))
    elif _could_not_begin(outcome, error):
        end_span(outcome)
        with suppress(Exception):
            text = "Job %s could not start (%s); it is released"
            logger.warning(text, work.id, error, extra=log_fields(work, outcome="returned"))
        return False
    else:
        failure = failure_of(error, work.using, handler)
        note_loss(error)
        if draining and isinstance(error, RetryIn | RetryAt) and failure.kind == "error":
            failure = replace(failure, kind="interrupted")
        if outcome.undone and failure.kind == "error" and is_lost(error):
            failure = replace(failure, kind="conflict")
        outcome.run, outcome.failure = None, redacted(failure, handler, outcome.arguments or work.configuration)
    return True


def _could_not_begin(outcome: Outcome, error: BaseException) -> bool:
    """The database was away when a suspect was to be marked, the transaction of an atomic job to begin, or the handler
    to prepare its call. What was settled meanwhile, because its time was over, is not given back."""
    if outcome.began:
        return isinstance(error, NotBegun) and not outcome.timed_out
    return is_of_connection(error)


def ended(outcome: Outcome, host: Runner, started_at: datetime, start: float) -> Outcome:
    """The run is over, well or not: how long it took, and a line in the log. Never raises."""
    if outcome.run is None:
        outcome.run = Run(started_at, clock.monotonic() - start, host.node_name)
    if outcome.span is not None:
        end_span(outcome)
    if outcome.failure is not None or outcome.timed_out or logger.isEnabledFor(logging.INFO):
        with suppress(Exception):  # a project's logging filter that fails must not cost a thread or an outcome
            _log(outcome, outcome.run)
    return outcome


def run_handler(
    handler: JobHandler, work: AcquiredJob, host: Runner, outcome: Outcome, started_at: datetime | None = None
) -> Any:
    """Run the handler in a context of its own; an atomic job together with the deletion of its row.

    Returns what the handler returns and raises what it raises.
    """
    outcome.keep_for(handler)
    text = work.arguments()
    if text is not work.configuration:
        outcome.arguments = text
    arguments = handler.read(text)
    if work.lost_runs and not mark_suspect_started(work):
        raise LockLost()
    context = JobContext(work, host, started_at)
    if not work.atomic:
        return _call(handler, context, arguments, host, outcome)
    started_at, start = context.started_at, clock.monotonic()

    def committed() -> None:
        outcome.counted = True

    with transaction.atomic(using=work.using), _watching_connection(outcome):
        # Registered before any hook of the handler, so that it runs first: an error in theirs comes after the commit.
        transaction.on_commit(committed, using=work.using)
        result = _call(handler, context, arguments, host, outcome)
        outcome.run = Run(started_at, clock.monotonic() - start, host.node_name)
        if not complete_alone(outcome, outcome.run):
            raise LockLost()
    return result


@contextmanager
def _watching_connection(outcome: Outcome) -> Iterator[None]:
    """Within the transaction of an atomic job: note whether its connection was lost, and with it all that it did.

    An error of the commit itself comes later, and is a conflict, too, if it says that: if the commit went through
    nevertheless, there is no row any more, and nothing is written.
    """
    outcome.undone = True
    try:
        yield
    except BaseException:
        outcome.undone = is_broken(outcome.work.using)
        raise


def _call(handler: JobHandler, context: JobContext, arguments: Any, host: Runner, outcome: Outcome) -> Any:
    # A fresh context: time zone, language and context variables of one job are not seen by the next.
    fresh = contextvars.Context()
    if context.work.traceparent is not None:
        outcome.span = begin_span(context.work, host.node_name)
        if outcome.span is not None:
            fresh.run(tracing.enter, outcome.span)
    outcome.began, process = True, generation()
    host.begin(context, handler)
    try:
        result = fresh.run(handler.execute, context, arguments)
    finally:
        end_if_forked(process, context.work)
        host.end(context)
        outcome.timed_out = context.timed_out
    if context.timed_out or context.saw_cancellation:
        raise interruption(context)
    outcome.take(result)
    return result


def interruption(context: JobContext) -> Exception:
    """Why a run does not count although its handler has returned."""
    return JobTimeout() if context.timed_out else JobCancelled()


class _Planned(Protocol):
    @property
    def retry_plan(self) -> RetryPlan | None: ...


def failure_of(error: BaseException, using: str, handler: _Planned | None) -> Failure:
    """What an exception says about the job: see :class:`~jobexec.operations.settle.fail.Failure`. Never raises.

    ``handler`` is None if it was not found.
    """
    plan = handler.retry_plan if handler else None
    try:
        return _failure_of(error, using, handler, plan)
    except BaseException as problem:  # its __str__ fails, it asks for a time that does not exist, ...
        return Failure(f"{type(error).__name__}, an exception that cannot be recorded ({_told(problem)})", plan=plan)


def _told(problem: BaseException) -> str:
    try:
        return f"{type(problem).__name__}: {problem}"
    except BaseException:  # it fails with itself
        return type(problem).__name__


def _failure_of(error: BaseException, using: str, handler: _Planned | None, plan: RetryPlan | None) -> Failure:
    message = f"{type(error).__name__}: {error}"
    if isinstance(error, HandlerNotFound) and handler is None:
        return Failure(message, kind="unknown")
    if isinstance(error, JobCancelled):
        return Failure(message, kind="cancelled", error=error)
    stack = stack_of(error)
    if isinstance(error, UnreadableJob | DoNotRetry):
        return Failure(message, stack, kind="fatal", error=error)
    if isinstance(error, RetryIn):
        return Failure(message, stack, retry_at=clock.now(using) + error.delay, error=error)
    if isinstance(error, RetryAt):
        # In UTC, so that a moment past the year 9999 fails here and not in the database, or never.
        return Failure(message, stack, retry_at=error.when.astimezone(UTC), error=error)
    kind = "conflict" if is_conflict(error) else "error"
    return Failure(message, stack, kind=kind, plan=plan, error=error)


def _clean_up() -> list[str]:
    """Leave the thread as a new one: no open transaction, no event loop, no record of queries. Never raises.

    Returns the databases on which a transaction was open; it is rolled back.
    """
    left = clean_connections()
    asyncio.set_event_loop(None)
    return left


def _log(outcome: Outcome, run: Run) -> None:
    work, failure = outcome.work, outcome.failure
    extra = log_fields(work, duration=run.duration, outcome=outcome.name)
    named = one_line(work.handler_type)
    if outcome.timed_out:
        logger.warning("%s %s finally ended after %.3f s", named, work.id, run.duration, extra=extra)
    elif failure is None:
        logger.info("%s %s done in %.3f s", named, work.id, run.duration, extra=extra)
    elif failure.kind == "cancelled":
        logger.info("%s %s was cancelled after %.3f s", named, work.id, run.duration, extra=extra)
    else:
        text = "%s %s failed after %.3f s (attempt %d): %s"
        # A log file cannot take a lone surrogate either.
        attempt, message = work.attempts + 1, one_line(failure.message, MESSAGE_LENGTH)
        logger.warning(text, named, work.id, run.duration, attempt, message, extra=extra)
