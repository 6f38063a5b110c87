"""The queue of requests that wait for jobs: its places, and which of them are woken."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Any, Self

#: A request that found more jobs than it may take wakes this many others, each of which does the same.
_MORE = 2

#: Matches all kinds.
_ANY: Hashable = object()


class Place(ABC):
    """A place in the queue, from entering it to leaving it; a context manager.

    ``kind`` holds the request's other conditions (tenants, filters). If a place finds nothing, others with the same
    types and kind would find nothing either, so only the first of them is woken. ``alive`` is called by any thread
    before a place is woken; it must neither block nor raise. A notification that arrives while the request itself looks
    for jobs is kept for its next :meth:`wait`; if the request leaves without reading it, it goes to the next in line.
    """

    def __init__(self, queue: Queue, types: Collection[str], kind: Hashable, alive: Callable[[], bool]) -> None:
        self.types, self.kind, self.alive = frozenset(types), kind, alive
        #: The types with notifications that this place has not read yet. Only the queue changes it.
        self.owed: set[str] = set()
        #: Those of the notifications that it has read last. Only the queue changes it.
        self.taken: set[str] = set()
        self._queue = queue

    def __enter__(self) -> Self:
        self._queue.enter(self)
        return self

    def __exit__(self, *ignored: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Leave the queue; unread notifications go to the next place."""
        self._queue.leave(self)

    def pass_on(self) -> None:
        """Wake some others of the same kind, because there are more jobs than this request takes."""
        self._queue.wake(self.types, most=_MORE, kind=self.kind, but=self)

    @abstractmethod
    def ring(self) -> None:
        """End the wait. Raises RuntimeError if the waiter no longer exists."""

    def heard(self) -> bool:
        """Return whether a notification arrived since the last call."""
        return self._queue.take(self)

    @property
    def over(self) -> bool:
        """Whether the queue is closed because the process ends."""
        return self._queue.closed


class Queue:
    """Waiting places by type and kind, in order of arrival. Thread-safe; no method blocks."""

    def __init__(self, entered: Callable[[Collection[str]], object] = len) -> None:
        self.closed = False
        self._entered = entered
        self._lock = threading.Lock()
        self._rows: dict[str, dict[Hashable, dict[Place, None]]] = {}

    def enter(self, place: Place) -> None:
        """Add a place; afterwards call ``entered`` with the types that no other place waited for."""
        with self._lock:
            new = place.types.difference(self._rows)
            for type in place.types:
                self._rows.setdefault(type, {}).setdefault(place.kind, {})[place] = None
        self._entered(new)

    def leave(self, place: Place, cut_off: bool = False) -> None:
        """Remove a place; unread notifications go to the next one.

        ``cut_off``: those that it has read last, too, because it has not come to look for jobs.
        """
        with self._lock:
            for type in place.types:
                self._remove(place, type)
            owed, place.owed = place.owed | (place.taken if cut_off else set()), set()
        if owed:
            self.wake(owed, kind=place.kind)

    def _remove(self, place: Place, type: str) -> None:
        kinds = self._rows.get(type, {})
        row = kinds.get(place.kind, {})
        row.pop(place, None)
        if not row:
            kinds.pop(place.kind, None)
        if not kinds:
            self._rows.pop(type, None)

    def take(self, place: Place) -> bool:
        """Clear the place's unread notifications; return whether there were any."""
        with self._lock:
            place.taken, place.owed = place.owed, set()
            return bool(place.taken)

    def wake(
        self, types: Collection[str] = (), *, most: int = 1, kind: Hashable = _ANY, but: Place | None = None
    ) -> int:
        """Wake the first ``most`` places of each kind that wait for these types (all types if none is given).

        Places that were woken but have not looked yet are skipped: there may be as many jobs as notifications. If
        ``kind`` is given, only places of this kind are woken. Returns the number of woken places.
        """
        woken = 0
        with self._lock:
            for type in types or tuple(self._rows):
                for each, row in self._rows.get(type, {}).items():
                    if kind is _ANY or each == kind:
                        woken += sum(1 for _ in self._ring(type, row, most, but))
        return woken

    @staticmethod
    def _ring(type: str, row: dict[Place, None], most: int, but: Place | None) -> Iterator[Place]:
        for place in row:
            if not most:
                return
            if place is but or place.owed or not place.alive():
                continue
            place.owed.add(type)
            try:
                place.ring()
            except RuntimeError:  # its event loop has ended, and with it the waiting coroutine
                place.owed.clear()
                continue
            most -= 1
            yield place

    def types(self) -> frozenset[str]:
        """The types that at least one place waits for."""
        with self._lock:
            return frozenset(self._rows)

    def count(self) -> int:
        """The number of waiting places."""
        return len(self._places())

    def counts(self) -> dict[str, int]:
        """The number of waiting places for each type; a place that waits for several types counts for each."""
        with self._lock:
            return {type: sum(map(len, kinds.values())) for type, kinds in self._rows.items()}

    def close(self) -> None:
        """Release all waiting places, and any that enter later."""
        self.closed = True
        for place in self._places():
            try:
                place.ring()
            except RuntimeError:
                continue

    def _places(self) -> set[Place]:
        with self._lock:
            return {place for kinds in self._rows.values() for row in kinds.values() for place in row}


def left(until: float) -> float:
    """Seconds until ``until`` (``time.monotonic()``); 0 if it has passed."""
    return max(0.0, until - time.monotonic())


class ThreadPlace(Place):
    """The place of a thread."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._event = threading.Event()

    def ring(self) -> None:
        self._event.set()

    def wait(self, until: float) -> bool:
        """Wait for a notification until ``until`` (``time.monotonic()``); return whether one arrived.

        Returns False immediately once the queue is closed.
        """
        while True:
            self._event.clear()  # before heard(): the notifying thread records the notification before it rings
            if self.heard():
                return True
            if self.over or not (seconds := left(until)):
                return False
            self._event.wait(seconds)
