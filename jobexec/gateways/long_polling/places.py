"""The queue of those who wait for jobs: who stands where, and who is woken."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Any, Self

#: Who found more jobs than he may take wakes so many others, each of whom does the same.
_MORE = 2

#: Of all kinds.
_ANY: Hashable = object()


class Place(ABC):
    """A place in the queue, from entering it to leaving; a context manager.

    ``kind`` says what else is asked for (tenants, filters): where one finds nothing, others of the same types and kind
    would find nothing either, so of these only the first is woken. ``alive`` is asked before a place is woken, by any
    thread; it must neither wait nor fail. Word that comes while the one who waits looks for jobs himself is kept for
    his next :meth:`wait`; if he leaves without having heard it, the next one behind him does.
    """

    def __init__(self, queue: Queue, types: Collection[str], kind: Hashable, alive: Callable[[], bool]) -> None:
        self.types, self.kind, self.alive = frozenset(types), kind, alive
        #: The types of which there was word that this one has not heard yet. Only the queue touches it.
        self.owed: set[str] = set()
        self._queue = queue

    def __enter__(self) -> Self:
        self._queue.enter(self)
        return self

    def __exit__(self, *ignored: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Give up the place; what was not heard is passed on to the next."""
        self._queue.leave(self)

    def pass_on(self) -> None:
        """There are more jobs than this one takes: wake some others of the same kind."""
        self._queue.wake(self.types, most=_MORE, kind=self.kind, but=self)

    @abstractmethod
    def ring(self) -> None:
        """End the wait. Raises RuntimeError if there is nobody any more who could be woken."""

    def heard(self) -> bool:
        """Whether there was word since the last time."""
        return self._queue.take(self)

    @property
    def over(self) -> bool:
        """Nobody waits here any more: the process ends."""
        return self._queue.closed


class Queue:
    """Who waits, by type and kind, in the order in which they came. Safe for threads; nothing here waits."""

    def __init__(self, entered: Callable[[Collection[str]], object] = len) -> None:
        self.closed = False
        self._entered = entered
        self._lock = threading.Lock()
        self._rows: dict[str, dict[Hashable, dict[Place, None]]] = {}

    def enter(self, place: Place) -> None:
        """``entered`` is told afterwards, with the types that nobody waited for before."""
        with self._lock:
            new = place.types.difference(self._rows)
            for type in place.types:
                self._rows.setdefault(type, {}).setdefault(place.kind, {})[place] = None
        self._entered(new)

    def leave(self, place: Place) -> None:
        with self._lock:
            for type in place.types:
                self._remove(place, type)
            owed, place.owed = place.owed, set()
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
        """Whether this one is owed word; he is not any more."""
        with self._lock:
            owed, place.owed = place.owed, set()
        return bool(owed)

    def wake(
        self, types: Collection[str] = (), *, most: int = 1, kind: Hashable = _ANY, but: Place | None = None
    ) -> int:
        """Wake the first ``most`` of each kind that wait for these types (all types if none is named).

        Who is woken already, and has not come to look, is passed over: there may be as many jobs as there was word of
        them. Only those of one ``kind`` if it is named. Returns how many were woken.
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
            except RuntimeError:  # its event loop has ended, and with it whoever waited there
                place.owed.clear()
                continue
            most -= 1
            yield place

    def types(self) -> frozenset[str]:
        """Those that somebody waits for."""
        with self._lock:
            return frozenset(self._rows)

    def count(self) -> int:
        """How many wait."""
        return len(self._places())

    def counts(self) -> dict[str, int]:
        """How many wait for each type; who waits for several counts with each."""
        with self._lock:
            return {type: sum(map(len, kinds.values())) for type, kinds in self._rows.items()}

    def close(self) -> None:
        """Answer all, and whoever comes later."""
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
    """Seconds until a moment of ``time.monotonic()``; 0 if it is over."""
    return max(0.0, until - time.monotonic())


class ThreadPlace(Place):
    """The place of a thread."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._event = threading.Event()

    def ring(self) -> None:
        self._event.set()

    def wait(self, until: float) -> bool:
        """Wait for word, until a moment of ``time.monotonic()``; whether it came. False at once when all is over."""
        while True:
            self._event.clear()  # in this order: who rings has put the word down before
            if self.heard():
                return True
            if self.over or not (seconds := left(until)):
                return False
            self._event.wait(seconds)
