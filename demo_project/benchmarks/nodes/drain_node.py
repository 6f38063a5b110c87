"""One node of a drain by several processes: an executor, or the raw loop, in a process of its own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

from jobexec.executor.job_executor import JobExecutor
from jobexec.runtime.threads import spawn

from ..kinds import is_async, working
from ..noop import Ledger, registered_as
from ..raw.drain import Loop, Seen, calling, check_loops
from ..raw.on_event_loop import EventLoop
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
            _ours(line, order["alias"], order.get("kind"))
        elif order.get("kind"):
            _raw_at_work(line, order["alias"], order["page"], order["kind"], settings.threads)
        else:
            _raw(line, order["alias"], order["page"])


def _ours(line: Line, alias: str, kind: str | None) -> None:
    ran: list[int] = []
    with working(kind, alias, ran.append) if kind else nullcontext(ran.append) as run, registered_as(alias, run):
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
        cpu = _work(line, [loop], seen.ids)
    line.send(ran=[str(each) for each in seen.ids], cpu=cpu)


def _raw_at_work(line: Line, alias: str, page: int, kind: str, threads: int) -> None:
    """As many loops as an executor has threads, or an event loop if the work is asynchronous."""
    ran: list[int] = []
    stopping = threading.Event()
    with ExitStack() as stack:
        run = stack.enter_context(working(kind, alias, ran.append))
        opened = [stack.enter_context(RawConnection(alias)) for _ in range(1 if is_async(kind) else threads)]
        queues = [RawQueue(alias, each, page) for each in opened]
        loops: list[Loop]
        if is_async(kind):
            loops = [EventLoop(queue, run, page) for queue in queues]
        else:  # the connections of the jobs stay until all is measured
            loops = [Loop(queue, calling(run), stopping.wait) for queue in queues]
        cpu = _work(line, loops, ran, stopping)
    line.send(ran=ran, cpu=cpu)


def _work(line: Line, loops: Sequence[Loop], ran: Sequence[Any], stopping: threading.Event | None = None) -> float:
    """Let the loops run from ``go`` to ``stop``; returns seconds of CPU."""
    cpu = _wait_for_go(line)
    threads = [spawn(f"jobbench-raw-{number}", loop) for number, loop in enumerate(loops, start=1)]
    line.tell_until_called(lambda: len(ran), _TURN)
    if stopping is not None:
        stopping.set()
    for thread in threads:
        thread.join()
    cpu = time.process_time() - cpu
    check_loops(loops)
    return cpu


def _wait_for_go(line: Line) -> float:
    line.send(ready=os.getpid())
    line.receive(_FOREVER)
    return time.process_time()
