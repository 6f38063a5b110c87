"""On-commit callbacks whose errors do not reach the caller, and callbacks that a transaction has at most once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from django.db.backends.base.base import BaseDatabaseWrapper

C = TypeVar("C")


def after_commit(connection: BaseDatabaseWrapper, callback: Callable[[], object]) -> None:
    """Call ``callback`` when the current transaction has committed, or at once outside one. Its errors are logged.

    Django 5.2 logs the ``__qualname__`` of a callback that failed, which partials and instances lack: the caller would
    get an AttributeError although the transaction is committed, and the other callbacks would not be called.
    """
    if not hasattr(callback, "__qualname__"):
        named: Any = callback
        called = callback.func if isinstance(callback, partial) else callback
        named.__qualname__ = getattr(called, "__qualname__", type(called).__qualname__)
    connection.on_commit(callback, robust=True)


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
        if isinstance(waiting[-1][1], self._kind):
            return waiting[-1][1]
        place = self._places.get(connection, 0)
        if place >= len(waiting) or not isinstance(waiting[place][1], self._kind):
            found = (number for number, entry in enumerate(waiting) if isinstance(entry[1], self._kind))
            place = next(found, -1)
            if place < 0:
                return None
            self._places[connection] = place
        callback: C = waiting[place][1]
        return callback
