"""The raw SQL's side of a case: threads that lock pages, do the work and settle the pages."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

from django.db import connections

from jobexec.runtime.threads import spawn

from ..measure import BenchError, Sample, Stopwatch
from ..noop import Ledger
from .queue import RawQueue
from .sql import RawConnection, Row

Queue = Callable[[str, RawConnection, int], RawQueue]
#: Does the jobs of a page and returns the ids of those that are to be settled with the next page's locking.
Work = Callable[[RawQueue, Sequence[Row]], Sequence[Any]]


class Seen:
    """Which rows the raw SQL has taken, by id; ``note`` is the no-op job for a page of them."""

    def __init__(self, ledger: Ledger) -> None:
        # The ledger counts for the progress; it is numbers that it checks, and ids that we have.
        self._ledger = ledger
        self.ids = ledger.seen

    def no_op(self, queue: RawQueue, rows: Sequence[Row]) -> list[Any]:
        """Do nothing, for each job of a page."""
        ids = [row[0] for row in rows]
        self.ids.extend(ids)
        return ids

    def check(self) -> None:
        """Raise BenchError unless so many different jobs were taken, each once."""
        wanted, different = self._ledger.wanted, len(set(self.ids))
        if not len(self.ids) == different == wanted:
            raise BenchError(f"Raw SQL: {wanted} jobs, {len(self.ids)} taken, {different} different ones.")


def number_of(row: Row) -> int:
    """The argument of a job that the raw SQL has locked."""
    number: int = json.loads(row[2])["args"][0]
    return number


def calling(function: Callable[[int], None]) -> Work:
    """Read the argument of each job and call the function with it."""

    def call(queue: RawQueue, rows: Sequence[Row]) -> list[Any]:
        for row in rows:
            function(number_of(row))
        return [row[0] for row in rows]

    return call


def drain(
    alias: str, ledger: Ledger, page: int, work: Work | None = None, threads: int = 1, queue: Queue = RawQueue
) -> Sample:
    """Run all jobs in the table, on so many threads with a connection each.

    Timed until the last page is settled. Without ``work`` the jobs are no-ops, and it is checked that each row was
    taken once; with it the caller checks.
    """
    seen = Seen(ledger)
    act = work or seen.no_op
    opened = [RawConnection(alias) for _ in range(threads)]
    try:
        watch = Stopwatch(alias)

        def look() -> None:
            if connections[alias].connection is not None:  # only if the jobs have used one
                watch.look()

        ended = look if threads > 1 else _nothing
        loops = [Loop(queue(alias, each, page), act, ended) for each in opened]
        with watch:
            run_all(loops)
    finally:
        for each in opened:
            each.close()
    if work is None:
        seen.check()
    return watch.sample(ledger.wanted)


def _nothing() -> None:
    """What most loops do at their end."""


class Loop:
    """Lock, work, settle, until there is no job left; ``error`` is what ended it otherwise.

    ``ended`` is called at the end: in a thread of its own, this is before the connections that jobs have used are
    closed.
    """

    def __init__(self, queue: RawQueue, work: Work, ended: Callable[[], object] = _nothing) -> None:
        self._queue, self._work, self._ended = queue, work, ended
        self.error: BaseException | None = None

    def __call__(self) -> None:
        try:
            done: Sequence[Any] = ()
            while rows := self._queue.turn(done):
                done = self._work(self._queue, rows)
            self._ended()
        except BaseException as error:
            self.error = error


def run_all(loops: Sequence[Loop]) -> None:
    """One in this thread if it is alone, else each in a thread; raises BenchError if one fails."""
    threads: list[threading.Thread] = []
    if len(loops) == 1:
        loops[0]()
    else:
        threads = [spawn(f"jobbench-raw-{number}", loop) for number, loop in enumerate(loops, start=1)]
    for thread in threads:
        thread.join()
    check_loops(loops)


def check_loops(loops: Sequence[Loop]) -> None:
    """Raise BenchError if one has failed."""
    for loop in loops:
        if isinstance(loop.error, Exception):
            raise BenchError(f"The raw loop has failed: {loop.error}") from loop.error
        if loop.error is not None:
            raise loop.error
