"""The CPU time that the database server spends on one connection, where the operating system tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.db import DatabaseError, connections

_SERVERS = ("postgres", "mariadbd", "mysqld")
_HERE = ("", "localhost", "127.0.0.1", "::1")
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
        found = cls(Path(f"/proc/{number}/task/{number}/schedstat"))
        return found if found.seconds() is not None else None

    def seconds(self) -> float | None:
        """What it has used since it began; None if it has ended."""
        try:
            return int(self._path.read_text().split()[0]) / 1e9
        except (OSError, ValueError, IndexError):
            return None


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
