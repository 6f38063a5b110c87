"""On-commit callbacks that a transaction has at most once."""

from __future__ import annotations

from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from django.db.backends.base.base import BaseDatabaseWrapper

C = TypeVar("C")


class Once(Generic[C]):
    """Find the callback of a class among those that wait for the commit.

    A savepoint that was rolled back removed its callback together with the changes that needed it, so finding our
    callback is enough to know that it will be called. A transaction may have very many callbacks: searching them for
    each of its jobs would take forever, so the last known position is remembered.
    """

    def __init__(self, kind: type[C]) -> None:
        self._kind = kind
        self._places: WeakKeyDictionary[BaseDatabaseWrapper, int] = WeakKeyDictionary()

    def waiting(self, connection: BaseDatabaseWrapper) -> C | None:
        """Return the callback that the commit of the current transaction will call; None if there is none yet."""
        waiting: Any = connection.run_on_commit
        if not waiting:
            return None
        place = self._places.get(connection, 0)
        if place >= len(waiting) or not isinstance(waiting[place][1], self._kind):
            found = (number for number, entry in enumerate(waiting) if isinstance(entry[1], self._kind))
            place = next(found, -1)
            if place < 0:
                return None
            self._places[connection] = place
        callback: C = waiting[place][1]
        return callback
