"""The place of a coroutine in the queue: it costs no thread."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from .places import Place, left


class AsyncPlace(Place):
    """Made and waited on in one event loop; rung by any thread."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def ring(self) -> None:
        self._loop.call_soon_threadsafe(self._event.set)  # RuntimeError if the loop has ended

    async def wait(self, until: float) -> bool:
        """Wait for word, until a moment of ``time.monotonic()``; whether it came. False at once when all is over.

        Who is cancelled leaves the queue as the ``with`` ends, and passes on what he has not heard.
        """
        while True:
            self._event.clear()  # in this order: who rings has put the word down before
            if self.heard():
                return True
            if self.over or not (seconds := left(until)):
                return False
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._event.wait()
