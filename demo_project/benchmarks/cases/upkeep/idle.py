"""An executor with nothing to do: what it asks the database, and what it costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

from django.db.backends.signals import connection_created

from jobexec.executor.job_executor import JobExecutor
from jobexec.operations.notify.wake import CHANNEL
from jobexec.runtime.threads import spawn

from ...case import Case, Contenders
from ...measure import Sample, Stopwatch
from ...raw.queue import RawQueue
from ...raw.sql import RawConnection
from ...report import Shown
from ...sampler import Sampler, memory

_SETTLED = 1.0
_TURN = 0.5


class Statements:
    """Counts the statements of every connection that Django makes while it listens; BEGIN and COMMIT do not count."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        self.count += 1
        return execute(sql, params, many, context)

    def _made(self, connection: Any, **more: Any) -> None:
        if self not in connection.execute_wrappers:  # it may have been closed and connected again
            connection.execute_wrappers.append(self)

    @contextmanager
    def of_new_connections(self) -> Iterator[None]:
        """Count those of the connections that are made during the block."""
        connection_created.connect(self._made)
        try:
            yield
        finally:
            connection_created.disconnect(self._made)


class Idle(Case):
    """``--seconds`` in which no job comes; the first second of an executor, with its registration, is not counted.

    The raw loop listens and looks at the table after each MAX_WAIT_WHEN_LISTENING, or each MAX_WAIT where it polls.
    """

    name: ClassVar[str] = "idle"
    summary: ClassVar[str] = "an executor with nothing to do: queries, CPU and memory, against a loop that listens"
    default_jobs: ClassVar[int] = 1
    default_repeat: ClassVar[int] = 1
    unit: ClassVar[str] = "queries/s"
    counted: ClassVar[tuple[str, str]] = ("second", "seconds")
    shown = Shown(
        {"cpu": "%", "server_cpu": "%", "memory": "MB", "memory_growth": "MB"},
        across="seconds",
        up="queries in each second",
    )

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "raw": self.raw}

    def value(self, sample: Sample) -> float:
        return sample.figures["queries"] / sample.seconds

    @property
    def _seconds(self) -> int:
        return int(self.plan.options["seconds"])

    def ours(self) -> Sample:
        statements = Statements()
        executor = JobExecutor(self.plan.settings)
        with statements.of_new_connections():
            try:
                executor.start()
                time.sleep(_SETTLED)
                return self._watched(lambda: statements.count)
            finally:
                executor.stop()

    def raw(self) -> Sample:
        loop = _Listening(self.plan.alias, self._longest(), self.plan.listens)
        try:
            return self._watched(lambda: loop.count, loop.start)
        finally:
            loop.stop()

    def _longest(self) -> float:
        engine = self.plan.settings.engine(self.plan.alias)
        return (engine.max_wait_when_listening if self.plan.listens else engine.max_wait).total_seconds()

    def _watched(self, count: Callable[[], int], start: Callable[[], None] = lambda: None) -> Sample:
        began = time.monotonic()
        self.progress.follow(lambda: int(time.monotonic() - began), self._seconds)
        before = count()
        with Stopwatch(self.plan.alias) as watch, Sampler(count, 1.0) as queries, Sampler(memory, 1.0) as sizes:
            start()
            time.sleep(self._seconds)
        sample = watch.sample(self._seconds)
        figures = {
            "queries": float(count() - before),
            "cpu": 100 * sample.cpu / sample.seconds,
            "memory": sizes.values[-1],
            "memory_growth": sizes.values[-1] - sizes.values[0],
        }
        if sample.server is not None:
            figures["server_cpu"] = 100 * sample.server / sample.seconds
        counts = queries.values
        steps = tuple(later - earlier for earlier, later in pairwise(counts))
        return replace(sample, figures=figures, timeline=steps)


class _Listening:
    """The smallest loop that would find a job."""

    def __init__(self, alias: str, longest: float, listens: bool) -> None:
        self._alias, self._longest, self._listens = alias, longest, listens
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.count = 0

    def start(self) -> None:
        self._thread = spawn("jobbench-raw", self._run)

    def stop(self) -> None:
        self._stopping.set()
        if self._thread:
            self._thread.join()

    def _run(self) -> None:
        with RawConnection(self._alias) as connection:
            queue = RawQueue(self._alias, connection, 1)
            if self._listens:
                connection.execute(f"LISTEN {CHANNEL}")
            while not self._stopping.is_set():
                queue.lock()
                self.count += 1
                self._pause(connection)

    def _pause(self, connection: RawConnection) -> None:
        end = time.monotonic() + self._longest
        while (left := end - time.monotonic()) > 0 and not self._stopping.is_set():
            if not self._listens:
                self._stopping.wait(left)
            elif any(True for _ in connection.driver.notifies(timeout=min(left, _TURN), stop_after=1)):
                return
