"""Runs one batch in a worker thread."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from django.db import transaction
from django.db.transaction import TransactionManagementError

from jobexec import clock, signals, tracing
from jobexec.encryption import AGAIN, may_be_sealed
from jobexec.exceptions import (
    DoNotRetry,
    HandlerNotFound,
    JobCancelled,
    JobExpired,
    JobTimeout,
    LockLost,
    NotDecryptableYet,
    RetryAt,
    RetryIn,
    UnreadableJob,
)
from jobexec.handlers.base import JobHandler, NotBegun
from jobexec.handlers.context import JobContext
from jobexec.handlers.middleware import call
from jobexec.handlers.registry import get_handler
from jobexec.models import Job
from jobexec.operations.settle.recover import mark_suspect_started
from jobexec.operations.sql.errors import is_conflict, one_line, storable
from jobexec.operations.sql.session import is_lost, is_of_connection
from jobexec.operations.values.acquired_job import ALONE_FROM, AcquiredJob, in_order
from jobexec.operations.values.failure import MESSAGE_LENGTH, Failure, fingerprint_of
from jobexec.operations.values.failure_log import failure_log
from jobexec.operations.values.log_fields import log_fields
from jobexec.operations.values.run import Run
from jobexec.retry import RetryPlan

from ...runtime.connections import clean_connections, is_broken, note_loss, prepare_connections
from .forks import end_if_forked, generation
from .outcomes import Outcome, complete_alone, tell_finished
from .read import read
from .redacted import redacted
from .spans import begin_span, end_span
from .stack import stack_of

logger = logging.getLogger("jobexec.execution")


class Runner(Protocol):
    """The interface that running one handler needs from its runner."""

    node_name: str

    @property
    def shutting_down(self) -> bool: ...

    def owns(self, lock_owner: str, using: str) -> bool: ...

    def begin(self, context: JobContext, handler: JobHandler) -> None: ...

    def end(self, context: JobContext) -> None: ...


class Host(Runner, Protocol):
    """The interface of the executor that execution uses."""

    def may_start(self, work: AcquiredJob) -> bool: ...

    def submit(self, outcome: Outcome) -> None: ...

    def has_settled_itself(self, outcome: Outcome) -> None: ...

    def settle(self, outcome: Outcome) -> bool: ...

    def settle_before(self, outcome: Outcome, siblings: list[AcquiredJob]) -> None: ...

    def follow(self, work: AcquiredJob, batch: list[AcquiredJob]) -> list[AcquiredJob]: ...


def execute_batch(batch: list[AcquiredJob], host: Host) -> None:
    """Run a single job, or the first of exclusive siblings; never raises.

    A sibling's outcome is committed before the next sibling starts, so a crash never runs A again after B: the thread
    does not wait for the commit, the siblings return to the queue after it. The outcome of a job that runs alone is
    committed before anything else starts, otherwise a crash would be charged to it. Jobs that may no longer start (the
    executor stops, the lock is gone) are released.
    """
    left = batch
    try:
        while left:
            if not host.may_start(left[0]):
                return
            work = left[0]
            outcome = execute(work, host)
            work.ended = True  # in this order: its handler may have left a thread behind that enqueues just now
            if work.followers is not None:
                left = with_followers(left, batch, host)
            if outcome.run is None:
                return  # it could not start
            if outcome.timed_out:
                return  # settled at its timeout; releasing it frees its process instance: it has ended now
            left = hand_on(outcome, left[1:], host)
    finally:  # also after unforeseen errors: jobs that are not released stay locked as long as the process lives
        for unbegun in left:
            host.submit(Outcome(unbegun))


def with_followers(left: list[AcquiredJob], batch: list[AcquiredJob], host: Host) -> list[AcquiredJob]:
    """The rest of a batch whose first job has run, with the follow-ups of that job among its siblings, in order."""
    work = left[0]
    return [work, *sorted([*left[1:], *host.follow(work, batch)], key=in_order)]


def hand_on(outcome: Outcome, siblings: list[AcquiredJob], host: Host) -> list[AcquiredJob]:
    """Submit the outcome of the first job of a batch; returns its siblings if they still belong to this thread."""
    work = outcome.work
    if outcome.counted:
        host.has_settled_itself(outcome)
        _announce(outcome)
        return siblings
    if work.lost_runs >= ALONE_FROM:
        # Not counted: another node took it over, and with it the process instance; or a commit in doubt settled it,
        # and then the siblings are still locked by us and are released.
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
    """Send the signals of an atomic job, which settled itself; the settlement announces all others."""
    work = outcome.work
    tell_finished([outcome])
    if outcome.failure is None and signals.job_completed.has_listeners(Job):
        signals.job_completed.send_robust(sender=Job, using=work.using, jobs=[work])


def execute(work: AcquiredJob, host: Host) -> Outcome:
    """Run one job, from the handler look-up to its outcome; never raises. Without a run, the outcome releases it."""
    started_at, start = clock.now(work.using), clock.monotonic()
    outcome = Outcome(work)
    handler: JobHandler | None = None
    try:
        prepare_connections()
        check_may_begin(work, started_at)
        handler = get_handler(work.handler_type)
        run_handler(handler, work, host, outcome, started_at)
    except BaseException as error:  # also SystemExit and KeyboardInterrupt: no job may end the thread
        if not caught(outcome, error, handler, host.shutting_down):
            clean_up()
            return outcome
    open_on = clean_up()
    if open_on and not (outcome.counted or outcome.timed_out) and outcome.failure is None:
        # Its work was rolled back: completing the job would lose it.
        message = f"The handler left a transaction open on {', '.join(open_on)}; it was rolled back."
        outcome.run, outcome.failure = None, Failure(message, plan=handler.retry_plan if handler else None)
    return ended(outcome, host, started_at, start)


def check_may_begin(work: AcquiredJob, now: datetime) -> None:
    """Raise JobCancelled for a job that was cancelled, or has expired, before it starts."""
    if work.cancel_requested:
        raise JobCancelled("It was cancelled before it started.")
    if work.expires_at is not None and work.expires_at <= now:
        raise JobExpired(f"It expired at {work.expires_at.isoformat(timespec='seconds')}, before it started.")


def caught(outcome: Outcome, error: BaseException, handler: JobHandler | None, draining: bool = False) -> bool:
    """Record what a run raised; False if the job could not start and is to be released. Never raises.

    ``draining``: the executor is stopping, and a handler that raises RetryIn or RetryAt does so for that reason.
    """
    work = outcome.work
    if outcome.counted:
        with suppress(Exception):
            failure = redacted(failure_of(error, work.using, handler), handler, outcome)
            text = "Job %s is done and committed, but a hook on its commit failed\n%s"
            logger.error(text, work.id, storable(failure.stack), extra=log_fields(work))
    elif _could_not_begin(outcome, error):
        end_span(outcome)
        with suppress(Exception):
            text = "Job %s could not start (%s); it is released"
            logger.warning(text, work.id, one_line(error), extra=log_fields(work, outcome="returned"))
        return False
    else:
        failure = failure_of(error, work.using, handler, draining)
        note_loss(error)
        # The second is what Django raises when a savepoint could not be undone, because there is no connection.
        gone = is_lost(error) or isinstance(error, TransactionManagementError)
        if outcome.undone and failure.kind == "error" and gone:
            failure = replace(failure, kind="conflict")
        if error is work.handled:
            failure = replace(failure, kind="handled")
        outcome.run, outcome.failure = None, redacted(failure, handler, outcome)
    return True


def _could_not_begin(outcome: Outcome, error: BaseException) -> bool:
    """Whether the database was away when a suspect was to be marked, an atomic job's transaction to begin, or the
    handler to prepare its call. A job settled meanwhile, at its timeout, is not released."""
    if outcome.began:
        return isinstance(error, NotBegun) and not outcome.timed_out
    return is_of_connection(error)


def ended(outcome: Outcome, host: Runner, started_at: datetime, start: float) -> Outcome:
    """Complete the outcome with the run's duration, end its span and log it. Never raises."""
    if outcome.run is None:
        outcome.run = Run(started_at, clock.monotonic() - start, host.node_name)
    if outcome.failure is not None:
        outcome.shared = None  # it has failed after its handler had ended: a transaction was left open, for example
    if outcome.span is not None:
        end_span(outcome)
    if outcome.failure is not None or outcome.timed_out or logger.isEnabledFor(logging.INFO):
        with suppress(Exception):  # a project's logging filter that fails must not cost a thread or an outcome
            _log(outcome, outcome.run)
    return outcome


def run_handler(
    handler: JobHandler, work: AcquiredJob, host: Runner, outcome: Outcome, started_at: datetime | None = None
) -> Any:
    """Run the handler in its own context; for an atomic job, in one transaction with the deletion of its row.

    Returns what the handler returns and raises what it raises.
    """
    outcome.keep_for(handler)
    text = work.arguments()
    if text is not work.configuration:
        outcome.arguments = text
    arguments = read(handler, outcome, text) if may_be_sealed(text) else handler.read(text)  # mostly one call less
    if work.lost_runs and not mark_suspect_started(work):
        raise LockLost()
    context = JobContext(work, host, started_at)
    if not work.atomic:
        return call_handler(handler, context, arguments, host, outcome)
    started_at, start = context.started_at, clock.monotonic()

    def committed() -> None:
        outcome.counted = True

    try:
        with transaction.atomic(using=work.using), _watching_connection(outcome):
            # Registered before any hook of the handler, to run first: errors in their hooks come after the commit.
            transaction.on_commit(committed, using=work.using)
            result = call_handler(handler, context, arguments, host, outcome)
            outcome.run = Run(started_at, clock.monotonic() - start, host.node_name)
            if work.handled is not None:
                failure = replace(failure_of(work.handled, work.using, handler), kind="handled")
                outcome.failure = redacted(failure, handler, outcome)
            if not complete_alone(outcome, outcome.run):
                raise LockLost()
    finally:
        if context.timed_out and (after_timeout := getattr(handler, "after_timeout", None)) is not None:
            after_timeout(context, arguments)
    return result


@contextmanager
def _watching_connection(outcome: Outcome) -> Iterator[None]:
    """Within the transaction of an atomic job: note whether its connection was lost, and with it all its changes.

    An error of the commit itself comes later, and counts as a conflict too if it indicates a lost connection: if the
    commit succeeded nevertheless, the row is gone, and nothing is written.
    """
    outcome.undone = True
    try:
        yield
    except BaseException:
        outcome.undone = is_broken(outcome.work.using)
        raise


def call_handler(handler: JobHandler, context: JobContext, arguments: Any, host: Runner, outcome: Outcome) -> Any:
    """Call the handler within the middleware. Returns what it returns, raises what it raises."""
    # A fresh context: no job sees the time zone, language and context variables of another.
    fresh = contextvars.Context()
    process = begin_call(handler, context, host, outcome, fresh.run)
    try:
        result = fresh.run(_within, handler, context, arguments)
    finally:
        end_call(context, host, outcome, process)
    accept(context, outcome, result)
    return result


def _within(handler: JobHandler, context: JobContext, arguments: Any) -> Any:
    """Call the handler; this is in its context."""
    context.enter()
    if signals.job_started.receivers and signals.job_started.has_listeners(Job):
        signals.job_started.send_robust(Job, using=context.using, job=context.work, context=context)
    return call(handler, context, arguments)


# What a call of a handler consists of, in a thread and in a coroutine.


def begin_call(
    handler: JobHandler, context: JobContext, host: Runner, outcome: Outcome, run: Callable[..., object]
) -> int:
    """Announce the call, and enter its span with ``run``, in the context of the call. Returns what end_call() needs."""
    if context.work.traceparent is not None:
        outcome.span = begin_span(context.work, host.node_name)
        if outcome.span is not None:
            run(tracing.enter, outcome.span)
    outcome.began, process = True, generation()
    host.begin(context, handler)
    return process


def end_call(context: JobContext, host: Runner, outcome: Outcome, process: int) -> None:
    """Note the end of the call, however it ended. Does not return in a process that the handler forked."""
    end_if_forked(process, context.work)
    host.end(context)
    outcome.timed_out = context.timed_out


def accept(context: JobContext, outcome: Outcome, result: Any) -> None:
    """Take what the handler returned. Raises JobTimeout or JobCancelled if the run does not count nevertheless."""
    if context.timed_out or context.saw_cancellation:
        raise JobTimeout() if context.timed_out else JobCancelled()
    if context.shared_end is not None:
        outcome.shared = context.shared_end
    outcome.take(result)


class _Planned(Protocol):
    @property
    def retry_plan(self) -> RetryPlan | None: ...


def failure_of(error: BaseException, using: str, handler: _Planned | None, draining: bool = False) -> Failure:
    """Convert an exception to a :class:`~jobexec.operations.settle.fail.Failure`. Never raises.

    ``handler`` is None if it was not found. ``draining``: see :func:`caught`.
    """
    plan = handler.retry_plan if handler else None
    try:
        failure = _failure_of(error, using, handler, plan)
        if draining and isinstance(error, RetryIn | RetryAt) and failure.kind in ("error", "snoozed"):
            failure = replace(failure, kind="interrupted")
        return failure
    except BaseException as problem:  # its __str__ fails, it asks for a time that does not exist, ...
        return Failure(f"{type(error).__name__}, an exception that cannot be recorded ({_told(problem)})", plan=plan)


def _told(problem: BaseException) -> str:
    try:
        return f"{type(problem).__name__}: {problem}"
    except BaseException:  # its own __str__ fails too
        return type(problem).__name__


def _failure_of(error: BaseException, using: str, handler: _Planned | None, plan: RetryPlan | None) -> Failure:
    message = f"{type(error).__name__}: {error}"
    if isinstance(error, HandlerNotFound) and handler is None:
        return Failure(message, kind="unknown")
    if isinstance(error, JobCancelled):
        return Failure(message, kind="cancelled", error=error)
    if isinstance(error, NotDecryptableYet):
        return Failure(message, kind="interrupted", retry_at=clock.now(using) + AGAIN, error=error)
    stack = stack_of(error)
    if isinstance(error, UnreadableJob | DoNotRetry):
        return Failure(message, stack, kind="fatal", error=error)
    if isinstance(error, RetryIn | RetryAt):
        # In UTC, so that a time past the year 9999 fails here and not in the database, or never.
        when = clock.now(using) + error.delay if isinstance(error, RetryIn) else error.when.astimezone(UTC)
        return Failure(message, stack, kind="error" if error.count else "snoozed", retry_at=when, error=error)
    kind = "conflict" if is_conflict(error) else "error"
    return Failure(message, stack, kind=kind, plan=plan, error=error)


def fail_after_run(outcome: Outcome, error: Exception) -> None:
    """Turn a success into a failure: what was to be written with its end raises an error."""
    handler = get_handler(outcome.work.handler_type)
    outcome.shared, outcome.failure = None, redacted(failure_of(error, outcome.work.using, handler), handler, outcome)
    if outcome.run is not None:
        with suppress(Exception):
            _log(outcome, outcome.run)


def clean_up() -> list[str]:
    """Reset the thread: no open transaction, no event loop, no recorded queries. Never raises.

    Returns the databases on which a transaction was open and has been rolled back.
    """
    left = clean_connections()
    if _may_have_event_loop():
        asyncio.set_event_loop(None)
    return left


def _may_have_event_loop() -> bool:
    """Whether an event loop may be set in this thread; unlike removing one, to look takes no part of a job's time.

    asyncio has no question for it that neither creates a loop nor raises an error, so this looks where its policy keeps
    the loop of a thread. Without a policy of this kind, the answer is yes.
    """
    try:
        return asyncio.events._event_loop_policy._local._loop is not None  # type: ignore[attr-defined]
    except AttributeError:
        return True


def _log(outcome: Outcome, run: Run) -> None:
    work, failure = outcome.work, outcome.failure
    extra = log_fields(work, duration=run.duration, outcome=outcome.name)
    named = one_line(work.handler_type)
    if outcome.timed_out:
        group, text = f"ended {work.handler_type}", "%s %s finally ended after %.3f s"
        failure_log.log(logger, logging.WARNING, group, text, named, work.id, run.duration, extra=extra)
    elif failure is None:
        logger.info("%s %s done in %.3f s", named, work.id, run.duration, extra=extra)
    elif failure.kind == "snoozed":
        logger.info("%s %s postponed itself after %.3f s: %s", named, work.id, run.duration, one_line(failure.message))
    elif isinstance(failure.error, JobExpired):
        group, text = f"expired {work.handler_type}", "%s %s was cancelled: %s"
        failure_log.log(logger, logging.WARNING, group, text, named, work.id, one_line(failure.message), extra=extra)
    elif failure.kind == "unknown":  # no failure: another node may know the handler
        group, text = f"unknown {work.handler_type}", "%s %s was put back: %s"
        failure_log.log(logger, logging.WARNING, group, text, named, work.id, one_line(failure.message), extra=extra)
    elif failure.kind == "cancelled":
        logger.info("%s %s was cancelled after %.3f s", named, work.id, run.duration, extra=extra)
    else:
        group, text = fingerprint_of(work, failure), "%s %s failed after %.3f s (attempt %d): %s"
        # A log file cannot take a lone surrogate either.
        attempt, message = work.attempts + 1, one_line(failure.message, MESSAGE_LENGTH)
        args = named, work.id, run.duration, attempt, message
        failure_log.log(logger, logging.WARNING, group, text, *args, extra=extra)
