"""The smallest executor in raw SQL: a thread that listens or polls, locks, runs and deletes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType

from jobexec.operations.notify.wake import CHANNEL
from jobexec.runtime.threads import spawn

from ..measure import BenchError, Plan
from .queue import RawQueue
from .sql import RawConnection

_TURN = 0.2
_PATIENCE = 10.0


class RawWorker(AbstractContextManager["RawWorker"]):
    """Works during the ``with`` block; ``note`` gets the argument of each job when it begins."""

    def __init__(self, plan: Plan, note: Callable[[int], None]) -> None:
        self._plan, self._note = plan, note
        self.listens = plan.listens
        self._wait = plan.settings.engine(plan.alias).wait_time.total_seconds()
        self._ready, self._stopping = threading.Event(), threading.Event()
        self._busy = False
        self._error: Exception | None = None

    def __enter__(self) -> RawWorker:
        self._thread = spawn("jobbench-raw", self._work)
        self._ready.wait(_PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join(_PATIENCE)

    @property
    def idle(self) -> bool:
        """Nothing is in hand. Raises BenchError if the thread has died."""
        if self._error is not None:
            raise BenchError(f"The raw loop has failed: {self._error}") from self._error
        return not self._busy

    def _work(self) -> None:
        try:
            with RawConnection(self._plan.alias) as connection:
                queue = RawQueue(self._plan.alias, connection, self._plan.raw_page)
                if self.listens:
                    connection.execute(f"LISTEN {CHANNEL}")
                self._ready.set()
                while not self._stopping.is_set():
                    if not self._run_page(queue):
                        self._pause(connection)
        except Exception as error:
            self._error = error
            self._ready.set()

    def _run_page(self, queue: RawQueue) -> bool:
        rows = queue.lock()
        self._busy = bool(rows)
        for row in rows:
            self._note(json.loads(row[2])["args"][0])
        if rows:
            queue.settle([row[0] for row in rows])
        self._busy = False
        return bool(rows)

    def _pause(self, connection: RawConnection) -> None:
        if self.listens:
            for _ in connection.driver.notifies(timeout=_TURN, stop_after=1):
                pass
        else:
            self._stopping.wait(self._wait)
