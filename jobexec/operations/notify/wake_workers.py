"""Tell those who wait for external jobs, after commit, of which types there are some."""

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

logger = logging.getLogger("jobexec.wake")

CHANNEL = "jobexec_external"
"""Of the notifications on PostgreSQL; a notification's content is a type, or nothing for any type."""

#: Gateways ask every ten seconds when the next job of a type comes; of one that comes sooner they have to be told.
SOON = timedelta(seconds=15)

_MANY = 20  # types in one transaction: rather one notification that is about every type

_listeners: set[Callable[[str, frozenset[str]], None]] = set()
#: Where the last notice stands among what a connection calls after its commit. A transaction may have very many
#: callbacks; looking through them for each of its jobs would take forever.
_places: WeakKeyDictionary[BaseDatabaseWrapper, int] = WeakKeyDictionary()


def add_worker_listener(listener: Callable[[str, frozenset[str]], None]) -> None:
    """Call ``listener(using, types)`` in this process after each commit that made external jobs available.

    No types at all means any. It is called by the thread that commits, so it must not wait nor fail.
    """
    _listeners.add(listener)


def remove_worker_listener(listener: Callable[[str, frozenset[str]], None]) -> None:
    """Undo :func:`add_worker_listener`; unknown listeners are ignored."""
    _listeners.discard(listener)


def wake_workers_on_commit(using: str, types: Iterable[str]) -> None:
    """Wake the gateways that have workers waiting for these types, once the current transaction commits.

    Losing the wake-up costs latency only: gateways look from time to time. What a rolled back savepoint takes away was
    also what its callback was for.
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
    connection.on_commit(_Wake(connection, named), robust=True)


def _pending(connection: BaseDatabaseWrapper) -> _Wake | None:
    """The last notice, if it goes with the same savepoints as one that would be made now.

    Others are called after the commit, too, and may have come after it: the receivers of the signal ``job_created``.
    """
    waiting: Any = connection.run_on_commit
    # The last callback, if savepoints that were rolled back have moved the others.
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
            except Exception:  # the job is committed, and the other listeners want to know
                logger.exception("A listener failed on %s", self.using)
        if dialect_of(self.connection).notifies and get_settings().engine(self.using).notify:
            self._notify(sorted(types) or [""])

    def _notify(self, types: list[str]) -> None:
        # After the commit and on its own: NOTIFY inside a transaction takes a lock that serialises all commits of the
        # database.
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(f"SELECT {', '.join(['pg_notify(%s, %s)'] * len(types))}", _pairs(types))
        except Exception:  # the job is committed; whoever made it must not see an error for a lost wake-up
            logger.warning("NOTIFY failed on %s; workers will find the job by polling", self.using, exc_info=True)


def _pairs(types: list[str]) -> list[str]:
    return [each for type in types for each in (CHANNEL, type)]
