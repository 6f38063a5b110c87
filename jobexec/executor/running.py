"""The handlers that run in this process right now, and who of them has run out of time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from jobexec import clock
from jobexec.handlers.base import JobHandler
from jobexec.handlers.context import JobContext

_SOFT = 0.8


@dataclass(slots=True, eq=False)
class RunningJob:
    """A handler at work. ``soft`` and ``hard`` are readings of the monotonic clock; None without a timeout, and
    then ``began`` is not told either."""

    context: JobContext
    handler: JobHandler
    began: float = 0.0
    soft: float | None = None
    hard: float | None = None

    def limit(self, timeout: timedelta | None) -> None:
        """Set both limits from the job's timeout: 80 and 100 per cent of it, as in Ratchet."""
        if timeout is not None:
            self.soft = self.began + _SOFT * timeout.total_seconds()
            self.hard = self.began + timeout.total_seconds()


class RunningJobs:
    """Knows which handlers run. A handler ends or runs out of time, never both: one lock decides.

    Those without a timeout need no lock: to put them into a dict and to take them out are single steps.
    """

    def __init__(self, hurry: Callable[[], None] = lambda: None) -> None:
        self._lock = threading.Lock()
        self._timed: dict[int, RunningJob] = {}
        self._untimed: dict[int, tuple[JobContext, JobHandler]] = {}
        self._hurry = hurry

    def begin(self, context: JobContext, handler: JobHandler) -> None:
        """A handler is about to be called."""
        if context.timeout is None:
            self._untimed[id(context)] = context, handler
            return
        running = RunningJob(context, handler, clock.monotonic())
        running.limit(context.timeout)
        with self._lock:
            self._timed[id(context)] = running
        self._hurry()

    def end(self, context: JobContext) -> None:
        """A handler has ended; ``context.timed_out`` is final now."""
        if context.timeout is None:
            self._untimed.pop(id(context), None)
            return
        with self._lock:
            self._timed.pop(id(context), None)

    def all(self) -> list[RunningJob]:
        """The handlers that run now, those left out that have run out of time."""
        with self._lock:
            timed = list(self._timed.values())
        return [*timed, *(RunningJob(context, handler) for context, handler in self._untimed.copy().values())]

    def near_the_end(self) -> list[RunningJob]:
        """Whose soft limit is over, for the first time; their contexts say so from now on."""
        now, found = clock.monotonic(), []
        with self._lock:
            for running in self._timed.values():
                if running.soft is not None and running.soft <= now:
                    running.soft = None
                    running.context.soft_timeout = True
                    found.append(running)
        return found

    def out_of_time(self, settle: Callable[[RunningJob], None]) -> list[RunningJob]:
        """Whose hard limit is over; whatever they do from now on does not count.

        Each is handed to ``settle`` before its thread can get through :meth:`end`: a handler that sees that its time is
        over ends at once, and its thread gives the job back, which must come after the failure and not before.
        """
        now = clock.monotonic()
        with self._lock:
            found = [each for each in self._timed.values() if each.hard is not None and each.hard <= now]
            for running in found:
                settle(running)
                running.context.timed_out = True
                del self._timed[id(running.context)]
        return found

    def next_limit(self) -> float | None:
        """Seconds until the next limit of anybody; None if nobody has one."""
        with self._lock:
            limits = [each.soft or each.hard for each in self._timed.values()]
        return max(0.0, min(limit for limit in limits if limit is not None) - clock.monotonic()) if limits else None
