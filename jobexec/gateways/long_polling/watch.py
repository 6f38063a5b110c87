"""The one thread that watches the database for all who wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from datetime import datetime

from django.db import connections

from jobexec import clock
from jobexec.operations.external.availability import available_types, next_times
from jobexec.operations.sql.dialect import dialect
from jobexec.operations.sql.server_time import synchronise_clock
from jobexec.runtime.threads import Loop
from jobexec.runtime.wake_up import WakeUpEvent

from .places import Queue
from .wake_up_source import ear_of

#: Seconds between two looks for lost notices, and where nobody tells of other processes.
PROBE, PROBE_WHEN_DEAF = 10.0, 0.15
_ASK_AGAIN = 0.25  # between two questions when the next job comes: a flood of notices must not become one of questions
_IDLE = 30.0  # seconds without anybody who waits, after which the thread ends


class Watch(Loop):
    """Wakes who waits: at a notice, when a deadline or a back-off ends, and at each probe that finds something.

    It sleeps in one place (:class:`~jobexec.runtime.wake_up.WakeUpEvent`) for all of these. After ``_IDLE`` seconds
    without anybody who waits it asks ``retire`` whether it may end. A round that fails (the database is away) is
    repeated after a growing pause, and what is connected anew begins with waking everybody.
    """

    def __init__(self, using: str, queue: Queue, retire: Callable[[Watch], bool]) -> None:
        super().__init__(f"jobexec-hub-{using}")
        self._using, self._queue, self._retire = using, queue, retire
        self._ear = ear_of(using, self._heard, self._changed, lambda: bool(queue.types()))
        self._woken: WakeUpEvent = WakeUpEvent(self._ear)
        self.keeps_connection = dialect(using).counts_commits(connections[using])  # its counter belongs to a connection
        self._lock = threading.Lock()
        #: Of which types to ask when their next job comes, and since when that is not known.
        self._stale: dict[str, datetime] = {}
        self._times: dict[str, datetime] = {}
        self._asked_at = self._probed_at = self._synchronised_at = float("-inf")
        self._idle_since: float | None = None

    # What others tell, in their threads.

    def tell(self, types: Collection[str]) -> None:
        """This process has committed jobs of these types (of any, if none is named)."""
        if not self._ear.hears_this_process:
            self._notice(types)

    def expect(self, type: str, moment: datetime) -> None:
        """A job of this type becomes available then: a deadline or a back-off that this process has set."""
        with self._lock:
            known = self._times.get(type)
            if known is not None and known <= moment:
                return
            self._times[type] = moment
        self.wake()

    def ask_about(self, types: Collection[str]) -> None:
        """Somebody waits for these types, and nobody did before: look when their next job comes."""
        if types:
            now = clock.now(self._using)
            with self._lock:
                for type in types:
                    self._stale.setdefault(type, now)
            self.wake()

    def _heard(self, content: str) -> None:
        self._notice([content] if content else ())

    def _notice(self, types: Collection[str]) -> None:
        waiting = self._queue.types()
        concerned = waiting.intersection(types) if types else waiting
        if concerned:
            self._queue.wake(concerned)
            self.ask_about(concerned)  # it may have been about a back-off

    # What the thread does.

    def run_once(self) -> float:
        types, now = self._queue.types(), time.monotonic()
        if not types:
            return self._rest(now)
        self._idle_since = None
        self._ear.attend()
        if now - self._probed_at >= self._interval:
            self._probe(now)
        self._ask(types, now)
        due = self._ring(types)
        return max(0.0, min(self._probed_at + self._interval - now, due))

    @property
    def _interval(self) -> float:
        return PROBE if self._ear.listening else PROBE_WHEN_DEAF

    def _rest(self, now: float) -> float:
        """Nobody waits; returns after how many seconds to end."""
        if self._idle_since is None:
            self._idle_since = now
        left = self._idle_since + _IDLE - now
        if left <= 0 and self._retire(self):
            self.ask_to_stop()
        return max(0.0, left)

    def _probe(self, now: float) -> None:
        if now - self._synchronised_at >= PROBE:
            synchronise_clock(self._using)  # deadlines are read by the database's clock
            self.ask_about(self._queue.types())
            self._synchronised_at = now
        self._look()
        self._probed_at = now

    def _look(self) -> None:
        """Wake who waits for what is there."""
        types = self._queue.types()
        if types and (found := available_types(self._using, types)):
            self._queue.wake(found)

    def _changed(self) -> None:
        self._look()
        self.ask_about(self._queue.types())

    def _ask(self, types: frozenset[str], now: float) -> None:
        """Learn when the next job of each type comes of which there was word."""
        with self._lock:
            wanted = {type: since for type, since in self._stale.items() if type in types}
            if not wanted or now - self._asked_at < _ASK_AGAIN:
                return
            self._stale = {}
        self._asked_at = now
        found = next_times(self._using, wanted)
        with self._lock:
            for type in wanted:
                self._times.pop(type, None)
            self._times.update(found)

    def _ring(self, types: frozenset[str]) -> float:
        """Wake for what is available by now; returns after how many seconds something is to be done."""
        now = clock.now(self._using)
        with self._lock:
            over = {type for type, moment in self._times.items() if moment <= now}
            for type in over:
                del self._times[type]
            for type in over & types:
                self._stale.setdefault(type, now)
            stale = not types.isdisjoint(self._stale)
            coming = [moment for type, moment in self._times.items() if type in types]
        if concerned := over & types:
            self._queue.wake(concerned)
        seconds = min(((moment - now).total_seconds() for moment in coming), default=PROBE)
        return min(seconds, _ASK_AGAIN) if stale else seconds

    def _run(self, stopping: threading.Event) -> None:
        try:
            super()._run(stopping)
        finally:
            self._ear.close()
