"""Wake up executors, after commit, when there is work."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from jobexec.conf import get_settings

from ..sql.dialect import dialect_of
from ..sql.on_commit import Once, after_commit

logger = logging.getLogger("jobexec.wake")

CHANNEL = "jobexec_wake"

#: The subject of a wake-up: the content of a notification. Other releases may send less or other content, which means
#: everything.
JOBS, TIMERS, HISTORY, SCHEDULES, MESSAGES, EVERYTHING = "job", "timer", "history", "schedule", "message", ""
#: The subject of a wake-up for blocked jobs; ":" and the name of their resource follow if they are all of the same.
BLOCKED = "blocked"

_listeners: set[Callable[[str, str], None]] = set()


def add_listener(listener: Callable[[str, str], None]) -> None:
    """Call ``listener(using, content)`` in this process after each commit that added jobs, for an embedded executor;
    ``content`` is JOBS, TIMERS, HISTORY, SCHEDULES, MESSAGES, EVERYTHING, or begins with BLOCKED."""
    _listeners.add(listener)


def remove_listener(listener: Callable[[str, str], None]) -> None:
    """Undo :func:`add_listener`; unknown listeners are ignored."""
    _listeners.discard(listener)


def wake_on_commit(
    using: str, *, timers: bool = False, history: bool = False, schedules: bool = False, messages: bool = False
) -> None:
    """Wake the executors of this engine once the current transaction commits, once per transaction.

    For executable jobs, or for timers, history, schedules or messages (also for jobs that wait for one), which wake up
    only the loop that waits for them. Losing a
    wake-up only costs latency: polling always suffices. With a broker as dispatcher, the broker notifies other
    processes of jobs (:mod:`~jobexec.operations.notify.broker`), and the database of everything else.
    """
    subject = MESSAGES if messages else SCHEDULES if schedules else HISTORY if history else TIMERS if timers else JOBS
    _wake(using, subject)


def wake_for_resources(using: str, names: Iterable[str | None]) -> None:
    """Wake the loop that promotes blocked jobs, after the commit: these resources have new jobs, or new permits."""
    found = {name for name in names if name is not None}
    if found:
        _wake(using, f"{BLOCKED}:{found.pop()}" if len(found) == 1 else BLOCKED)


def _wake(using: str, content: str) -> None:
    connection = connections[using]
    pending = _once.waiting(connection)
    if pending is not None:
        pending.also(content)
        return
    after_commit(connection, _Wake(connection, content))


class _Wake:
    def __init__(self, connection: BaseDatabaseWrapper, content: str) -> None:
        self.connection, self.using, self.content = connection, connection.alias, content

    def also(self, content: str) -> None:
        """Add another subject to the wake-up."""
        if content != self.content:
            both = content.startswith(BLOCKED) and self.content.startswith(BLOCKED)
            self.content = BLOCKED if both else EVERYTHING

    def __call__(self) -> None:
        for listener in tuple(_listeners):
            try:
                listener(self.using, self.content)
            except Exception:  # the job is committed, and the other listeners must still be called
                logger.exception("A listener failed on %s", self.using)
        settings, spelled = get_settings(), dialect_of(self.connection)
        if spelled.notify is None or not settings.engine(self.using).notify:
            return
        if self.content != JOBS or settings.dispatch == "database":
            self._notify(*spelled.notification(CHANNEL, self.content))

    def _notify(self, statement: str, parameters: list[str] | None) -> None:
        # On its own, after the commit: NOTIFY inside a transaction takes a lock that serialises all commits of the
        # database.
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(statement, parameters)
        except Exception:  # the job is committed; its caller must not see an error for a lost wake-up
            logger.warning("NOTIFY failed on %s; executors will find the job by polling", self.using, exc_info=True)


_once = Once(_Wake)
