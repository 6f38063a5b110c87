"""Execute jobs of one kind: tiny, computing, or waiting."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from typing import ClassVar

from .. import ours
from ..case import Case, Contenders
from ..measure import Sample
from ..noop import Ledger, fill, registered
from ..raw import drain
from ..sandbox import tidy

Work = Callable[[int], object]

_FEW = (1, 2, 5)


def _add(turns: int) -> int:
    found = 0
    for each in range(turns):
        found += each
    return found


@cache
def _turns_in_a_second() -> float:
    turns = 2_000_000
    began = time.thread_time()
    _add(turns)
    return turns / (time.thread_time() - began)


def _compute(seconds: float) -> Work:
    """Return a function that uses the CPU for about as long as this, on this machine."""
    turns = max(1, round(seconds * _turns_in_a_second()))
    return lambda _number: _add(turns)


@contextmanager
def _append() -> Iterator[Work]:
    """Write 24 bytes to a file: one system call."""
    with tempfile.TemporaryFile(buffering=0) as file:
        yield lambda number: os.write(file.fileno(), b"%023d\n" % number)


@contextmanager
def _mixture() -> Iterator[Work]:
    """One in ten waits for 20 ms, three in ten write, the others do nothing."""
    chances = random.Random(7)
    with _append() as append:
        works: list[Work] = [lambda _number: time.sleep(0.02), *[append] * 3, *[lambda _number: None] * 6]
        order = [chances.choice(works) for _ in range(10_000)]
        yield lambda number: order[number % len(order)](number)


@contextmanager
def _plain(work: Work) -> Iterator[Work]:
    yield work


KINDS: dict[str, Callable[[], AbstractContextManager[Work]]] = {
    "nothing": lambda: _plain(lambda number: None),
    "write": _append,
    "cpu-100us": lambda: _plain(_compute(0.0001)),
    "cpu-1ms": lambda: _plain(_compute(0.001)),
    "wait-1ms": lambda: _plain(lambda number: time.sleep(0.001)),
    "wait-20ms": lambda: _plain(lambda number: time.sleep(0.02)),
    "mixture": _mixture,
}


class Handlers(Case):
    """Jobs of one kind, with all threads and with fewer.

    The raw loops, as many as threads, lock small pages and call the same function for each row.
    """

    name: ClassVar[str] = "handlers"
    summary: ClassVar[str] = "execute jobs that compute, write or wait, with all threads and with fewer"
    default_jobs: ClassVar[int] = 20_000

    def contenders(self) -> Contenders:
        threads = self.plan.settings.threads
        numbers = [number for number in _FEW if number < threads]
        fewer = {f"ours, threads {number}": partial(self.ours, number) for number in numbers}
        return {"ours": self.ours, **fewer, "raw": self.raw}

    def facts(self) -> dict[str, str]:
        return {"handler": str(self.plan.options["handler"])}

    @contextmanager
    def _work(self, ledger: Ledger) -> Iterator[Callable[[int], None]]:
        with KINDS[str(self.plan.options["handler"])]() as work:

            def run(number: int) -> None:
                work(number)
                ledger.note(number)

            yield run

    def ours(self, threads: int | None = None) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        settings = self.plan.settings.replace(threads=threads or self.plan.settings.threads)
        with self._work(ledger) as run, registered(alias, run) as handler:
            fill(handler, ledger.wanted)
            return ours.execute_all(settings, alias, ledger)

    def raw(self) -> Sample:
        alias, ledger, threads = self.plan.alias, self.ledger(), self.plan.settings.threads
        with registered(alias, ledger.note) as handler:
            fill(handler, ledger.wanted)
        tidy(alias)
        page = max(1, min(self.plan.raw_page, ledger.wanted // (4 * threads)))
        with self._work(ledger) as run:
            sample = drain.drain(alias, ledger, page, drain.calling(run), threads)
        ledger.check()
        ours.check_nothing_left(alias)
        return sample
