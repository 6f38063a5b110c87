"""The long poll: look for jobs, wait for word of some, look again, until the time is over."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Hashable
from concurrent.futures import Future
from contextlib import nullcontext
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


class _LetInNoMore(Exception):
    """Who waited may have nothing any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How jobs are looked for.

    ``look`` is called with what is to be asked whether the caller is still there, and returns what it has activated; it
    may wait for the database. ``allowed`` is asked after each wait, in the same thread: whether the caller still may
    have them; if not, the search has ended. ``most``: when it returns as many, there may be more. ``kind``: see
    :class:`~jobexec.gateways.long_polling.places.Place`. ``client``: whose it is, by the key of the client; no one
    client takes all places of those who wait.
    """

    types: Collection[str]
    look: Look
    most: int = 1
    kind: Hashable = None
    allowed: Alive = always
    client: str = ""

    def look_again(self, alive: Alive) -> list[ActivatedJob]:
        """Look after a wait, if the caller is still let in."""
        if not self.allowed():
            raise _LetInNoMore
        return self.look(alive)


def search_of(using: str, fetch: Fetch, allowed: Alive = always, client: str = "") -> Search:
    """The search for what one :class:`Fetch` asks for; its own ``is_alive`` is asked, too."""

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
    """What decides, beside the type, whether a job is for this caller."""
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
    """Jobs for this fetch as soon as there are any; none when ``wait`` is over, and never later.

    With a wait of 0 or less one look is all. For a coroutine that is cancelled, or whose ``alive`` says no, nothing is
    activated; what was activated in that very moment is given back. Nor is anything for a caller who, by ``allowed``,
    may have nothing any more: asked after each wait, in a thread. Raises what ``activate_jobs`` raises, and
    Overloaded; TooManyWaiters, which is one, if too many wait already, all or those of ``client``.
    """
    return await search(using, search_of(using, fetch, allowed, client), wait, alive)


async def search(using: str, search: Search, wait: timedelta, alive: Alive = always) -> list[ActivatedJob]:
    """:func:`poll` for whatever looks for jobs, also of several types at once."""
    hub, until = of(using), time.monotonic() + wait.total_seconds()
    held = hub.held(search.client) if wait > timedelta(0) else nullcontext()
    with held, hub.waiting(search.types, kind=search.kind, alive=alive) as place:
        look = search.look
        while True:
            try:
                jobs = await _look(hub, search, look, alive)
            except _LetInNoMore:
                place.pass_on()  # what he has heard is for others
                return []
            if jobs:
                _tell(hub, place, search, jobs)
                return jobs
            if not alive() or not await place.wait(until):
                return []
            look = search.look_again


def _tell(hub: Hub, place: Place, search: Search, jobs: list[ActivatedJob]) -> None:
    """What others who wait should know of this activation."""
    if len(jobs) >= search.most:
        place.pass_on()
    for job in jobs:
        hub.expect(job.type, job.deadline)


async def _look(hub: Hub, search: Search, look: Look, alive: Alive) -> list[ActivatedJob]:
    """One look, in a thread of the hub."""
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
            hub.queue.wake(search.types)  # of what he has heard nobody else knows
        raise


def _after_all(hub: Hub, search: Search, found: Future[list[ActivatedJob]]) -> None:
    """The look of one who has gone is over. Others passed over what he had locked: they look again."""
    jobs = [] if found.exception() else found.result()
    give_back(hub.using, jobs)
    if not jobs:
        hub.queue.wake(search.types)


def give_back(using: str, jobs: list[ActivatedJob]) -> None:
    """Let others have these jobs, which could not be sent; does not wait for it."""
    if jobs:
        of(using).database_threads.submit(partial(_yielded, using, jobs), urgent=True)


def _yielded(using: str, jobs: list[ActivatedJob]) -> None:
    try:
        yield_jobs(using, jobs)
    except Exception:  # nobody waits for the answer
        logger.warning("%d jobs wait for their deadline, since they could not be given back", len(jobs), exc_info=True)


def poll_in_thread(
    using: str, fetch: Fetch, wait: timedelta, alive: Alive = always, allowed: Alive = always, client: str = ""
) -> list[ActivatedJob]:
    """:func:`poll` for a thread, which is kept until the end. While it waits it has no connection to the database.

    Raises TooManyWaiters at once if there are no jobs and too many threads wait already.
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
            except _LetInNoMore:
                place.pass_on()
                return []
            if jobs:
                _tell(hub, place, search, jobs)
                return jobs
            leave_connections()
            if not alive() or not place.wait(until):
                return []
            look = search.look_again
