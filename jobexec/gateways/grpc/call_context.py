"""What every call needs: who asks, threads that ask the database, and giving back what could not be brought."""

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
from jobexec.operations import external
from jobexec.operations.audit import carried
from jobexec.operations.external.types import ActivatedJob, Fetch
from jobexec.operations.sql.errors import is_conflict, is_database_error
from jobexec.runtime.connections import discard_broken_connections

from .messages import Parcel, parcel

logger = logging.getLogger("jobexec.gateway")

T = TypeVar("T")

#: Of a call, as ``access.of_metadata`` gives them.
Credentials = tuple[str | None, tuple[str, ...]]

PROTOCOL = "grpc"
_VERIFIERS = 2  # threads
#: Credentials of strangers that are looked at, or wait for it, at a time.
STRANGERS = 200
_TRIES = 4
_PAUSE = 0.02  # seconds, times the number of the try


class CallContext:
    """Shared by all calls of a gateway. ``stopping`` is set when it ends."""

    def __init__(self, using: str, threads: int) -> None:
        self.using = using
        self.hub = long_polling.of(using)
        self.stopping = asyncio.Event()
        self._stopping = asyncio.get_running_loop().create_task(self.stopping.wait())
        # Apart, so that what is done can be handed in also while many ask for jobs, or nobody knows who is asking.
        self._fetching = long_polling.DatabaseThreads("jobexec-grpc-fetch", threads)
        self._finishing = long_polling.DatabaseThreads("jobexec-grpc-finish", threads)
        self._verifying = long_polling.DatabaseThreads("jobexec-grpc-verify", _VERIFIERS)
        self._renewing = long_polling.DatabaseThreads("jobexec-grpc-renew", _VERIFIERS)
        self._strangers = long_polling.Shares(STRANGERS)
        self._asked: dict[Credentials, asyncio.Future[auth.Client]] = {}
        self._giving_back: set[asyncio.Future[int]] = set()

    # Who asks.

    async def client(self, context: Any) -> auth.Client:
        """The client of a call. Raises Unauthenticated, and Overloaded while too many strangers are asked."""
        credentials = auth.of_metadata(context.invocation_metadata(), context.auth_context())
        client = auth.known(*credentials)
        if client is not None:
            return client
        try:
            if auth.is_refused(*credentials):
                raise auth.Unauthenticated
            return await asyncio.shield(self._asked.get(credentials) or self._ask(credentials, context.peer()))
        except auth.Unauthenticated as error:
            auth.turned_away.tell(context.peer(), error)
            raise

    def _ask(self, credentials: Credentials, peer: str) -> asyncio.Future[auth.Client]:
        """Ask who that is; calls with the same credentials wait for one answer. Who was let in before does not stand
        behind strangers."""
        whence = auth.address_of(peer)
        work: Callable[[], auth.Client] = partial(auth.authenticate, *credentials, address=whence)
        if auth.was_known(*credentials):
            pending = self._renewing.submit(work)
        else:
            self._strangers.take(whence)
            pending = self._verifying.submit(work)  # its line is longer than there are places
            pending.add_done_callback(lambda _: self._strangers.give_back(whence))
        future = self._asked[credentials] = asyncio.wrap_future(pending)
        future.add_done_callback(lambda _: self._asked.pop(credentials, None))
        future.add_done_callback(_look_at)
        return future

    async def lets_in(self, context: Any, before: auth.Client) -> bool:
        """Whether the client of a call that has waited would be let in as the same now; remembered for some seconds."""
        try:
            client = await self.client(context)
        except (auth.Unauthenticated, auth.NotAllowed, auth.TooManyRequests, long_polling.Overloaded):
            return False
        except Exception as error:
            if not is_database_error(error):
                raise
            return True  # without its database it gets nothing, either
        return client.caller == before.caller and client.may("work")

    # The database.

    async def finish(self, verb: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a verb of :mod:`jobexec.operations.external` on our database; again if others were in its way.

        It is done also if the client goes away meanwhile: what it says about a job is true all the same.
        """
        work = partial(verb, self.using, *args, **kwargs)
        return await self._within(self._finishing, partial(_again, carried(work)))

    async def fetch(self, fetch: Fetch, client: auth.Client) -> list[Parcel]:
        """Activate jobs. If the task that waits is cancelled they are given back, as far as there are any."""
        future = asyncio.wrap_future(self._fetching.submit(partial(_fetch, self.using, fetch)))
        try:
            parcels = await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(partial(self._after_all, fetch))
            raise
        if parcels:
            self.hub.expect(fetch.type, min(each.job.deadline for each in parcels))
            worker_registry.activated(fetch.type, fetch.worker, len(parcels), protocol=PROTOCOL, client=client.name)
        return parcels

    async def _within(self, hands: long_polling.DatabaseThreads, work: Callable[[], T]) -> T:
        pending: Future[T] = hands.submit(work)
        future = asyncio.wrap_future(pending)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(_look_at)
            raise

    # Giving back.

    def give_back(self, parcels: Sequence[Parcel]) -> None:
        """Let others have these jobs, whose client has not got them; does not wait for it."""
        jobs = [each.job for each in parcels]
        if not jobs:
            return
        try:
            future = asyncio.wrap_future(self._finishing.submit(partial(_give_back, self.using, jobs), urgent=True))
        except JobExecError as error:
            logger.warning("%d jobs wait for their deadline, since they could not be given back: %s", len(jobs), error)
            return
        self._giving_back.add(future)
        future.add_done_callback(self._giving_back.discard)

    def _after_all(self, fetch: Fetch, future: asyncio.Future[list[Parcel]]) -> None:
        """The fetch of a client that has gone is over. Others passed over what it had locked: they look again."""
        if not future.cancelled() and not future.exception():
            self.give_back(future.result())
        self.hub.queue.wake([fetch.type])

    async def all_given_back(self) -> None:
        """Wait for what is being given back."""
        while self._giving_back:
            await asyncio.wait(self._giving_back)

    # Waiting.

    async def unless_stopping(self, waiting: Coroutine[Any, Any, object]) -> None:
        """Wait for this, but not longer than until the gateway ends."""
        task = asyncio.get_running_loop().create_task(waiting)
        try:
            await asyncio.wait((task, self._stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
            elif not task.cancelled():
                task.result()


async def write(context: Any, message: Any) -> None:
    """Write one message; waits as long as the client takes no more. Raises CancelledError if it has gone."""
    try:
        await context.write(message)
    except Exception as error:  # grpc has no name for it that is public
        raise asyncio.CancelledError(f"The client has gone: {error}") from error


def _fetch(using: str, fetch: Fetch) -> list[Parcel]:
    # The messages are made here too: of many large jobs this takes time, which the event loop has not.
    jobs = external.activate_jobs(using, fetch)
    try:
        return [parcel(job) for job in jobs]
    except Exception:
        _give_back(using, jobs)
        raise


def _give_back(using: str, jobs: Sequence[ActivatedJob]) -> int:
    try:
        return _again(partial(external.yield_jobs, using, jobs))
    except Exception:
        logger.warning("%d jobs wait for their deadline, since they could not be given back", len(jobs), exc_info=True)
        return 0


def _again(call: Callable[[], T]) -> T:
    """Call it; a few times if the database refuses because of others, twice if the connection turns out to be gone."""
    for number in range(1, _TRIES):
        try:
            return call()
        except DatabaseError as error:
            if not is_conflict(error) and (number > 1 or not is_database_error(error)):
                raise
            discard_broken_connections()
            time.sleep(_PAUSE * number * (1 + random.random()))
    return call()


def _look_at(future: asyncio.Future[Any]) -> None:
    """An error that nobody waits for any more is none."""
    if not future.cancelled():
        future.exception()
