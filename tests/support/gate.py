"""Gates at which handlers wait until a test opens them."""

import asyncio
import threading
from contextlib import suppress
from typing import Any

from tests.support.waiting import TIMEOUT


class Gate:
    """For async handlers: `await gate.passed()` waits until `open()`.

    `now` counts the current waiters, `most` is their maximum.
    """

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


class Counted:
    """For handlers in threads: `run()` waits for `gate`. Counts as `Gate` does."""

    def __init__(self) -> None:
        self.now = self.most = self.done = 0
        self.gate, self._lock = threading.Event(), threading.Lock()
        self.fails = False
        #: If it is a number: only so many calls fail, the first ones.
        self.failing = float("inf")

    def run(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            assert self.gate.wait(TIMEOUT)
            if self.fails and self.done < self.failing:
                raise ConnectionError("no answer from pay.example")
        finally:
            with self._lock:
                self.now -= 1
                self.done += 1
