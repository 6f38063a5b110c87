"""Receives PostgreSQL's notifications; without them polling suffices, only later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, Protocol

from django.db import connections

from jobexec.conf import EngineSettings
from jobexec.operations.notify.wake import CHANNEL, EVERYTHING
from jobexec.operations.sql.dialect import dialect

from .threads import Loop, logger

_NEXT_LOOK = 60.0  # a pooler may be replaced by a server one day

#: A connection that only listens does not notice a dead network for hours: the operating system must check it. Seconds,
#: the last one milliseconds. Values in OPTIONS take precedence.
_PATIENCE = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}


class ListenTarget(Protocol):
    """The database to listen to: a node, or another user of its notifications."""

    @property
    def using(self) -> str: ...

    @property
    def engine(self) -> EngineSettings: ...


class Listener(Loop):
    """Keeps a separate connection that LISTENs; the acquisition waits on it, and ``heard`` gets each notification.

    The connection is made outside Django's handling, so that nothing closes it between jobs. It goes to LISTEN_DATABASE
    if that is set: LISTEN does not work through PgBouncer in transaction mode. If the connection turns out to go to a
    pooler, there are no notifications and the loops poll.

    This thread only connects. The acquiring thread reads it as a :class:`~jobexec.runtime.wake_up.Source`, so that its
    next statement answers a notification: passing one from thread to thread would take longer than looking for the job.
    """

    channel: ClassVar[str] = CHANNEL

    def __init__(self, place: ListenTarget, heard: Callable[[str], object]) -> None:
        super().__init__(f"jobexec-listener-{place.using}")
        self._alias = place.engine.listen_database or place.using
        self._heard = heard
        self._connection: Any = None
        self._descriptor: int | None = None
        #: No thread may close the connection while another reads from it.
        self._reading = threading.Lock()
        self._error: BaseException | None = None
        self._pooler_told = False

    @property
    def listening(self) -> bool:
        """Whether notifications arrive now; while they do, idle loops may wait longer."""
        return self._connection is not None

    # Run by the loop's thread.

    def run_once(self) -> float:
        error, self._error = self._error, None
        if error is not None:
            raise error  # another thread met it; this one logs it and tries again
        if self._connection is None:
            connection = self._connect()
            if connection is None:
                return _NEXT_LOOK
            with self._reading:
                self._connection, self._descriptor = connection, connection.fileno()
            self._heard(EVERYTHING)  # for notifications missed while not listening
        return _NEXT_LOOK

    def stop(self, timeout: float) -> bool:
        stopped = super().stop(timeout)
        if stopped:
            self._close()
        return stopped

    # Called by the waiting thread (Source).

    def fileno(self) -> int | None:
        return self._descriptor

    def turn(self) -> None:
        """None: asked only when there is something to read, or the connection has broken."""

    def ask(self) -> None:
        try:
            contents = self._read()
        except Exception as error:
            self._error = error
            self._close()
            self.wake()
            contents = {EVERYTHING}  # loops that wait long because we listen must begin to poll
        for content in contents:
            self._heard(content)

    def _read(self) -> set[str]:
        """The notifications since the last call; never waits."""
        with self._reading:
            if self._connection is None:
                return set()
            raw = self._connection.pgconn
            raw.consume_input()
            contents = set()
            while (notification := raw.notifies()) is not None:
                contents.add(notification.extra.decode(errors="replace"))
            return contents

    def _connect(self) -> Any:
        """A connection that listens; None if it would go to a pooler."""
        from psycopg import Connection  # only where PostgreSQL is used

        parameters = connections[self._alias].get_connection_params()
        connection = Connection.connect(**_PATIENCE | parameters | {"autocommit": True})
        try:
            if not dialect(self._alias).is_behind_pooler(connection):
                connection.execute(f"LISTEN {self.channel}")
                return connection
        except BaseException:
            connection.close()
            raise
        # LISTEN would stay active on a server process that other clients use next.
        connection.close()
        self._tell_of_the_pooler()
        return None

    def _tell_of_the_pooler(self) -> None:
        if not self._pooler_told:
            logger.warning(
                "The database %r is behind a connection pooler, where LISTEN receives nothing; jobs are found "
                "by polling. Name an alias with a direct connection in LISTEN_DATABASE, or set NOTIFY to False.",
                self._alias,
            )
        self._pooler_told = True

    def _close(self) -> None:
        with self._reading:
            connection, self._connection, self._descriptor = self._connection, None, None
            if connection is not None:
                with suppress(Exception):
                    connection.close()
