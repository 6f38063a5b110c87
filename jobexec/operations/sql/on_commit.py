"""Callbacks of which a transaction has one, whatever it does."""

from __future__ import annotations

from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from django.db.backends.base.base import BaseDatabaseWrapper

C = TypeVar("C")


class Once(Generic[C]):
    """Finds the callback of a class among those that wait for a commit.

    A callback that a rolled back savepoint took away also took away what it was for, so looking for our own callback is
    enough to know that one will come. A transaction may have very many callbacks: looking through them for each of its
    jobs would take forever, so the place where it was seen last is remembered.
    """

    def __init__(self, kind: type[C]) -> None:
        self._kind = kind
        self._places: WeakKeyDictionary[BaseDatabaseWrapper, int] = WeakKeyDictionary()

    def waiting(self, connection: BaseDatabaseWrapper) -> C | None:
        """The callback that will be called when the current transaction commits; None if there is none yet."""
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
