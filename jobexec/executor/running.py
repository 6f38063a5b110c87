"""The handlers that run in this process right now, and who of them has run out of time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from jobexec import clock
from jobexec.handlers.base import JobHandler
from jobexec.handlers.context import JobContext

_SOFT = 0.8


@dataclass(slots=True, eq=False)
class RunningJob:
    """A handler at work. ``soft`` and ``hard`` are readings of the monotonic clock; None without a timeout."""

    context: JobContext
    handler: JobHandler
    began: float
    soft: float | None = None
    hard: float | None = None

    def limit(self, timeout: timedelta | None) -> None:
        """Set both limits from the job's timeout: 80 and 100 per cent of it, as in Ratchet."""
        if timeout is not None:
            self.soft = self.began + _SOFT * timeout.total_seconds()
            self.hard = self.began + timeout.total_seconds()


class RunningJobs:
    """Knows which handlers run. A handler ends or runs out of time, never both: one lock decides."""

    def __init__(self, hurry: Callable[[], None] = lambda: None) -> None:
        self._lock = threading.Lock()
        self._running: dict[int, RunningJob] = {}
        self._hurry = hurry

    @contextmanager
    def watch(self, context: JobContext, handler: JobHandler) -> Iterator[None]:
        """Around the call of a handler. When it is left, ``context.timed_out`` is final."""
        running = RunningJob(context, handler, clock.monotonic())
        running.limit(context.timeout)
        with self._lock:
            self._running[id(running)] = running
        if running.hard is not None:
            self._hurry()
        try:
            yield
        finally:
            with self._lock:
                self._running.pop(id(running), None)

    def all(self) -> list[RunningJob]:
        """The handlers that run now, those left out that have run out of time."""
        with self._lock:
            return list(self._running.values())

    def near_the_end(self) -> list[RunningJob]:
        """Whose soft limit is over, for the first time; their contexts say so from now on."""
        now, found = clock.monotonic(), []
        with self._lock:
            for running in self._running.values():
                if running.soft is not None and running.soft <= now:
                    running.soft = None
                    running.context.soft_timeout = True
                    found.append(running)
        return found

    def out_of_time(self, settle: Callable[[RunningJob], None]) -> list[RunningJob]:
        """Whose hard limit is over; whatever they do from now on does not count.

        Each is handed to ``settle`` before its thread can leave :meth:`watch`: a handler that sees that its time is
        over ends at once, and its thread gives the job back, which must come after the failure and not before.
        """
        now = clock.monotonic()
        with self._lock:
            found = [each for each in self._running.values() if each.hard is not None and each.hard <= now]
            for running in found:
                settle(running)
                running.context.timed_out = True
                del self._running[id(running)]
        return found

    def next_limit(self) -> float | None:
        """Seconds until the next limit of anybody; None if nobody has one."""
        with self._lock:
            limits = [each.soft or each.hard for each in self._running.values() if each.hard is not None]
        return max(0.0, min(limit for limit in limits if limit is not None) - clock.monotonic()) if limits else None
