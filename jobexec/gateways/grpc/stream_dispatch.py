"""StreamActivatedJobs: fetch jobs in the order of the table, and distribute them among equal streams.

Unlike in Zeebe, single jobs are not pushed to a stream: a notification only makes its feed fetch. So no job overtakes
an older one, a backlog is delivered through the stream too, and a job is activated only if a client has room for it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from dataclasses import replace
from typing import Any

from jobexec.gateways import auth, long_polling, worker_registry
from jobexec.operations.external.types import Fetch
from jobexec.operations.sql.errors import one_line

from . import gateway_pb2 as pb
from .call_context import PROTOCOL, CallContext
from .messages import ActivatedMessage
from .requests import fetch_of_stream
from .streams import Stream

logger = logging.getLogger("jobexec.gateway")

_PAGE = 100  # jobs in one fetch
_PAUSE = 1.0  # seconds after a fetch that failed
_PROBE = 30.0  # seconds after which it looks without a notification


class Feeds:
    """All feeds of a gateway. A feed exists as long as it has a stream."""

    def __init__(self, call_context: CallContext) -> None:
        self.call_context = call_context
        self._feeds: dict[Fetch, Feed] = {}

    async def stream(self, request: pb.StreamActivatedJobsRequest, context: Any, client: auth.Client) -> None:
        """Serve a call from beginning to end."""
        fetch = fetch_of_stream(request, client.caller)
        names = PROTOCOL, client.name, fetch.worker, fetch.type, sorted(fetch.tenants or ())
        with worker_registry.streaming(*names, timeout=fetch.timeout, variables=sorted(fetch.variables or ())):
            await self._stream(fetch, client, context)

    async def _stream(self, fetch: Fetch, client: auth.Client, context: Any) -> None:
        feed = self._feeds.get(fetch)
        if feed is None:
            feed = self._feeds[fetch] = Feed(fetch, client, self.call_context)
        stream = Stream(self.call_context, context, client, feed.look)
        feed.join(stream)
        try:
            await stream.run()
        finally:
            if feed.leave(stream):
                del self._feeds[fetch]


class Feed:
    """Streams with the same type, worker, timeout, variables, tenants and client: any of them may get a job."""

    def __init__(self, fetch: Fetch, client: auth.Client, call_context: CallContext) -> None:
        self.streams: list[Stream] = []
        self._client, self._call_context = client, call_context
        self._fetch = replace(fetch, is_alive=self._alive)
        self._room = asyncio.Event()
        #: Whether a notification has come since the last look.
        self._owes = False
        self._task: asyncio.Task[None] | None = None

    def join(self, stream: Stream) -> None:
        """Add a stream."""
        self.streams.append(stream)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"feed of {self._fetch.type}")
        self.look()

    def leave(self, stream: Stream) -> bool:
        """Remove a stream; return whether it was the last, so that the feed has ended."""
        self.streams.remove(stream)
        if self.streams:
            return False
        if self._task is not None:
            self._task.cancel()
        return True

    def look(self) -> None:
        """Wake the feed because a stream may have room."""
        self._room.set()

    def _alive(self) -> bool:
        """Return whether a client for the activated jobs is still connected. Called by another thread."""
        return any(stream.here for stream in tuple(self.streams))

    def _has_room(self) -> bool:
        """Return whether it makes sense to wake this feed. Called by any thread."""
        return any(stream.room > 0 for stream in tuple(self.streams))

    async def _run(self) -> None:
        try:
            while True:
                await self._until_room()
                try:
                    await self._round()
                except Exception:  # without its feed a stream would stay silent for ever, without any error
                    logger.exception("The feed of type %s failed and starts again", one_line(self._fetch.type))
                    await asyncio.sleep(_PAUSE)
        finally:
            if self._owes:
                self._call_context.hub.queue.wake([self._fetch.type], kind=long_polling.kind_of(self._fetch))

    async def _round(self) -> None:
        # Take a new place at the end of the queue each time, so that other feeds and polls get their turn.
        with self._call_context.hub.waiting(
            [self._fetch.type], kind=long_polling.kind_of(self._fetch), alive=self._has_room
        ) as place:
            for stream in tuple(self.streams):
                await stream.verify()
            room = min(sum(stream.room for stream in self.streams), _PAGE)
            if not room:  # no stream has access any longer: the notification is for others
                self._owes = False
                place.pass_on()
                return
            activated = await self._look(room)
            self._owes = self._owes and activated is None
            if activated is not None and len(activated) == room:
                place.pass_on()
            elif activated is not None:
                self._owes = await place.wait(time.monotonic() + _PROBE)

    async def _until_room(self) -> None:
        while not self._has_room():
            self._room.clear()
            await self._room.wait()

    async def _look(self, room: int) -> list[ActivatedMessage] | None:
        """Fetch jobs and distribute them; None if the fetch failed."""
        try:
            activated = await self._call_context.fetch(replace(self._fetch, max_jobs=room), self._client)
        except Exception as error:
            logger.warning(
                "Could not fetch jobs of type %s for streams: %s", one_line(self._fetch.type), one_line(error)
            )
            await asyncio.sleep(_PAUSE)
            return None
        self._deal(activated)
        return activated

    def _deal(self, activated: list[ActivatedMessage]) -> None:
        """Distribute jobs evenly, starting with a random stream. Jobs without room are given back."""
        turns = deque((stream, stream.room, list[ActivatedMessage]()) for stream in self.streams if stream.room > 0)
        random.shuffle(turns)
        full = []
        waiting = deque(activated)
        while waiting and turns:
            stream, room, hand = turns[0]
            hand.append(waiting.popleft())
            turns.rotate(-1)
            if len(hand) == room:
                full.append(turns.pop())
        for stream, _, hand in (*turns, *full):
            stream.put(hand)
        self._call_context.give_back(list(waiting))
