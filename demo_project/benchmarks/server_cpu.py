"""The CPU time that the database server spends on connections, where the operating system tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.db import DatabaseError, connections

_SERVERS = ("postgres", "mariadbd", "mysqld")
_HERE = ("", "localhost", "127.0.0.1", "::1")
#: All that work in this connection's database.
_ALL = {
    "PostgreSQL": "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
    "AND backend_type IN ('client backend', 'parallel worker')",
    "MariaDB": "SELECT tid FROM information_schema.processlist WHERE db = DATABASE()",
    "MySQL": "SELECT thread_os_id FROM performance_schema.threads WHERE processlist_db = DATABASE()",
}
_POSTGRESQL = "SELECT pg_backend_pid()"
_MARIADB = "SELECT tid FROM information_schema.processlist WHERE id = CONNECTION_ID()"
_MYSQL = "SELECT thread_os_id FROM performance_schema.threads WHERE processlist_id = CONNECTION_ID()"


class ServerThread:
    """The thread (MariaDB, MySQL) or process (PostgreSQL) of the server that serves a connection."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of(cls, alias: str) -> ServerThread | None:
        """The one behind this thread's connection; None if the server is elsewhere or does not say."""
        connection: Any = connections[alias]
        host = str(connection.settings_dict["HOST"])
        if host not in _HERE and not host.startswith("/"):
            return None
        number = _ask(connection)
        if not number or _process_of(number) not in _SERVERS:  # behind a pooler it may be no number of a process
            return None
        found = cls(_schedule_of(number))
        return found if found.seconds() is not None else None

    def seconds(self) -> float | None:
        """What it has used since it began; None if it has ended."""
        try:
            return int(self._path.read_text().split()[0]) / 1e9
        except (OSError, ValueError, IndexError):
            return None


class ServerCpu:
    """What the server spends on all connections to one database, from :meth:`start` to the last :meth:`look`."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._before: dict[int, float] = {}
        self._now: dict[int, float] = {}
        self._readable = False

    def start(self) -> None:
        """From here on it counts."""
        self._readable = ServerThread.of(self._alias) is not None
        self._now = {}
        if self._readable:
            self._before = _times(self._numbers() | _siblings(_ask(connections[self._alias])))

    def look(self) -> None:
        """Read how far they are; what a connection has used that is closed before the next look is not known."""
        if self._readable:
            self._now |= _times(self._numbers())

    @property
    def seconds(self) -> float | None:
        """What was used; None if the server is elsewhere, or in this process (SQLite), or does not tell."""
        if not self._readable:
            return None
        return sum(max(0.0, now - self._before.get(number, 0.0)) for number, now in self._now.items())

    def _numbers(self) -> set[int]:
        connection: Any = connections[self._alias]
        is_mariadb = connection.vendor == "mysql" and connection.mysql_is_mariadb
        with connection.cursor() as cursor:
            cursor.execute(_ALL["MariaDB" if is_mariadb else connection.display_name])
            return {int(row[0]) for row in cursor.fetchall() if row[0]}


def _siblings(thread: int) -> set[int]:
    """The threads of this thread's process: one that is idle now may serve a connection of ours later."""
    try:
        return {int(path.name) for path in Path(f"/proc/{thread}/task").iterdir()}
    except OSError:
        return set()


def _times(numbers: set[int]) -> dict[int, float]:
    found = {number: ServerThread(_schedule_of(number)).seconds() for number in numbers}
    return {number: seconds for number, seconds in found.items() if seconds is not None}


def _schedule_of(thread: int) -> Path:
    return Path(f"/proc/{thread}/task/{thread}/schedstat")


def _ask(connection: Any) -> int:
    if connection.vendor not in ("postgresql", "mysql"):
        return 0
    statement = _POSTGRESQL
    if connection.vendor == "mysql":
        statement = _MARIADB if connection.mysql_is_mariadb else _MYSQL
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            row = cursor.fetchone()
    except DatabaseError:
        return 0
    return int(row[0] or 0) if row else 0


def _process_of(thread: int) -> str:
    """The name of the process that this thread belongs to; '' if there is none on this machine."""
    try:
        fields = dict(line.split(":\t", 1) for line in Path(f"/proc/{thread}/status").read_text().splitlines())
        return Path(f"/proc/{int(fields['Tgid'])}/comm").read_text().strip()
    except (OSError, ValueError, KeyError):
        return ""
