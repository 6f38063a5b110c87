"""A gate at which async handlers wait until a test opens it."""

import asyncio
from contextlib import suppress
from typing import Any


class Gate:
    """`await gate.passed()` waits until `open()`; `now` counts the current waiters, `most` is their maximum."""

    def __init__(self) -> None:
        self.now = self.most = self.done = 0
        self._event: asyncio.Event | None = None
        self._loop: Any = None

    async def passed(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        if self._event is None:
            self._event, self._loop = asyncio.Event(), asyncio.get_running_loop()
        try:
            await self._event.wait()
            self.done += 1
        finally:
            self.now -= 1

    def open(self) -> None:
        """Open the gate; called from another thread."""
        if self._event is not None:
            with suppress(RuntimeError):  # its loop has been closed
                self._loop.call_soon_threadsafe(self._event.set)

    def renew(self) -> None:
        """Close the gate again, for another event loop."""
        self._event = None
