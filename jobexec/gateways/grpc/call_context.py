"""Shared by all calls: authentication, database threads, and giving back jobs that could not be delivered."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from django.db import Error as DatabaseError

from jobexec.exceptions import JobExecError
from jobexec.gateways import auth, long_polling, worker_registry
from jobexec.gateways.completions import Completions
from jobexec.operations import external
from jobexec.operations.audit import carried
from jobexec.operations.external.types import ActivatedJob, Fetch
from jobexec.operations.sql.errors import is_conflict, one_line
from jobexec.operations.sql.session import is_of_connection
from jobexec.runtime.connections import discard_broken_connections
from jobexec.runtime.database_threads import once

from .messages import ActivatedMessage, activated_message

logger = logging.getLogger("jobexec.gateway")

T = TypeVar("T")

#: The credentials of a call, as ``auth.of_metadata`` returns them.
Credentials = tuple[str | None, tuple[str, ...]]

PROTOCOL = "grpc"
_VERIFIERS = 2  # threads
#: The maximum number of unknown credentials that are being verified or wait for it.
STRANGERS = 200
_TRIES = 4
_PAUSE = 0.02  # seconds, multiplied by the number of the attempt


class CallContext:
    """The state shared by all calls of a gateway. ``stopping`` is set when the gateway shuts down."""

    def __init__(self, using: str, threads: int) -> None:
        self.using = using
        self.hub = long_polling.of(using)
        self.stopping = asyncio.Event()
        self._stopping = asyncio.get_running_loop().create_task(self.stopping.wait())
        # Separate pools: workers can report results even while many calls fetch jobs or wait for authentication.
        self._fetching = long_polling.DatabaseThreads("jobexec-grpc-fetch", threads)
        self._finishing = long_polling.DatabaseThreads("jobexec-grpc-finish", threads)
        #: Completes a job, together with others that arrive at the same time.
        self.complete = Completions(using, self._finishing, _again).complete
        self._verifying = long_polling.DatabaseThreads("jobexec-grpc-verify", _VERIFIERS)
        self._renewing = long_polling.DatabaseThreads("jobexec-grpc-renew", _VERIFIERS)
        self._strangers = long_polling.Shares(STRANGERS)
        self._asked: dict[Credentials, asyncio.Future[auth.Client]] = {}
        self._giving_back: set[asyncio.Future[int]] = set()

    # Authentication.

    async def client(self, context: Any) -> auth.Client:
        """The client of a call. Raises Unauthenticated, and Overloaded while too many unknown callers are verified."""
        credentials = auth.of_metadata(context.invocation_metadata(), context.auth_context())
        client = auth.known(*credentials)
        if client is not None:
            return client
        try:
            if auth.is_refused(*credentials):
                raise auth.Unauthenticated
            return await asyncio.shield(self._asked.get(credentials) or self._ask(credentials, context.peer()))
        except auth.Unauthenticated as error:
            auth.rejections.tell(context.peer(), error)
            raise

    def _ask(self, credentials: Credentials, peer: str) -> asyncio.Future[auth.Client]:
        """Verify credentials; calls with the same ones share a single verification.

        Clients that were accepted before do not queue behind unknown callers.
        """
        whence = auth.address_of(peer)
        work: Callable[[], auth.Client] = partial(auth.authenticate, *credentials, address=whence)
        if auth.was_known(*credentials):
            pending = self._renewing.submit(work)
        else:
            self._strangers.take(whence)
            pending = self._verifying.submit(work)  # never full: its queue is longer than the number of places
            pending.add_done_callback(lambda _: self._strangers.give_back(whence))
        future = self._asked[credentials] = asyncio.wrap_future(pending)
        future.add_done_callback(lambda _: self._asked.pop(credentials, None))
        future.add_done_callback(_look_at)
        return future

    async def lets_in(self, context: Any, before: auth.Client) -> bool:
        """Return whether the client of a call that has waited still has the same access; cached for some seconds."""
        try:
            client = await self.client(context)
        except (auth.Unauthenticated, auth.NotAllowed, auth.TooManyRequests, long_polling.Overloaded):
            return False
        except Exception as error:
            if not is_of_connection(error):
                raise
            return True  # while the database is down the client gets no jobs anyway
        return client.caller == before.caller and client.may("work")

    # The database.

    async def finish(self, verb: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a verb of :mod:`jobexec.operations.external` on the gateway's database; retry it after a conflict.

        It is carried out even if the client disconnects meanwhile: its report about the job is still true.
        """
        work = partial(verb, self.using, *args, **kwargs)
        return await self._within(self._finishing, partial(_again, carried(work)))

    async def once(self, verb: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """The same for a verb that must not happen twice; see :func:`~jobexec.runtime.database_threads.once`."""
        return await self.finish(partial(once, verb), *args, **kwargs)

    async def fetch(self, fetch: Fetch, client: auth.Client) -> list[ActivatedMessage]:
        """Activate jobs. If the waiting task is cancelled, the jobs that were activated are given back."""
        future = asyncio.wrap_future(self._fetching.submit(partial(_fetch, self.using, fetch)))
        try:
            activated = await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(partial(self._after_all, fetch))
            raise
        if activated:
            self.hub.expect(fetch.type, min(each.job.deadline for each in activated))
            worker_registry.activated(fetch.type, fetch.worker, len(activated), protocol=PROTOCOL, client=client.name)
        return activated

    async def _within(self, hands: long_polling.DatabaseThreads, work: Callable[[], T]) -> T:
        pending: Future[T] = hands.submit(work)
        future = asyncio.wrap_future(pending)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(_look_at)
            raise

    # Giving back.

    def give_back(self, activated: Sequence[ActivatedMessage]) -> None:
        """Release jobs that were not delivered to their client; does not wait for the result."""
        jobs = [each.job for each in activated]
        if not jobs:
            return
        try:
            future = asyncio.wrap_future(self._finishing.submit(partial(_give_back, self.using, jobs), urgent=True))
        except JobExecError as error:
            text = "Could not give back %d jobs; they stay locked until their deadline: %s"
            logger.warning(text, len(jobs), one_line(error))
            return
        self._giving_back.add(future)
        future.add_done_callback(self._giving_back.discard)

    def _after_all(self, fetch: Fetch, future: asyncio.Future[list[ActivatedMessage]]) -> None:
        """Finish the fetch of a disconnected client. Others skipped the rows that it had locked, so they look again."""
        if not future.cancelled() and not future.exception():
            self.give_back(future.result())
        self.hub.queue.wake([fetch.type])

    async def all_given_back(self) -> None:
        """Wait until all jobs that are being given back are released."""
        while self._giving_back:
            await asyncio.wait(self._giving_back)

    # Waiting.

    async def unless_stopping(self, waiting: Coroutine[Any, Any, T]) -> T | None:
        """Await the coroutine, but stop waiting when the gateway shuts down; None if it does."""
        task = asyncio.get_running_loop().create_task(waiting)
        try:
            await asyncio.wait((task, self._stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
            elif not task.cancelled():
                task.exception()  # if this coroutine is cancelled, too, nobody asks for it
        return task.result() if task.done() and not task.cancelled() else None


async def write(context: Any, message: Any) -> None:
    """Write a message; waits while the client cannot accept more. Raises CancelledError if it has disconnected."""
    try:
        await context.write(message)
    except Exception as error:  # grpc has no public class for this error
        raise asyncio.CancelledError(f"The client has disconnected: {error}") from error


def _fetch(using: str, fetch: Fetch) -> list[ActivatedMessage]:
    # Build the messages here as well: for many large jobs this would block the event loop for too long.
    jobs = external.activate_jobs(using, fetch)
    try:
        return [activated_message(job) for job in jobs]
    except Exception:
        _give_back(using, jobs)
        raise


def _give_back(using: str, jobs: Sequence[ActivatedJob]) -> int:
    try:
        return _again(partial(external.yield_jobs, using, jobs))
    except Exception:
        logger.warning("Could not give back %d jobs; they stay locked until their deadline", len(jobs), exc_info=True)
        return 0


def _again(call: Callable[[], T]) -> T:
    """Call it; retry a few times after conflicts with other transactions, and once after a lost connection."""
    for number in range(1, _TRIES):
        try:
            return call()
        except DatabaseError as error:
            if not is_conflict(error) and (number > 1 or not is_of_connection(error)):
                raise
            discard_broken_connections()
            time.sleep(_PAUSE * number * (1 + random.random()))
    return call()


def _look_at(future: asyncio.Future[Any]) -> None:
    """Retrieve the error of a future that no task awaits any longer, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()
