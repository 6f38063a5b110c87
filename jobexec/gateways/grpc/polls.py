"""ActivateJobs: a long poll."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jobexec.conf import get_settings
from jobexec.gateways import auth, long_polling, worker_registry
from jobexec.operations.external.types import Fetch
from jobexec.operations.sql.session import is_of_connection

from . import gateway_pb2 as pb
from .call_context import PROTOCOL, CallContext, write
from .messages import ActivatedMessage, split
from .requests import fetch_of_poll

_LONGEST = 600.0  # seconds; a client that wants to wait longer polls again, and is authenticated again
_BEFORE_THE_END = 0.25  # seconds before the client's own timeout
_PAUSE = 1.0  # seconds between two attempts while the database is down


class Polls:
    """Answers as soon as there is a job, or with no jobs and OK before the client's timeout."""

    def __init__(self, call_context: CallContext) -> None:
        self.call_context = call_context

    async def activate(self, request: pb.ActivateJobsRequest, context: Any, client: auth.Client) -> None:
        """Serve a call from beginning to end."""
        poll = Poll(fetch_of_poll(request, client.caller), client, _seconds(request, context))
        try:
            activated = await self._activated(poll, context)
        finally:
            poll.here = False
        left = list(activated)
        try:
            for part in split(activated):
                await write(context, pb.ActivateJobsResponse(jobs=[each.message for each in part]))
                del left[: len(part)]
        finally:
            self.call_context.give_back(left)

    async def _activated(self, poll: Poll, context: Any) -> Sequence[ActivatedMessage]:
        names = PROTOCOL, poll.client.name, poll.fetch.worker, poll.fetch.type, sorted(poll.fetch.tenants or ())
        worker_registry.polled(*names)
        if poll.seconds <= 0:
            return await self.call_context.fetch(poll.fetch, poll.client)
        place = self.call_context.hub.waiting(
            [poll.fetch.type], kind=long_polling.kind_of(poll.fetch), alive=lambda: poll.here
        )
        with worker_registry.waiting(*names), place:
            while True:
                activated = await self._look(poll)
                if activated and len(activated) == poll.fetch.max_jobs:
                    place.pass_on()
                if activated or poll.over or self.call_context.stopping.is_set():
                    return activated
                if not await self.call_context.unless_stopping(place.wait(poll.until)):
                    return []
                if not await self.call_context.lets_in(context, poll.client):
                    place.pass_on()  # its notification is for others
                    return []

    async def _look(self, poll: Poll) -> Sequence[ActivatedMessage]:
        """Fetch once; while the database is down, repeat for as long as the time allows."""
        while True:
            try:
                return await self.call_context.fetch(poll.fetch, poll.client)
            except Exception as error:
                if not is_of_connection(error) or poll.left <= _PAUSE or self.call_context.stopping.is_set():
                    raise
            await self.call_context.unless_stopping(asyncio.sleep(_PAUSE))


class Poll:
    """A call that waits. ``here`` is true until the client is known to have disconnected."""

    def __init__(self, fetch: Fetch, client: auth.Client, seconds: float) -> None:
        self.client, self.seconds = client, seconds
        self.here = True
        self.until = time.monotonic() + seconds
        self.fetch = replace(fetch, is_alive=lambda: self.here)

    @property
    def left(self) -> float:
        """The seconds left."""
        return self.until - time.monotonic()

    @property
    def over(self) -> bool:
        return self.left <= 0


def _seconds(request: pb.ActivateJobsRequest, context: Any) -> float:
    """The seconds that the call may wait: as requested, but less than the client's timeout, an error to the client."""
    if request.requestTimeout < 0:
        return 0.0
    asked = request.requestTimeout / 1000 or get_settings().gateway_long_poll_time.total_seconds()
    remaining = context.time_remaining()
    if remaining is not None:
        asked = min(asked, remaining - _BEFORE_THE_END)
    return min(asked, _LONGEST)
