"""What the jobs of the case ``handlers`` do."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import date
from functools import cache, partial
from http.client import HTTPConnection
from inspect import iscoroutinefunction
from typing import Any

from django.apps import apps
from django.utils import timezone

from . import slow_service
from .measure import BenchError

#: The work of a job, by its number; a coroutine function where the handler is asynchronous.
Work = Callable[[int], Any]

_ASYNC = "async-"
#: Rows that the queries read and write, and how they are recognised.
_BOOKINGS, _EMAIL = 1_000, "jobbench@jobexec.invalid"
_PATIENCE = 30.0


def is_async(kind: str) -> bool:
    """Whether the handlers of this kind are asynchronous."""
    return kind.startswith(_ASYNC)


@contextmanager
def working(kind: str, alias: str, note: Callable[[int], None]) -> Iterator[Work]:
    """A handler that does this work and then notes its number."""
    with KINDS[kind](alias) as work:

        def run(number: int) -> None:
            work(number)
            note(number)

        async def run_async(number: int) -> None:
            await work(number)
            note(number)

        yield run_async if iscoroutinefunction(work) else run


# Of the processor and the operating system.


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
def _append(alias: str = "") -> Iterator[Work]:
    """Write 24 bytes to a file: one system call."""
    with tempfile.TemporaryFile(buffering=0) as file:
        yield lambda number: os.write(file.fileno(), b"%023d\n" % number)


@contextmanager
def _mixture(alias: str) -> Iterator[Work]:
    """One in ten waits for 20 ms, three in ten write, the others do nothing."""
    chances = random.Random(7)
    with _append() as append:
        works: list[Work] = [lambda _number: time.sleep(0.02), *[append] * 3, *[lambda _number: None] * 6]
        order = [chances.choice(works) for _ in range(10_000)]
        yield lambda number: order[number % len(order)](number)


@contextmanager
def _plain(make: Callable[[], Work], alias: str) -> Iterator[Work]:
    yield make()


# Of the database.


def _bookings(alias: str) -> tuple[Any, list[int]]:
    """The table of bookings, and the keys of new ones. They are removed with the jobs of the run.

    Were each process of a run to delete its own, these deletions could deadlock on MariaDB.
    """
    if not apps.is_installed("demo_project.bookings"):
        raise BenchError("This kind of handler needs 'demo_project.bookings' in INSTALLED_APPS.")
    from demo_project.bookings.models import Booking

    rows = Booking.objects.using(alias)
    # Each process of a run has its own.
    mine = {"visitor": f"jobbench {os.getpid()}", "email": _EMAIL}
    trip = {"city": "Rome", "arrival": date(2026, 1, 1), "departure": date(2026, 1, 4)}
    rows.bulk_create(Booking(**mine, **trip) for _ in range(_BOOKINGS))
    return rows, list(rows.filter(**mine).values_list("pk", flat=True))


def remove_bookings(alias: str) -> None:
    """Delete those that a benchmark has made."""
    if apps.is_installed("demo_project.bookings"):
        from demo_project.bookings.models import Booking

        Booking.objects.using(alias).filter(email=_EMAIL).delete()


@contextmanager
def _orm(alias: str) -> Iterator[Work]:
    """Read a row, and write one of its columns."""
    rows, keys = _bookings(alias)

    def query(number: int) -> None:
        booking = rows.get(pk=keys[number % len(keys)])
        rows.filter(pk=booking.pk).update(reminded_at=timezone.now())

    yield query


@contextmanager
def _async_orm(alias: str) -> Iterator[Work]:
    """Read a row."""
    rows, keys = _bookings(alias)

    async def query(number: int) -> None:
        await rows.aget(pk=keys[number % len(keys)])

    yield query


# Of other systems.


@contextmanager
def _http(alias: str) -> Iterator[Work]:
    """Call a server that answers after 5 ms, on a connection of its own."""
    with slow_service.running() as port:

        def call(number: int) -> None:
            connection = HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
            try:
                connection.request("GET", f"/{number}")
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    raise BenchError(f"The HTTP server answered {answer.status}.")
            finally:
                connection.close()

        yield call


KINDS: dict[str, Callable[[str], AbstractContextManager[Work]]] = {
    "nothing": partial(_plain, lambda: lambda number: None),
    "write": _append,
    "cpu-100us": partial(_plain, lambda: _compute(0.0001)),
    "cpu-1ms": partial(_plain, lambda: _compute(0.001)),
    "wait-1ms": partial(_plain, lambda: lambda number: time.sleep(0.001)),
    "wait-20ms": partial(_plain, lambda: lambda number: time.sleep(0.02)),
    "mixture": _mixture,
    "orm": _orm,
    "http": _http,
    f"{_ASYNC}orm": _async_orm,
}
