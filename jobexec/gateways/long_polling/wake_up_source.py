"""How each database notifies this process of external jobs that other processes commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from django.db import connections

from jobexec.conf import EngineSettings, get_settings
from jobexec.operations.notify.wake_workers import CHANNEL
from jobexec.operations.sql.dialect import dialect_of
from jobexec.runtime.notifications import Listener

_TURN = 0.01  # seconds between two reads of SQLite's commit counter while a request waits


class _Engine(NamedTuple):
    using: str
    engine: EngineSettings


class WakeUpSource:
    """A :class:`~jobexec.runtime.wake_up.Source` without notifications (MariaDB, MySQL): the watch has to poll."""

    @property
    def listening(self) -> bool:
        """Whether notifications from other processes are being received."""
        return False

    @property
    def hears_this_process(self) -> bool:
        """Whether this process also receives its own notifications."""
        return False

    def attend(self) -> None:
        """Prepare to receive notifications, or raise the error that prevents it. Called by the waiting thread."""

    def fileno(self) -> int | None:
        return None

    def turn(self) -> float | None:
        return None

    def ask(self) -> None:
        return None

    def close(self) -> None:
        """Release the connection."""


class NotificationSource(WakeUpSource):
    """PostgreSQL: LISTEN on a dedicated connection."""

    def __init__(self, using: str, heard: Callable[[str], object]) -> None:
        self._listener = _WorkerListener(_Engine(using, get_settings().engine(using)), heard)

    @property
    def listening(self) -> bool:
        return self._listener.listening

    @property
    def hears_this_process(self) -> bool:
        return self._listener.listening

    def attend(self) -> None:
        self._listener.run_once()

    def fileno(self) -> int | None:
        return self._listener.fileno()

    def ask(self) -> None:
        self._listener.ask()

    def close(self) -> None:
        self._listener.stop(0)


class _WorkerListener(Listener):
    channel: ClassVar[str] = CHANNEL


class CommitCounterSource(WakeUpSource):
    """SQLite: reads the commit counter, and calls ``changed`` whenever another connection has committed."""

    def __init__(self, using: str, changed: Callable[[], object], wanted: Callable[[], bool]) -> None:
        self._using, self._changed, self._wanted = using, changed, wanted
        self._connection: Any = None
        self._version: int | None = None
        self._error: BaseException | None = None

    @property
    def listening(self) -> bool:
        return self._error is None

    def attend(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error  # occurred while waiting; the loop logs it and pauses

    def turn(self) -> float | None:
        return _TURN if self._wanted() and self._error is None else None

    def ask(self) -> None:
        try:
            if self._has_changed():
                self._changed()
        except Exception as error:
            self._error = error
            self._connection = None

    def _has_changed(self) -> bool:
        wrapper: Any = connections[self._using]
        wrapper.ensure_connection()
        if wrapper.connection is not self._connection:  # versions of different connections are not comparable
            self._connection, self._version = wrapper.connection, None
        before, self._version = self._version, self._connection.execute("PRAGMA data_version").fetchone()[0]
        return self._version != before


def source_of(
    using: str, heard: Callable[[str], object], changed: Callable[[], object], wanted: Callable[[], bool]
) -> WakeUpSource:
    """Choose the source of notifications for this database.

    ``heard`` is called with a type, or "" for any type. ``changed`` is called without arguments, so the watch has to
    look for jobs. ``wanted`` returns whether any request waits.
    """
    connection: Any = connections[using]
    if get_settings().engine(using).notify:
        spelled = dialect_of(connection)
        if spelled.notify is not None:
            return NotificationSource(using, heard)
        if spelled.counts_commits(connection):
            return CommitCounterSource(using, changed, wanted)
    return WakeUpSource()
