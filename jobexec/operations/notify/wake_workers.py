"""Wake up gateways that wait for external jobs, after commit, by the types of the jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from jobexec.conf import get_settings

from ..sql.dialect import dialect_of
from ..sql.on_commit import after_commit

logger = logging.getLogger("jobexec.wake")

CHANNEL = "jobexec_external"
"""The channel of the notifications; their content is a type, or empty for any type."""

#: Gateways check every ten seconds when the next job of a type is due; earlier jobs need a notification.
SOON = timedelta(seconds=15)

_MANY = 20  # types in one transaction; with more, a single notification for any type is sent

_listeners: set[Callable[[str, frozenset[str]], None]] = set()
#: The position of the last notice among a connection's on-commit callbacks. A transaction may have very many callbacks;
#: searching them for each of its jobs would take forever.
_places: WeakKeyDictionary[BaseDatabaseWrapper, int] = WeakKeyDictionary()


def add_worker_listener(listener: Callable[[str, frozenset[str]], None]) -> None:
    """Call ``listener(using, types)`` in this process after each commit that made external jobs available.

    An empty set of types means any type. The committing thread calls it, so it must neither block nor fail.
    """
    _listeners.add(listener)


def remove_worker_listener(listener: Callable[[str, frozenset[str]], None]) -> None:
    """Undo :func:`add_worker_listener`; unknown listeners are ignored."""
    _listeners.discard(listener)


def wake_workers_on_commit(using: str, types: Iterable[str]) -> None:
    """Wake the gateways that have workers waiting for these types, once the current transaction commits.

    Losing a wake-up only costs latency: gateways poll from time to time. A savepoint that is rolled back removes its
    callback together with the changes that needed it.
    """
    named = {type for type in types if type}
    if not named:
        return
    connection = connections[using]
    pending = _pending(connection)
    if pending is not None:
        pending.types |= named
        return
    _places[connection] = len(connection.run_on_commit)
    after_commit(connection, _Wake(connection, named))


def _pending(connection: BaseDatabaseWrapper) -> _Wake | None:
    """Return the last notice if it belongs to the same savepoints as a new one would.

    Other callbacks may have been added after it, such as those that send the signal ``job_created``.
    """
    waiting: Any = connection.run_on_commit
    # Also check the last callback, as savepoints that were rolled back may have moved the notice.
    for place in (_places.get(connection, -1), len(waiting) - 1):
        if 0 <= place < len(waiting):
            savepoints, callback, _ = waiting[place]
            if isinstance(callback, _Wake) and savepoints == set(connection.savepoint_ids):
                return callback
    return None


class _Wake:
    def __init__(self, connection: BaseDatabaseWrapper, types: set[str]) -> None:
        self.connection, self.using, self.types = connection, connection.alias, types

    def __call__(self) -> None:
        types = frozenset(self.types if len(self.types) <= _MANY else ())
        for listener in tuple(_listeners):
            try:
                listener(self.using, types)
            except Exception:  # the job is committed, and the other listeners must still be called
                logger.exception("A listener failed on %s", self.using)
        function = dialect_of(self.connection).notify
        if function is not None and get_settings().engine(self.using).notify:
            self._notify(function, sorted(types) or [""])

    def _notify(self, function: str, types: list[str]) -> None:
        # After the commit and on its own: NOTIFY inside a transaction takes a lock that serialises all commits of the
        # database.
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(f"SELECT {', '.join([f'{function}(%s, %s)'] * len(types))}", _pairs(types))
        except Exception:  # the job is committed; its caller must not see an error for a lost wake-up
            logger.warning("NOTIFY failed on %s; workers will find the job by polling", self.using, exc_info=True)


def _pairs(types: list[str]) -> list[str]:
    return [each for type in types for each in (CHANNEL, type)]
