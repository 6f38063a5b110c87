"""One node of a drain by several processes: an executor, or the raw loop, in a process of its own."""

from __future__ import annotations

import os
import time
from typing import Any

from jobexec.executor.job_executor import JobExecutor
from jobexec.runtime.threads import spawn

from ..noop import Ledger, registered
from ..raw.drain import Loop, Seen, check_loops
from ..raw.queue import RawQueue
from ..raw.sql import RawConnection
from ..sandbox import build_settings, overridden
from .line import Line

_TURN = 0.01
_FOREVER = 3600.0


def drain(line: Line, order: dict[str, Any]) -> None:
    """Say that we are ready, work from ``go`` to ``stop``, report what ran and the CPU that it took."""
    settings = build_settings(order["alias"], **order["overrides"])
    with overridden(settings):
        if order["role"] == "ours":
            _ours(line, order["alias"])
        else:
            _raw(line, order["alias"], order["page"])


def _ours(line: Line, alias: str) -> None:
    ran: list[int] = []
    with registered(alias, ran.append):
        executor = JobExecutor()
        cpu = _wait_for_go(line)
        try:
            executor.start()
            line.tell_until_called(lambda: len(ran), _TURN)
            cpu = time.process_time() - cpu
        finally:
            executor.stop()
    line.send(ran=ran, cpu=cpu)


def _raw(line: Line, alias: str, page: int) -> None:
    seen = Seen(Ledger(0))
    with RawConnection(alias) as connection:
        loop = Loop(RawQueue(alias, connection, page), seen.no_op)
        cpu = _wait_for_go(line)
        thread = spawn("jobbench-raw", loop)
        line.tell_until_called(lambda: len(seen.ids), _TURN)
        thread.join()
        cpu = time.process_time() - cpu
    check_loops([loop])
    line.send(ran=[str(each) for each in seen.ids], cpu=cpu)


def _wait_for_go(line: Line) -> float:
    line.send(ready=os.getpid())
    line.receive(_FOREVER)
    return time.process_time()
