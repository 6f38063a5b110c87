"""The thread that watches the database for all waiting requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from datetime import datetime

from django.db import connections

from jobexec import clock
from jobexec.gateways import added
from jobexec.operations.external.availability import available_types, next_times
from jobexec.operations.sql.dialect import dialect
from jobexec.operations.sql.server_time import synchronise_clock
from jobexec.runtime.threads import Loop
from jobexec.runtime.wake_up import WakeUpEvent

from .places import Queue
from .wake_up_source import source_of

#: Seconds between two probes: for lost notifications, and where other processes cannot notify this one.
PROBE, PROBE_WHEN_DEAF = 10.0, 0.15
_ASK_AGAIN = 0.25  # seconds between two queries for the next job: many notifications must not become as many queries
_IDLE = 30.0  # seconds without waiting requests after which the thread ends


class Watch(Loop):
    """Wakes waiting requests: on a notification, when a deadline or back-off ends, and when a probe finds a job.

    It sleeps in a single :class:`~jobexec.runtime.wake_up.WakeUpEvent` for all of these. After ``_IDLE`` seconds
    without waiting requests it asks ``retire`` whether it may end. A failed round (the database is down) is repeated
    after a growing pause, and a new connection begins by waking all requests.
    """

    def __init__(self, using: str, queue: Queue, retire: Callable[[Watch], bool]) -> None:
        super().__init__(f"jobexec-hub-{using}")
        self._using, self._queue, self._retire = using, queue, retire
        self._source = source_of(using, self._heard, self._changed, lambda: bool(queue.types()))
        self._woken: WakeUpEvent = WakeUpEvent(self._source)
        self.keeps_connection = dialect(using).counts_commits(connections[using])  # its counter belongs to a connection
        self._lock = threading.Lock()
        #: The types whose next job has to be looked up, and since when it is unknown.
        self._stale: dict[str, datetime] = {}
        self._times: dict[str, datetime] = {}
        self._asked_at = self._probed_at = self._synchronised_at = float("-inf")
        self._idle_since: float | None = None

    # Called by other threads.

    def tell(self, types: Collection[str]) -> None:
        """Announce that this process committed jobs of these types (of any type if ``types`` is empty)."""
        if not self._source.hears_this_process:
            self._notice(types)

    def expect(self, type: str, moment: datetime) -> None:
        """Announce when a job of this type becomes available, after this process has set a deadline or a back-off."""
        with self._lock:
            known = self._times.get(type)
            if known is not None and known <= moment:
                return
            self._times[type] = moment
        self.wake()

    def ask_about(self, types: Collection[str]) -> None:
        """Look up when the next job of each of these types is due, because a first request waits for them."""
        types = [type for type in types if not added.is_awaited(type)]
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
            self.ask_about(concerned)  # the notification may concern a back-off

    # Run by the thread.

    def run_once(self) -> float:
        types, now = self._queue.types(), time.monotonic()
        if not types:
            return self._rest(now)
        self._idle_since = None
        self._source.attend()
        if now - self._probed_at >= self._interval:
            self._probe(now)
        self._ask(types, now)
        due = self._ring(types)
        return max(0.0, min(self._probed_at + self._interval - now, due))

    @property
    def _interval(self) -> float:
        return PROBE if self._source.listening else PROBE_WHEN_DEAF

    def _rest(self, now: float) -> float:
        """Handle a round without waiting requests; return the seconds until the thread ends."""
        if self._idle_since is None:
            self._idle_since = now
        left = self._idle_since + _IDLE - now
        if left <= 0 and self._retire(self):
            self.ask_to_stop()
        return max(0.0, left)

    def _probe(self, now: float) -> None:
        if now - self._synchronised_at >= PROBE:
            synchronise_clock(self._using)  # deadlines follow the database's clock
            self.ask_about(self._queue.types())
            self._synchronised_at = now
        self._look()
        self._probed_at = now

    def _look(self) -> None:
        """Wake requests for which there are available jobs."""
        names = self._queue.types()
        awaited = {name for name in names if added.is_awaited(name)}
        types = names - awaited
        found = available_types(self._using, types) if types else set()
        if awaited:
            found |= added.come(self._using, awaited)
        if found:
            self._queue.wake(found)

    def _changed(self) -> None:
        self._look()
        self.ask_about(self._queue.types())

    def _ask(self, types: frozenset[str], now: float) -> None:
        """Look up when the next job comes, for each type with a notification."""
        with self._lock:
            wanted = {type: since for type, since in self._stale.items() if type in types}
            if not wanted or now - self._asked_at < _ASK_AGAIN:
                return
            self._stale = {}
        self._asked_at = now
        try:
            found = next_times(self._using, wanted)
        except Exception:
            with self._lock:
                self._stale |= wanted
            raise
        with self._lock:
            for type in wanted:
                self._times.pop(type, None)
            self._times.update(found)

    def _ring(self, types: frozenset[str]) -> float:
        """Wake requests for jobs that are available by now; return the seconds until the next action."""
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
            self._source.close()
