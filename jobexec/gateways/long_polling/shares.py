"""A limited number of places shared fairly between holders, for waiting requests and unauthenticated calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...runtime.database_threads import Overloaded

#: A holder may take up to this many times the places that stay free for others.
_GREED = 3


class TooManyWaiters(Overloaded):
    """All places are in use, or the holder has reached its share."""


class Shares:
    """At most ``most`` places in use at a time (a callable if the limit may change). Thread-safe.

    A holder of places gets another only while enough are free for others: a single holder gets about three quarters of
    them, and several greedy holders together still leave room for a newcomer. The holder ``""`` stands for all callers
    where they cannot be distinguished, and may take every place.
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
        """The number of places in use."""
        return self._taken

    @contextmanager
    def place(self, whose: str) -> Iterator[None]:
        """Hold a place for the duration of the block. Raises TooManyWaiters if this holder cannot have one."""
        self.take(whose)
        try:
            yield
        finally:
            self.give_back(whose)

    def take(self, whose: str) -> None:
        """Take a place, to be returned with :meth:`give_back`. Raises TooManyWaiters."""
        with self._lock:
            own, most = self._of.get(whose, 0), self.most
            free = most - self._taken
            if free <= 0:
                raise TooManyWaiters(f"All {most} places are in use; try again in a moment.")
            if whose and own and own >= _GREED * (free - 1):
                raise TooManyWaiters(f"You hold {own} of {most} places; the rest are reserved for other clients.")
            self._of[whose] = own + 1
            self._taken += 1

    def give_back(self, whose: str) -> None:
        with self._lock:
            self._taken -= 1
            self._of[whose] -= 1
            if not self._of[whose]:
                del self._of[whose]
