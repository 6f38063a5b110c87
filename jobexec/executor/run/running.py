"""The handlers that run in this process right now, and who of them has run out of time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count

from jobexec import clock
from jobexec.handlers.base import JobHandler
from jobexec.handlers.context import JobContext

_SOFT = 0.8
_FEW = 100


@dataclass(slots=True, eq=False)
class RunningJob:
    """A handler at work, and since when by the monotonic clock; without a timeout that is not told."""

    context: JobContext
    handler: JobHandler
    began: float = 0.0


class _Limits:
    """When running jobs reach a limit, the next one first, by the monotonic clock.

    Those of jobs that have ended are dropped when they are met, or when they are more than the others: thousands may
    run at once, and none of them is to cost a walk over all.
    """

    def __init__(self, live: Mapping[int, RunningJob]) -> None:
        self._live = live
        self._numbers = count()
        self._heap: list[tuple[float, int, RunningJob]] = []

    def add(self, when: float, running: RunningJob) -> bool:
        """Whether this limit is the next of all."""
        if len(self._heap) > 2 * len(self._live) + _FEW:
            self._heap = [entry for entry in self._heap if self._lives(entry[2])]
            heapify(self._heap)
        heappush(self._heap, (when, next(self._numbers), running))
        return self._heap[0][2] is running

    def reached(self, now: float) -> RunningJob | None:
        """Whose limit is over, if anybody's is; told again until it is passed or does not run any more."""
        when = self.next()
        return self._heap[0][2] if when is not None and when <= now else None

    def pass_on(self) -> None:
        """Forget the next limit."""
        heappop(self._heap)

    def next(self) -> float | None:
        """The next limit of anybody who still runs."""
        while self._heap and not self._lives(self._heap[0][2]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _lives(self, running: RunningJob) -> bool:
        return self._live.get(id(running.context)) is running


class RunningJobs:
    """Knows which handlers run. A handler ends or runs out of time, never both: one lock decides.

    Those without a timeout need no lock: to put them into a dict and to take them out are single steps.
    """

    def __init__(self, hurry: Callable[[], None] = lambda: None) -> None:
        self._lock = threading.Lock()
        self._timed: dict[int, RunningJob] = {}
        self._untimed: dict[int, tuple[JobContext, JobHandler]] = {}
        self._soft, self._hard = _Limits(self._timed), _Limits(self._timed)
        self._hurry = hurry

    def begin(self, context: JobContext, handler: JobHandler) -> None:
        """A handler is about to be called."""
        if context.timeout is None:
            self._untimed[id(context)] = context, handler
            return
        running, seconds = RunningJob(context, handler, clock.monotonic()), context.timeout.total_seconds()
        with self._lock:
            self._timed[id(context)] = running
            # 80 and 100 per cent of the timeout, as in Ratchet.
            first = self._soft.add(running.began + _SOFT * seconds, running)
            first = self._hard.add(running.began + seconds, running) or first
        if first:
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
            while (running := self._soft.reached(now)) is not None:
                self._soft.pass_on()
                running.context.soft_timeout = True
                found.append(running)
        return found

    def out_of_time(self, settle: Callable[[RunningJob], None]) -> list[RunningJob]:
        """Whose hard limit is over; whatever they do from now on does not count.

        Each is handed to ``settle`` before its thread can get through :meth:`end`: a handler that sees that its time is
        over ends at once, and its thread gives the job back, which must come after the failure and not before.
        """
        now, found = clock.monotonic(), []
        with self._lock:
            while (running := self._hard.reached(now)) is not None:
                settle(running)
                running.context.timed_out = True
                del self._timed[id(running.context)]
                found.append(running)
        return found

    def next_limit(self) -> float | None:
        """Seconds until the next limit of anybody; None if nobody has one."""
        with self._lock:
            limits = [limit for limit in (self._soft.next(), self._hard.next()) if limit is not None]
        return max(0.0, min(limits) - clock.monotonic()) if limits else None
