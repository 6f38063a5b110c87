"""Execute jobs of one kind: tiny, computing, waiting, or querying."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

from .. import ours
from ..case import Case, Contenders
from ..kinds import Work, is_async, working
from ..measure import Sample, Stopwatch
from ..nodes.node_drain import drain_on_nodes
from ..noop import Ledger, fill, registered, registered_as
from ..raw import drain
from ..raw.on_event_loop import EventLoop, close_connection
from ..raw.queue import RawQueue
from ..raw.sql import RawConnection
from ..sandbox import tidy

_FEW = (1, 2, 5)


class Handlers(Case):
    """Jobs of one kind, with all threads and with fewer, or on several processes.

    The raw loops, as many as threads, lock small pages and call the same function for each row. With several processes
    each is an executor with all its threads, and against them stand as many processes with as many raw loops.
    Asynchronous handlers run on the event loop of the executor, against an event loop that locks and deletes.
    """

    name: ClassVar[str] = "handlers"
    summary: ClassVar[str] = "execute jobs that compute, write, wait or query, with all threads and with fewer"
    default_jobs: ClassVar[int] = 20_000

    def contenders(self) -> Contenders:
        if self.processes > 1 or is_async(self._kind):
            return {"ours": self.ours, "raw": self.raw}
        threads = self.plan.settings.threads
        numbers = [number for number in _FEW if number < threads]
        fewer = {f"ours, threads {number}": partial(self.ours, number) for number in numbers}
        return {"ours": self.ours, **fewer, "raw": self.raw}

    def facts(self) -> dict[str, Any]:
        return {"handler": self._kind, "processes": self.processes}

    @property
    def processes(self) -> int:
        """How many take part; 1 is this one."""
        return int(self.plan.options.get("processes") or 1)

    @property
    def _kind(self) -> str:
        return str(self.plan.options["handler"])

    @property
    def _raw_page(self) -> int:
        loops = self.processes * self.plan.settings.threads
        return max(1, min(self.plan.raw_page, self.plan.jobs // (4 * loops)))

    @contextmanager
    def _filled(self) -> Iterator[Ledger]:
        """The ledger of jobs that are in the table; at the end none may be there."""
        ledger = self.ledger()
        with registered(self.plan.alias, ledger.note) as handler:
            fill(handler, ledger.wanted)
        tidy(self.plan.alias)
        yield ledger
        ours.check_nothing_left(self.plan.alias)

    def _work(self, note: Callable[[int], None]) -> Any:
        return working(self._kind, self.plan.alias, note)

    def _on_nodes(self, role: str, ledger: Ledger) -> Sample:
        more = {"kind": self._kind, "page": self._raw_page}
        return drain_on_nodes(self.plan, role, self.processes, ledger, self.progress, **more)

    def ours(self, threads: int | None = None) -> Sample:
        settings = self.plan.settings.replace(threads=threads or self.plan.settings.threads)
        with self._filled() as ledger:
            if self.processes > 1:
                return self._on_nodes("ours", ledger)
            with self._work(ledger.note) as run, registered_as(self.plan.alias, run):
                return ours.execute(settings, self.plan.alias, ledger)

    def raw(self) -> Sample:
        with self._filled() as ledger:
            if self.processes > 1:
                return self._on_nodes("raw", ledger)
            with self._work(ledger.note) as run:
                sample = self._raw_async(run, ledger) if is_async(self._kind) else self._raw(run, ledger)
            ledger.check()
            return sample

    def _raw(self, run: Work, ledger: Ledger) -> Sample:
        threads = self.plan.settings.threads
        return drain.drain(self.plan.alias, ledger, self._raw_page, drain.calling(run), threads)

    def _raw_async(self, run: Work, ledger: Ledger) -> Sample:
        alias = self.plan.alias
        with RawConnection(alias) as connection:
            loop = EventLoop(RawQueue(alias, connection, self.plan.raw_page), run, self.plan.raw_page)
            try:
                with Stopwatch(alias) as watch:
                    drain.run_all([loop])
            finally:
                close_connection(alias)
        return watch.sample(ledger.wanted)
