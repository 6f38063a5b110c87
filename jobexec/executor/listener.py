"""Hears PostgreSQL's notifications; without it polling suffices, only later."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.db import connections

from jobexec.operations.wake import CHANNEL

from .connections import is_behind_pooler
from .node import Node
from .service import Loop, logger

_TURN = 0.5  # how long a stop may have to wait; no query is sent
_NEXT_LOOK = 60.0  # where a pooler was, a server may be one day

#: Who only listens learns nothing of a network that dies without a word, for hours: the system has to ask. Seconds, and
#: the last one milliseconds. What OPTIONS say goes before.
_PATIENCE = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}


class Listener(Loop):
    """Keeps a connection of its own that LISTENs, and calls ``heard`` for each notification.

    The connection is made outside Django's handling, so that nothing closes it between jobs. It goes to
    LISTEN_DATABASE if that is set: LISTEN does not work through PgBouncer in transaction mode. Where the connection
    turns out to go to a pooler, nobody listens and the loops poll.
    """

    def __init__(self, node: Node, heard: Callable[[], None]) -> None:
        super().__init__(f"jobexec-listener-{node.using}")
        self._alias = node.engine.listen_database or node.using
        self._heard = heard
        self._connection: Any = None
        self._pooler_told = False

    @property
    def listening(self) -> bool:
        """Whether notifications arrive now; while they do, idle loops may wait longer."""
        return self._connection is not None

    def run_once(self) -> float:
        try:
            if self._connection is None:
                self._connection = self._connect()
                if self._connection is None:
                    return _NEXT_LOOK
                self._heard()  # whatever was said while nobody listened
            for _ in self._connection.notifies(timeout=_TURN, stop_after=1):
                self._heard()
        except BaseException:
            deaf = self._connection is not None
            self._close()
            if deaf:
                self._heard()  # whoever waits long because we listen must begin to poll
            raise
        return 0.0

    def stop(self, timeout: float) -> bool:
        stopped = super().stop(timeout)
        if stopped:
            self._close()
        return stopped

    def _connect(self) -> Any:
        """A connection that listens; None if it would go to a pooler."""
        from psycopg import Connection  # only where PostgreSQL is used

        parameters = connections[self._alias].get_connection_params()
        connection = Connection.connect(**_PATIENCE | parameters | {"autocommit": True})
        try:
            if not is_behind_pooler(connection):
                connection.execute(f"LISTEN {CHANNEL}")
                return connection
        except BaseException:
            connection.close()
            raise
        # LISTEN would stay behind on a server process that others use next.
        connection.close()
        self._tell_of_the_pooler()
        return None

    def _tell_of_the_pooler(self) -> None:
        if not self._pooler_told:
            logger.warning(
                "The database %r is behind a connection pooler, where LISTEN hears nothing: jobs are found by polling. "
                "Name an alias with a direct connection in LISTEN_DATABASE, or set NOTIFY to False.",
                self._alias,
            )
        self._pooler_told = True

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()
