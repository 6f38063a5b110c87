"""Places of which no one takes all: those of requests that wait, and of calls whose sender is not known yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...runtime.database_threads import Overloaded

#: One may take as many as this times those that are left free for others.
_GREED = 3


class TooManyWaiters(Overloaded):
    """All places are taken, or as many as one may have."""


class Shares:
    """At most ``most`` places at a time (a function where it may change). Safe for threads.

    Whoever has some gets another only while enough are free for the others: one alone gets about three quarters of
    them, and of several that take all they can none keeps a newcomer out. ``""`` is everybody where nobody is told
    apart, and gets all.
    """

    def __init__(self, most: int | Callable[[], int]) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._of: dict[str, int] = {}
        self._taken = 0

    @property
    def most(self) -> int:
        return self._most if isinstance(self._most, int) else self._most()

    @property
    def taken(self) -> int:
        """How many places are taken."""
        return self._taken

    @contextmanager
    def place(self, whose: str) -> Iterator[None]:
        """Keep a place meanwhile. Raises TooManyWaiters if there is none for this one."""
        self.take(whose)
        try:
            yield
        finally:
            self.give_back(whose)

    def take(self, whose: str) -> None:
        """Take a place, which is to be given back. Raises TooManyWaiters."""
        with self._lock:
            own, most = self._of.get(whose, 0), self.most
            free = most - self._taken
            if free <= 0:
                raise TooManyWaiters(f"All {most} places are taken; try again a moment later.")
            if whose and own and own >= _GREED * (free - 1):
                raise TooManyWaiters(f"{own} of {most} places are taken by one; the others are kept for others.")
            self._of[whose] = own + 1
            self._taken += 1

    def give_back(self, whose: str) -> None:
        with self._lock:
            self._taken -= 1
            self._of[whose] -= 1
            if not self._of[whose]:
                del self._of[whose]
