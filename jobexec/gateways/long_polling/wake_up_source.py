"""How word of external jobs comes from other processes: what each database offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from django.db import connections

from jobexec.conf import EngineSettings, get_settings
from jobexec.operations.notify.wake_workers import CHANNEL
from jobexec.operations.sql.dialect import dialect_of
from jobexec.runtime.notifications import Listener

_TURN = 0.01  # seconds between two looks at SQLite's counter of commits, while somebody waits


class _Engine(NamedTuple):
    using: str
    engine: EngineSettings


class Ear:
    """A :class:`~jobexec.runtime.wake_up.Source` that hears nothing (MariaDB, MySQL): one has to look."""

    @property
    def listening(self) -> bool:
        """Whether other processes are heard now."""
        return False

    @property
    def hears_this_process(self) -> bool:
        """Whether what this process says comes back as a notification."""
        return False

    def attend(self) -> None:
        """Be ready to hear; raises what keeps it from that. Called by the thread that waits."""

    def fileno(self) -> int | None:
        return None

    def turn(self) -> float | None:
        return None

    def ask(self) -> None:
        return None

    def close(self) -> None:
        """Give up what was opened."""


class NotificationEar(Ear):
    """PostgreSQL: LISTENs on a connection of its own."""

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


class CommitEar(Ear):
    """SQLite: looks at the counter of commits, and whenever another connection has committed calls ``changed``."""

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
            raise error  # met while waiting; the loop tells, and pauses

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
        if wrapper.connection is not self._connection:  # versions of two connections cannot be compared
            self._connection, self._version = wrapper.connection, None
        before, self._version = self._version, self._connection.execute("PRAGMA data_version").fetchone()[0]
        return self._version != before


def ear_of(
    using: str, heard: Callable[[str], object], changed: Callable[[], object], wanted: Callable[[], bool]
) -> Ear:
    """What hears other processes on this database. ``heard`` gets a type, or "" for any; ``changed`` gets nothing: one
    has to look. ``wanted``: whether anybody waits."""
    connection: Any = connections[using]
    if get_settings().engine(using).notify:
        spelled = dialect_of(connection)
        if spelled.notifies:
            return NotificationEar(using, heard)
        if spelled.counts_commits(connection):
            return CommitEar(using, changed, wanted)
    return Ear()
