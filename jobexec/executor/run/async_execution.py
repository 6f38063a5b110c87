"""Runs one batch in the async worker: the counterpart of ``execution``, without a thread."""

from __future__ import annotations

import asyncio
from typing import Protocol

from asgiref.sync import sync_to_async

from jobexec import clock, signals
from jobexec.exceptions import HandlerNotFound, LockLost
from jobexec.handlers.base import AsyncJobHandler
from jobexec.handlers.context import JobContext
from jobexec.handlers.middleware import call_async
from jobexec.handlers.registry import async_handler
from jobexec.models import Job
from jobexec.operations.settle.recover import mark_suspect_started
from jobexec.operations.values.acquired_job import AcquiredJob

from .execution import Host, accept, begin_call, caught, check_may_begin, end_call, ended, with_followers
from .outcomes import Outcome
from .read import read
from .spans import end_span

_UNDECIDED = 0.1


class AsyncHost(Host, Protocol):
    """The interface of the executor that the async worker uses. Nothing here blocks."""

    def verdict(self, work: AcquiredJob) -> bool | None:
        """Whether this job may start; None if a heartbeat must find out first."""
        ...


class End(Protocol):
    """How the worker ends. ``cancelling``: cancelled handlers release their jobs; ``dropped``: they do not."""

    cancelling: bool
    dropped: bool


async def execute_batch_async(batch: list[AcquiredJob], host: AsyncHost, end: End) -> None:
    """Run a single job, or the first of exclusive siblings, as ``execute_batch`` does; never raises.

    The siblings return to the pool after the commit of its outcome. Jobs that may no longer start are released.
    """
    left = batch
    try:
        if await _may_start(batch[0], host):
            outcome = await _execute(batch[0], host, end)
            batch[0].ended = True  # in this order, as in a thread
            if batch[0].followers is not None:
                left = with_followers(batch, batch, host)
            if outcome.run is not None and not outcome.timed_out and not end.dropped:
                siblings, left = left[1:], []
                _hand_on(outcome, siblings, host)
    finally:
        for unbegun in () if end.dropped else left:
            host.submit(Outcome(unbegun))


def _hand_on(outcome: Outcome, siblings: list[AcquiredJob], host: AsyncHost) -> None:
    """As in a thread, but without waiting for the commit of a suspect: the async worker runs none alone."""
    if siblings:
        host.settle_before(outcome, siblings)
    else:
        host.submit(outcome)


async def _may_start(work: AcquiredJob, host: AsyncHost) -> bool:
    while (verdict := host.verdict(work)) is None:
        await asyncio.sleep(_UNDECIDED)
    return verdict


async def _execute(work: AcquiredJob, host: AsyncHost, end: End) -> Outcome:
    """Run one job, from the handler look-up to its outcome; never raises.

    An outcome without a run releases a job that did not start, or was cancelled because the executor stops.
    """
    started_at, start = clock.now(work.using), clock.monotonic()
    outcome = Outcome(work)
    handler: AsyncJobHandler | None = None
    try:
        check_may_begin(work, started_at)
        handler = async_handler(work.handler_type)
        if handler is None:
            raise HandlerNotFound(f"No async handler {work.handler_type!r} is registered in this process.")
        outcome.keep_for(handler)
        # Long arguments are still in the database.
        text = work.configuration
        if text is None:
            text = outcome.arguments = await sync_to_async(work.arguments)()
        if work.lost_runs and not await sync_to_async(mark_suspect_started)(work):
            raise LockLost()
        await _call(handler, JobContext(work, host, started_at), read(handler, outcome, text), host, outcome)
    except BaseException as error:  # no job may end the loop
        if end.cancelling and isinstance(error, asyncio.CancelledError) and not outcome.timed_out:
            end_span(outcome)
            return outcome
        if not caught(outcome, error, handler, host.shutting_down):
            return outcome
    return ended(outcome, host, started_at, start)


async def _call(handler: AsyncJobHandler, context: JobContext, arguments: object, host: Host, outcome: Outcome) -> None:
    context.holds_thread = False
    # Here, which is in the task's own context.
    context.enter()
    process = begin_call(handler, context, host, outcome, lambda function, *arguments: function(*arguments))
    try:
        if signals.job_started.receivers and signals.job_started.has_listeners(Job):
            await signals.job_started.asend_robust(Job, using=context.using, job=context.work, context=context)
        result = await call_async(handler, context, arguments)
    finally:
        end_call(context, host, outcome, process)
    accept(context, outcome, result)
