"""What one node's acquisition does, round by round, seen from where it asks its waiting strategy."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

from django.db import connections

from jobexec import clock
from jobexec.executor.waiting import Round, Strategy, Waiting

from ..server_cpu import ServerThread


class RoundRecord(NamedTuple):
    """One round that asked the database: when it ended (monotonic clock) and what it brought."""

    at: float
    requested: int
    found: int
    acquired: int
    lock_failures: int
    elapsed: float


class StatementClock:
    """Counts and times the statements of one connection; an ``execute_wrapper``. BEGIN and COMMIT do not pass here."""

    def __init__(self) -> None:
        self.count, self.seconds = 0, 0.0

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            self.seconds += time.perf_counter() - began
            self.count += 1


class Recorder(Waiting):
    """A strategy at work that also keeps what it is told.

    The thread that asks it first is the acquisition's: its statements are timed, and the server's CPU for its
    connection is read.
    """

    def __init__(self, alias: str, strategy: Strategy) -> None:
        super().__init__(strategy)
        self._alias = alias
        self.rounds: list[RoundRecord] = []
        self.statements = StatementClock()
        self._wrapped: ExitStack | None = None
        self._server: ServerThread | None = None
        self._server_before: float | None = None

    def page(self, base: int) -> int:
        if self._wrapped is None:
            self._attach()
        return super().page(base)

    def _attach(self) -> None:
        self._server = ServerThread.of(self._alias)
        self._server_before = self._server.seconds() if self._server else None
        self._wrapped = ExitStack()
        self._wrapped.enter_context(connections[self._alias].execute_wrapper(self.statements))

    def after(self, round: Round) -> float:
        if round.requested:
            # Without process instances each batch is one job.
            brought = (round.requested, round.found, round.batches, round.lock_failures)
            self.rounds.append(RoundRecord(clock.monotonic(), *brought, round.elapsed))
        return super().after(round)

    def server_cpu(self) -> float | None:
        """Seconds of the server's CPU for this connection; None if it does not tell. Ask while it is open."""
        now = self._server.seconds() if self._server else None
        return now - self._server_before if now is not None and self._server_before is not None else None
