"""The long poll: look for jobs, wait for a notification, look again, until the timeout."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from jobexec.operations.external import activate_jobs, yield_jobs
from jobexec.operations.external.fetch import MAX_JOBS
from jobexec.operations.external.types import ActivatedJob, Fetch
from jobexec.runtime.connections import leave_connections

from ...runtime.database_threads import Overloaded
from .hub import Hub, always, of
from .places import Place

logger = logging.getLogger("jobexec.gateway")

Alive = Callable[[], bool]
Look = Callable[[Alive], list[ActivatedJob]]


class _AccessLost(Exception):
    """The caller lost its access while it waited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How to look for jobs.

    ``look`` gets a callable that tells whether the caller is still connected, and returns the jobs that it has
    activated; it may block on the database. ``allowed`` is called after each wait, in the same thread, and tells
    whether the caller still has access; if not, the search ends. If ``look`` returns ``most`` jobs, there may be more.
    ``kind``: see :class:`~jobexec.gateways.long_polling.places.Place`. ``client`` is the key of the client; it is used
    to keep a single client from taking all places.
    """

    types: Collection[str]
    look: Look
    most: int = 1
    kind: Hashable = None
    allowed: Alive = always
    client: str = ""

    def look_again(self, alive: Alive) -> list[ActivatedJob]:
        """Look after a wait, if the caller still has access."""
        if not self.allowed():
            raise _AccessLost
        return self.look(alive)


def search_of(using: str, fetch: Fetch, allowed: Alive = always, client: str = "") -> Search:
    """Build the search for a :class:`Fetch`. The fetch's own ``is_alive`` is called too."""

    def look(alive: Alive) -> list[ActivatedJob]:
        return activate_jobs(using, replace(fetch, is_alive=lambda: alive() and fetch.is_alive()))

    return Search(
        types=(fetch.type,),
        look=look,
        most=min(fetch.max_jobs, MAX_JOBS),
        kind=kind_of(fetch),
        allowed=allowed,
        client=client,
    )


def kind_of(fetch: Fetch) -> Hashable:
    """The conditions other than the type that decide whether a job is for this caller."""
    return (
        fetch.with_lease,
        _key(fetch.tenants),
        _key(fetch.caller.tenants),
        fetch.business_key,
        fetch.process_instance_id,
        _key(fetch.process_definition_ids),
        _key(fetch.process_definition_keys),
        None if fetch.process_variables is None else repr(sorted(fetch.process_variables.items())),
    )


def _key(names: Collection[str] | None) -> Hashable:
    return None if names is None else frozenset(names)


async def poll(
    using: str, fetch: Fetch, wait: timedelta, alive: Alive = always, allowed: Alive = always, client: str = ""
) -> list[ActivatedJob]:
    """Return jobs for this fetch as soon as there are any; an empty list once ``wait`` is over, and never later.

    With a wait of 0 or less it looks only once. Nothing is activated for a cancelled coroutine or once ``alive``
    returns False; jobs that are activated at that very moment are given back. Nothing is activated either for a caller
    that has lost its access: ``allowed`` is called after each wait, in a thread. Raises what ``activate_jobs`` raises,
    and Overloaded, or its subclass TooManyWaiters if too many requests wait already, of all clients or of ``client``.
    """
    return await search(using, search_of(using, fetch, allowed, client), wait, alive)


async def search(using: str, search: Search, wait: timedelta, alive: Alive = always) -> list[ActivatedJob]:
    """:func:`poll` for any search, possibly for several types at once."""
    hub, until = of(using), time.monotonic() + wait.total_seconds()
    held = hub.held(search.client) if wait > timedelta(0) else nullcontext()
    with held, hub.waiting(search.types, kind=search.kind, alive=alive) as place:
        look = search.look
        while True:
            try:
                jobs = await _look(hub, search, look, alive)
            except _AccessLost:
                place.pass_on()  # its notification is for others
                return []
            if jobs:
                _tell(hub, place, search, jobs)
                return jobs
            if not alive() or not await place.wait(until):
                return []
            look = search.look_again


def _tell(hub: Hub, place: Place, search: Search, jobs: list[ActivatedJob]) -> None:
    """Notify other waiting requests about this activation."""
    if len(jobs) >= search.most:
        place.pass_on()
    for job in jobs:
        hub.expect(job.type, job.deadline)


async def _look(hub: Hub, search: Search, look: Look, alive: Alive) -> list[ActivatedJob]:
    """Look once, in a thread of the hub."""
    here = True
    try:
        found = hub.database_threads.submit(lambda: look(lambda: here and alive()))
    except Overloaded:
        if hub.queue.closed:
            return []
        raise
    try:
        return await asyncio.shield(asyncio.wrap_future(found))
    except asyncio.CancelledError:
        here = False
        if not found.cancel():
            found.add_done_callback(partial(_after_all, hub, search))
        else:
            hub.queue.wake(search.types)  # no other request has got its notification
        raise


def _after_all(hub: Hub, search: Search, found: Future[list[ActivatedJob]]) -> None:
    """Finish the look of a disconnected caller. Others skipped the rows that it had locked, so they look again."""
    jobs = [] if found.exception() else found.result()
    give_back(hub.using, jobs)
    if not jobs:
        hub.queue.wake(search.types)


def give_back(using: str, jobs: list[ActivatedJob]) -> None:
    """Release jobs that could not be sent so that others can fetch them; does not wait for the result."""
    if jobs:
        of(using).database_threads.submit(partial(_yielded, using, jobs), urgent=True)


@contextmanager
def answering(using: str, jobs: list[ActivatedJob]) -> Iterator[None]:
    """A context in which the answer with these jobs is built; if that fails, they are given back."""
    try:
        yield
    except BaseException:
        give_back(using, jobs)
        raise


def _yielded(using: str, jobs: list[ActivatedJob]) -> None:
    try:
        yield_jobs(using, jobs)
    except Exception:  # no caller waits for the result
        logger.warning("Could not give back %d jobs; they stay locked until their deadline", len(jobs), exc_info=True)


def poll_in_thread(
    using: str, fetch: Fetch, wait: timedelta, alive: Alive = always, allowed: Alive = always, client: str = ""
) -> list[ActivatedJob]:
    """:func:`poll` for a thread, which it blocks until the end. While it waits it holds no database connection.

    Raises TooManyWaiters immediately if there are no jobs and too many threads wait already.
    """
    return search_in_thread(using, search_of(using, fetch, allowed, client), wait, alive)


def search_in_thread(using: str, search: Search, wait: timedelta, alive: Alive = always) -> list[ActivatedJob]:
    """:func:`search` for a thread."""
    until = time.monotonic() + wait.total_seconds()
    jobs = search.look(alive)
    if jobs or wait <= timedelta(0) or not alive():
        return jobs
    hub = of(using)
    with hub.waiting_in_thread(search.types, kind=search.kind, alive=alive, client=search.client) as place:
        look = search.look
        while True:
            try:
                jobs = look(alive)
            except _AccessLost:
                place.pass_on()
                return []
            if jobs:
                _tell(hub, place, search, jobs)
                return jobs
            leave_connections()
            if not alive() or not place.wait(until):
                return []
            look = search.look_again
