"""The benchmark's own job: it does nothing but note that it ran."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Unpack

from django.db.models import QuerySet

from jobexec.handlers import registry
from jobexec.handlers.decorator import job
from jobexec.handlers.function import JobFunction
from jobexec.handlers.options import JobOptions
from jobexec.models import Job

from .measure import BenchError

CATEGORY = "jobbench"
HANDLER_PREFIX = "jobexec.bench."
HANDLER = f"{HANDLER_PREFIX}noop"
#: Of rows that nobody runs: they only lie in the tables, during all runs of a case.
BACKLOG_HANDLER = f"{HANDLER_PREFIX}backlog"
_CHUNK = 10_000
_PATIENCE = 60.0


class Ledger:
    """Which jobs have run, by their argument: ``0`` to ``wanted - 1``; each must, and only once."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.seen: list[int] = []
        self.complete = threading.Event()

    def note(self, number: int) -> None:
        """A job has run. Nothing more: this is on the path that is timed, in many threads."""
        self.seen.append(number)
        if len(self.seen) == self.wanted:
            self.complete.set()

    def count(self) -> int:
        """How many have run so far."""
        return len(self.seen)

    def wait(self, patience: float = _PATIENCE) -> None:
        """Until all have run; BenchError if none did for ``patience`` seconds."""
        before = -1
        while not self.complete.wait(patience):
            if self.count() == before:
                raise BenchError(f"No job ran for {patience:.0f} s; {before} of {self.wanted} did before.")
            before = self.count()

    def check(self) -> None:
        """Raise BenchError unless each job ran exactly once."""
        check_once(self.seen, self.wanted, "ran")


class CompactLedger(Ledger):
    """Which jobs have run, in one byte each, made beforehand: it must not grow while growth is looked for."""

    def __init__(self, wanted: int) -> None:
        super().__init__(wanted)
        self._runs = bytearray(wanted)
        self._next = itertools.count(1).__next__

    def note(self, number: int) -> None:
        self._runs[number] = min(255, self._runs[number] + 1)
        if self._next() >= self.wanted:
            self.complete.set()

    def count(self) -> int:
        return self.wanted - self._runs.count(0)

    def check(self) -> None:
        wrong = self.wanted - self._runs.count(1)
        if wrong or self._next() - 1 != self.wanted:
            raise BenchError(f"Not each job ran exactly once: {self.wanted} jobs, {wrong} did not.")


def check_once(numbers: list[int], wanted: int, what: str) -> None:
    """Raise BenchError unless ``numbers`` are ``0`` to ``wanted - 1``, each exactly once."""
    if sorted(numbers) != list(range(wanted)):
        distinct = len(set(numbers))
        raise BenchError(
            f"Not each job {what} exactly once: {wanted} jobs, {len(numbers)} counted, {distinct} different ones."
        )


def check_table(alias: str, wanted: int) -> None:
    """Raise BenchError unless the jobs ``0`` to ``wanted - 1`` are in the table, each exactly once."""
    check_once(numbers_in(Job.objects.using(alias).filter(handler_type=HANDLER)), wanted, "was inserted")


def numbers_in(rows: QuerySet[Any]) -> list[int]:
    """The arguments of these jobs."""
    return [configuration["args"][0] for configuration in rows.values_list("handler_configuration", flat=True)]


@contextmanager
def registered(
    alias: str, note: Callable[[int], None], **options: Unpack[JobOptions]
) -> Iterator[JobFunction[[int], None]]:
    """The benchmark's job, known to this process during the block only; ``note`` gets the argument of each run.

    ``options`` are those of the job, else it is a plain one: not atomic, of no process instance.
    """
    with registry.isolated():
        merged: JobOptions = {"category": CATEGORY, "atomic": False, "database": alias, **options}

        @job(name=HANDLER, **merged)
        def noop(number: int) -> None:
            note(number)

        yield noop


@contextmanager
def registered_as(alias: str, function: Callable[..., Any]) -> Iterator[None]:
    """This function, whatever its arguments, is the benchmark's job during the block."""
    with registry.isolated():
        job(name=HANDLER, category=CATEGORY, atomic=False, database=alias)(function)
        yield


def fill(handler: JobFunction[[int], None], jobs: int) -> None:
    """Enqueue the jobs ``0`` to ``jobs - 1``."""
    for start in range(0, jobs, _CHUNK):
        handler.enqueue_many([(number,) for number in range(start, min(jobs, start + _CHUNK))])


def wait_for(condition: Callable[[], bool], what: str, patience: float = _PATIENCE, turn: float = 0.0005) -> None:
    """Look every ``turn`` seconds until the condition holds; BenchError after ``patience`` seconds."""
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise BenchError(f"Waited {patience:.0f} s in vain: {what}.")
        time.sleep(turn)
