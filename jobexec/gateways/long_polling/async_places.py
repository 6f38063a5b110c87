"""The place of a coroutine in the queue, which needs no thread."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from .places import Place, left


class AsyncPlace(Place):
    """A coroutine's place. Create it and wait in the same event loop; any thread may ring."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def __exit__(self, *error: object) -> None:
        self._queue.leave(self, cut_off=any(isinstance(each, asyncio.CancelledError) for each in error))

    def ring(self) -> None:
        self._loop.call_soon_threadsafe(self._event.set)  # RuntimeError if the loop has ended

    async def wait(self, until: float) -> bool:
        """Wait for a notification until ``until`` (``time.monotonic()``); return whether one arrived.

        Returns False immediately once the queue is closed. A cancelled coroutine leaves the queue at the end of its
        ``with`` block and passes on its unread notifications, and those that it has read last.
        """
        while True:
            self._event.clear()  # before heard(): the notifying thread records the notification before it rings
            if self.heard():
                return True
            if self.over or not (seconds := left(until)):
                return False
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._event.wait()
