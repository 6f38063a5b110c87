"""One open stream: what is to be written to its client, and what its client cannot take."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from jobexec.gateways import auth, worker_registry

from .call_context import CallContext, write
from .messages import Parcel

#: Jobs that may be activated for a stream and not yet written.
ROOM = 32
#: Seconds after which a client that takes nothing is taken for slow: what waits for it is given to others.
SLOW = 1.0
#: Seconds between two looks at whether the client may still be here.
LOOK = 60.0
_AGE = (
    4 * 3600.0
)  # seconds, after which it is closed and opened anew; fallen silent without an error it would be for ever
_BEFORE_THE_END = 2.0  # seconds before the client's own deadline, which it would take for an error


class Stream:
    """A client's call. All of it happens in the event loop.

    ``changed`` is called when it can take more, and when it cannot take anything any more.
    """

    def __init__(
        self, call_context: CallContext, context: Any, client: auth.Client, changed: Callable[[], None]
    ) -> None:
        self.client = client
        self.here = True
        self._call_context, self._context, self._changed = call_context, context, changed
        self._waiting: deque[Parcel] = deque()
        self._bell = asyncio.Event()
        self._blocked = False
        self._end = time.monotonic() + _lifetime(context)

    @property
    def room(self) -> int:
        """How many jobs it can take."""
        return 0 if self._blocked or not self.here else ROOM - len(self._waiting)

    def put(self, parcels: Sequence[Parcel]) -> None:
        """Have these written next."""
        self._waiting.extend(parcels)
        self._bell.set()

    async def verify(self) -> None:
        """End it if its client would not get the same stream again."""
        if self.here and not await self._call_context.lets_in(self._context, self.client):
            self.here = False
            self._bell.set()

    async def run(self) -> None:
        """Write what comes, until the time is over, the gateway ends or the client goes.

        When its credentials are not good any more it ends well: its access token may be over, and the client has
        another for the next stream, while some clients take an error for their end.
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
        parcel = self._waiting.popleft()
        slow = asyncio.get_running_loop().call_later(SLOW, self._block)
        try:
            await write(self._context, parcel.message)
        except BaseException:
            self._waiting.appendleft(parcel)
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
    age = _AGE * random.uniform(0.75, 1.0)  # not all that came together leave together
    remaining = context.time_remaining()
    return age if remaining is None else min(age, max(0.0, remaining - _BEFORE_THE_END))
