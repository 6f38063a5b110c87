"""Detects handlers that block the event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable

from jobexec import clock

from ...runtime.threads import Loop, logger

_INTERVAL = 0.25
_LONGEST = 60.0
#: Seconds without an answer after which the loop counts as blocked, and between two warnings about the same handler.
_HELD_UP, _SELDOM = 0.5, 60.0


class LoopWatchdog(Loop):
    """Pings the loop while it has work, and logs the handler that keeps it from answering."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: threading.Thread, busy: Callable[[], bool]) -> None:
        super().__init__("jobexec-async-watch")
        self._loop, self._loop_thread, self._busy = loop, thread, busy
        self._asked: float | None = None
        self._rests = False
        self._warned: dict[str, float] = {}

    def wake(self) -> None:
        """There is work, perhaps after a pause."""
        if self._rests:
            super().wake()

    def run_once(self) -> float:
        if self._asked is not None:
            if clock.monotonic() - self._asked >= _HELD_UP:
                self._warn()
        elif not self._has_work():
            return _LONGEST
        else:
            self._asked = clock.monotonic()
            self._loop.call_soon_threadsafe(self._answer)
        return _INTERVAL

    def _has_work(self) -> bool:
        self._rests = True  # first: work that arrives after this line wakes it
        self._rests = not self._busy()
        return not self._rests

    def _answer(self) -> None:
        self._asked = None

    def _warn(self) -> None:
        task, frame = asyncio.current_task(self._loop), sys._current_frames().get(self._loop_thread.ident or 0)
        handler, now = task.get_name() if task is not None else "Something", clock.monotonic()
        if self._asked is None or now - self._warned.get(handler, -_SELDOM) < _SELDOM:
            return
        self._warned[handler] = now
        stack = "".join(traceback.format_stack(frame, limit=5)) if frame is not None else ""
        text = "%s has blocked the event loop for %.1f s; all other async jobs of this process are waiting:\n%s"
        logger.warning(text, handler, now - self._asked, stack)
