"""The handlers that run in this process, and which of them have timed out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from jobexec import clock
from jobexec.handlers.base import JobHandler
from jobexec.handlers.context import JobContext

#: Shorter runs are over before an operator could see them.
REPORTED_AFTER = timedelta(seconds=1)
#: An event loop may run thousands.
MOST_REPORTED = 100
_SOFT = 0.8
_FEW = 100


@dataclass(slots=True, eq=False)
class RunningJob:
    """A running handler and its start on the monotonic clock; ``began`` is not set without a timeout."""

    context: JobContext
    handler: JobHandler
    thread: int
    """The identifier of the thread that calls it."""
    began: float = 0.0

    def as_json(self, name: str) -> dict[str, Any]:
        """The entry that the node reports of it; ``name`` is that of its thread."""
        context = self.context
        return {
            "job": str(context.id),
            "handler": context.work.handler_type,
            "category": context.work.category,
            "since": context.started_at.isoformat(),
            "thread": name if context.holds_thread else "",
        }


class _Limits:
    """When running jobs reach a limit, by the monotonic clock, earliest first.

    Entries of jobs that have ended are dropped when they come up, or when they outnumber the others: thousands may run
    at once, and no ending job should cost a scan of all.
    """

    def __init__(self, live: Mapping[int, RunningJob]) -> None:
        self._live = live
        self._numbers = count()
        self._heap: list[tuple[float, int, RunningJob]] = []

    def add(self, when: float, running: RunningJob) -> bool:
        """Returns whether this limit is now the earliest."""
        if len(self._heap) > 2 * len(self._live) + _FEW:
            self._heap = [entry for entry in self._heap if self._lives(entry[2])]
            heapify(self._heap)
        heappush(self._heap, (when, next(self._numbers), running))
        return self._heap[0][2] is running

    def reached(self, now: float) -> RunningJob | None:
        """The job with the earliest passed limit; returned again until :meth:`pass_on` or the end of the job."""
        when = self.next()
        return self._heap[0][2] if when is not None and when <= now else None

    def pass_on(self) -> None:
        """Forget the earliest limit."""
        heappop(self._heap)

    def next(self) -> float | None:
        """The earliest limit of a job that still runs."""
        while self._heap and not self._lives(self._heap[0][2]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _lives(self, running: RunningJob) -> bool:
        return self._live.get(id(running.context)) is running


class RunningJobs:
    """Tracks which handlers run. A handler either ends or times out, never both: one lock decides.

    Handlers without a timeout need no lock: adding to a dict and removing from it are atomic.
    """

    def __init__(self, hurry: Callable[[], None] = lambda: None) -> None:
        self._lock = threading.Lock()
        self._timed: dict[int, RunningJob] = {}
        self._untimed: dict[int, tuple[JobContext, JobHandler, int]] = {}
        self._soft, self._hard = _Limits(self._timed), _Limits(self._timed)
        self._hurry = hurry

    def begin(self, context: JobContext, handler: JobHandler) -> None:
        """A handler is about to be called."""
        if context.timeout is None:
            self._untimed[id(context)] = context, handler, threading.get_ident()
            return
        running = RunningJob(context, handler, threading.get_ident(), clock.monotonic())
        seconds = context.timeout.total_seconds()
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
        """The handlers that run now, without those that have timed out."""
        with self._lock:
            timed = list(self._timed.values())
        return [*timed, *(RunningJob(*each) for each in self._untimed.copy().values())]

    def report(self, using: str) -> list[dict[str, Any]]:
        """The jobs of this engine that have run for :data:`REPORTED_AFTER`, the longest first, for the node's row."""
        moment = clock.now(using) - REPORTED_AFTER
        found = [each for each in self.all() if each.context.using == using and each.context.started_at <= moment]
        found.sort(key=lambda each: each.context.started_at)
        names = {thread.ident: thread.name for thread in threading.enumerate()} if found else {}
        return [each.as_json(names.get(each.thread, "")) for each in found[:MOST_REPORTED]]

    def near_the_end(self) -> list[RunningJob]:
        """Jobs that reached their soft limit since the last call; sets ``soft_timeout`` of their contexts."""
        now, found = clock.monotonic(), []
        with self._lock:
            while (running := self._soft.reached(now)) is not None:
                self._soft.pass_on()
                running.context.soft_timeout = True
                found.append(running)
        return found

    def out_of_time(self, settle: Callable[[RunningJob], None]) -> list[RunningJob]:
        """Jobs that reached their hard limit; nothing they do from now on counts.

        Each is passed to ``settle`` before its thread can get through :meth:`end`: a handler that sees its timeout ends
        at once, and its thread releases the job, which must come after the failure and not before.
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
        """Seconds until the earliest limit of a running job; None without any."""
        with self._lock:
            limits = [limit for limit in (self._soft.next(), self._hard.next()) if limit is not None]
        return max(0.0, min(limits) - clock.monotonic()) if limits else None
