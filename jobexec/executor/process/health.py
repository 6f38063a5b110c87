"""The health of an executor: the answers to its probes, and the thread that reports them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jobexec import clock

from ...runtime.threads import Loop
from ..engine import Engine
from ..job_executor import JobExecutor
from .report import Report

#: How many seconds a round of a loop may take while the database answers other loops. As long as a migration may hold a
#: lock on a table of jobs: a process that waits for that must not be killed.
_STALLED = 300.0
#: How much longer than the grace period a drain may take: loops, settlement and leases have their own limits.
_DRAIN = 60.0


class Health:
    """The report of one executor. A database that is away makes it not ready, but never not alive.

    ``wish`` is set where a supervisor decides when the process is restarted.
    """

    def __init__(self, executor: JobExecutor) -> None:
        self._executor = executor
        self.started = False
        self.wish: str | None = None
        self._draining_since: float | None = None
        self._changed: Callable[[], object] = lambda: None

    def begin(self, changed: Callable[[], object]) -> None:
        """The executor has started; ``changed`` is called for news that cannot wait."""
        self.started, self._changed = True, changed
        changed()

    def ask(self, wish: str) -> None:
        """Ask the supervisor, if there is one, for a restart."""
        if wish != self.wish:
            self.wish = wish
            self._changed()

    def drain(self) -> None:
        """From now on no jobs are taken."""
        self._draining_since = clock.monotonic()
        self._changed()

    def report(self) -> Report:
        """The current report; reads memory only, no database."""
        ready = list(self._against_ready())
        return Report(
            startup=[] if self.started else ["the executor is starting"],
            ready=ready,
            live=list(self._against_live()),
            draining=self._draining_since is not None,
            status=f"Not ready: {'; '.join(ready)}" if ready else f"Ready: {', '.join(self._executor.engines)}",
            wish=self.wish,
            details=self._details(),
        )

    def _against_ready(self) -> Iterator[str]:
        if self._draining_since is not None:
            yield "draining"
        elif not self.started:
            yield "the executor is starting"
        elif not any(engine.node.good for engine in self._executor.engines.values()):
            yield "no engine holds a valid lease; does its database answer?"

    def _against_live(self) -> Iterator[str]:
        if self._draining_since is not None:
            grace = self._executor.settings.grace_period.total_seconds()
            if clock.monotonic() - self._draining_since > grace + _DRAIN:
                yield f"draining takes more than {grace + _DRAIN:.0f} s"
        elif self.started:
            for engine in self._executor.engines.values():
                yield from _engine_stands_still(engine)
            if not self._executor.pool.alive:
                yield "no worker thread is left"

    def _details(self) -> dict[str, Any]:
        executor = self._executor
        return {
            "node": executor.node_name,
            "pid": os.getpid(),
            **executor.pool.load(),
            "async_jobs": executor.pool.async_jobs,
            "done_jobs": executor.pool.done,
            "engines": {alias: _lease(engine) for alias, engine in executor.engines.items()},
        }


def _lease(engine: Engine) -> dict[str, Any]:
    return {"lease_holds": engine.node.good, "lease_seconds_left": round(engine.node.lease_left, 1)}


def _engine_stands_still(engine: Engine) -> Iterator[str]:
    acquisitions = engine.acquisitions.values()
    loops: list[Loop] = [engine.heartbeat, *acquisitions, engine.timers, engine.recovery]
    # These are only checked for having ended: some rounds use no database, some wait for the project's code.
    others: list[Loop] = [engine.suspensions, engine.history, engine.cleanup, engine.meters]
    yield from (f"the thread {loop.name} has ended" for loop in [*loops, *others] if not loop.alive)
    if not all(settlement.alive for settlement in engine.settlements):
        yield f"the settlement of {engine.using} has ended"
    # A round may take as long as its database is away. If other loops got their answers, it is not the database.
    answered = max(loop.succeeded_at for loop in loops)
    for loop in (engine.heartbeat, *acquisitions):
        began = loop.round_began
        if began is not None and answered - began > _STALLED:
            yield f"the thread {loop.name} has been blocked for {clock.monotonic() - began:.0f} s"


class Reporter(Loop):
    """Passes the report to each of ``listeners``, every ``interval`` seconds and when woken up."""

    def __init__(self, health: Health, listeners: Sequence[Callable[[Report], object]], interval: float) -> None:
        super().__init__("jobexec-health")
        self._health, self._listeners, self._interval = health, listeners, interval

    def run_once(self) -> float:
        report = self._health.report()
        for tell in self._listeners:
            tell(report)
        return self._interval
