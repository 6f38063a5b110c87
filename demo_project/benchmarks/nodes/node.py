"""One node: an executor in a process of its own, started and heard by the benchmark."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import DatabaseError

from jobexec import clock
from jobexec.exceptions import JobExecError
from jobexec.executor.job_executor import JobExecutor
from jobexec.executor.waiting import strategy_of
from jobexec.handlers import registry
from jobexec.handlers.decorator import job
from jobexec.handlers.function import JobFunction

from ..noop import CATEGORY, HANDLER_PREFIX
from ..sandbox import build_settings, overridden
from . import external_node
from .drain_node import drain
from .line import Line, LineCut
from .recorder import Recorder

_FOREVER = 3600.0


@contextmanager
def sleeping_job(alias: str, note: Callable[[int], None]) -> Iterator[JobFunction[[int, float], None]]:
    """A job that sleeps for as many milliseconds as it is told, known to this process during the block only."""
    with registry.isolated():

        @job(name=f"{HANDLER_PREFIX}sleep", category=CATEGORY, atomic=False, database=alias)
        def sleep(number: int, milliseconds: float) -> None:
            time.sleep(milliseconds / 1000)
            note(number)

        yield sleep


def serve(descriptor: int) -> None:
    """Be a node: get settings, say that we are ready, work from ``go`` to ``stop``, report.

    Ends in order, too, when the benchmark is gone.
    """
    line = Line.inherited(descriptor)
    try:
        order = _next(line)
        if order["role"] == "cluster":
            _work(line, order["alias"], order["overrides"])
        elif order["role"] == "external":
            external_node.serve(line, order)
        else:
            drain(line, order)
    except LineCut:
        return
    except Exception as error:
        with suppress(LineCut):
            line.send(error=f"{type(error).__name__}: {error}")
        if not isinstance(error, DatabaseError | JobExecError):
            raise
        sys.exit(1)
    finally:
        line.close()


def _work(line: Line, alias: str, overrides: dict[str, Any]) -> None:
    ended: list[tuple[int, float]] = []
    settings = build_settings(alias, **overrides)
    with overridden(settings), sleeping_job(alias, lambda number: ended.append((number, clock.monotonic()))):
        executor = JobExecutor(settings)
        recorder = Recorder(alias, strategy_of(settings.engine(alias)))
        for acquisition in executor.engines[alias].acquisitions.values():
            acquisition.waiting = recorder
        line.send(ready=os.getpid())
        _next(line)  # go
        cpu_before = time.process_time()
        try:
            executor.start()
            line.tell_until_called(lambda: len(ended))
            server_cpu = recorder.server_cpu()  # before its connection is closed
        finally:
            executor.stop()
        line.send(
            ended=ended,
            rounds=recorder.rounds,
            statements=recorder.statements.count,
            statement_seconds=recorder.statements.seconds,
            cpu=time.process_time() - cpu_before,
            server_cpu=server_cpu,
        )


def _next(line: Line) -> dict[str, Any]:
    return line.receive(_FOREVER) or {}
