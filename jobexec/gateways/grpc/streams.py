"""An open stream: writes jobs to its client, and gives back those that the client cannot accept."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from jobexec.gateways import auth, worker_registry

from .call_context import CallContext, write
from .messages import ActivatedMessage

#: The maximum number of jobs that are activated for a stream but not yet written.
ROOM = 32
#: Seconds after which a client that accepts no message counts as slow: the jobs that wait for it are given back.
SLOW = 1.0
#: Seconds between two checks that the client still has access.
LOOK = 60.0
_AGE = (
    4 * 3600.0
)  # seconds until the stream ends and the client opens a new one; one silent without an error would last for ever
_BEFORE_THE_END = 2.0  # seconds before the client's own deadline, which would be an error to the client


class Stream:
    """A client's stream. All of its methods run in the event loop.

    ``changed`` is called when the stream can accept more jobs, and when it has ended.
    """

    def __init__(
        self, call_context: CallContext, context: Any, client: auth.Client, changed: Callable[[], None]
    ) -> None:
        self.client = client
        self.here = True
        self._call_context, self._context, self._changed = call_context, context, changed
        self._waiting: deque[ActivatedMessage] = deque()
        self._bell = asyncio.Event()
        self._blocked = False
        self._end = time.monotonic() + _lifetime(context)

    @property
    def room(self) -> int:
        """The number of jobs that the stream can accept."""
        return 0 if self._blocked or not self.here else ROOM - len(self._waiting)

    def put(self, activated: Sequence[ActivatedMessage]) -> None:
        """Queue jobs to be written."""
        self._waiting.extend(activated)
        self._bell.set()

    async def verify(self) -> None:
        """End the stream if its client no longer has the same access."""
        if self.here and not await self._call_context.lets_in(self._context, self.client):
            self.here = False
            self._bell.set()

    async def run(self) -> None:
        """Write jobs until the stream's time is over, the gateway shuts down or the client disconnects.

        If the credentials are no longer valid, the stream ends with OK: perhaps only the access token has expired, and
        the client has a new one for its next stream, whereas some clients stop permanently after an error.
        """
        look = time.monotonic() + LOOK
        try:
            while self.here and not self._call_context.stopping.is_set() and time.monotonic() < self._end:
                if self._waiting:
                    await self._write()
                else:
                    await self._call_context.unless_stopping(self._rest(min(look, self._end)))
                if time.monotonic() >= look:
                    look = time.monotonic() + LOOK
                    await self.verify()
        finally:
            self.here = False
            self._give_back("CLOSED")
            self._changed()

    async def _rest(self, until: float) -> None:
        try:
            async with asyncio.timeout(until - time.monotonic()):
                await self._bell.wait()
        except TimeoutError:
            return
        self._bell.clear()

    async def _write(self) -> None:
        one = self._waiting.popleft()
        slow = asyncio.get_running_loop().call_later(SLOW, self._block)
        try:
            await write(self._context, one.message)
        except BaseException:
            self._waiting.appendleft(one)
            raise
        finally:
            slow.cancel()
        worker_registry.pushed()
        self._blocked = False
        self._changed()

    def _block(self) -> None:
        self._blocked = True
        self._give_back("BLOCKED")

    def _give_back(self, why: str) -> None:
        left = list(self._waiting)
        self._waiting.clear()
        self._call_context.give_back(left)
        for _ in left:
            worker_registry.push_failed(why)


def _lifetime(context: Any) -> float:
    age = _AGE * random.uniform(0.75, 1.0)  # streams that were opened together do not all end together
    remaining = context.time_remaining()
    return age if remaining is None else min(age, max(0.0, remaining - _BEFORE_THE_END))
