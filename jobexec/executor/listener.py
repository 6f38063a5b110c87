"""Hears PostgreSQL's notifications; without it polling suffices, only later."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.db import connections

from jobexec.operations.wake import CHANNEL

from .node import Node
from .service import Loop

_TURN = 0.5  # how long a stop may have to wait; no query is sent


class Listener(Loop):
    """Keeps a connection of its own that LISTENs, and calls ``heard`` for each notification.

    The connection is made outside Django's handling, so that nothing closes it between jobs. It goes to
    LISTEN_DATABASE if that is set: LISTEN does not work through PgBouncer in transaction mode.
    """

    def __init__(self, node: Node, heard: Callable[[], None]) -> None:
        super().__init__(f"jobexec-listener-{node.using}")
        self._alias = node.engine.listen_database or node.using
        self._heard = heard
        self._connection: Any = None

    @property
    def listening(self) -> bool:
        """Whether notifications arrive now; while they do, idle loops may wait longer."""
        return self._connection is not None

    def run_once(self) -> float:
        try:
            if self._connection is None:
                self._connection = self._connect()
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
        from psycopg import Connection  # only where PostgreSQL is used

        parameters = connections[self._alias].get_connection_params()
        connection = Connection.connect(**parameters | {"autocommit": True})
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()
