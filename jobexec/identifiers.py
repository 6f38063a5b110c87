"""The ids of jobs: UUIDs of version 7, which sort by creation time; and which handlers are jobexec's own."""

from __future__ import annotations

import os
import threading
import time
import uuid
from datetime import datetime

#: The prefix of jobexec's own handlers, which run batches and other operations, and are not enqueued directly. It also
#: stands for all of them together.
OWN = "jobexec."

_COUNTER_BITS = 42
_COUNTER_MAX = (1 << _COUNTER_BITS) - 1

_lock = threading.Lock()
_last_ms = 0
_counter = _COUNTER_MAX


def own_together(handler_type: str) -> str:
    """The handler's name; that of all of jobexec's own handlers is :data:`OWN`."""
    return OWN if handler_type.startswith(OWN) else handler_type


def uuid7() -> uuid.UUID:
    """A new UUID of version 7 (RFC 9562, section 6.2, method 1: 42 bits of counter, 32 random bits).

    Every id is greater than all ids created before it in this process, by any thread, also within one millisecond and
    also when the wall clock steps back: jobs created one after the other are acquired in that order. Between processes
    the order is that of their clocks. Safe after a fork. Takes microseconds.
    """
    milliseconds, counter = _reserve(1)
    return _assemble(milliseconds, counter, int.from_bytes(os.urandom(4), "big"))


def uuid7s(count: int) -> list[uuid.UUID]:
    """Create ``count`` ids at once, each greater than the one before."""
    milliseconds, first = _reserve(count)
    tails = memoryview(os.urandom(4 * count)).cast("I")
    return [_assemble(milliseconds, first + number, tail) for number, tail in enumerate(tails)]


def least_uuid7(moment: datetime) -> uuid.UUID:
    """The least id that :func:`uuid7` creates from this (aware) moment on, by the clock of its process."""
    return _assemble(int(moment.timestamp() * 1000), 0, 0)


def as_id(text: uuid.UUID | str) -> uuid.UUID | None:
    """The id in a text; None for a text that is no UUID."""
    try:
        return text if isinstance(text, uuid.UUID) else uuid.UUID(str(text))
    except ValueError:
        return None


def _reserve(count: int) -> tuple[int, int]:
    """The millisecond and the first counter of ids reserved for this call."""
    global _last_ms, _counter
    # Not clock.now(): an id needs an order, not the database's time, and must go on in a frozen test.
    now = time.time_ns() // 1_000_000
    with _lock:
        if now > _last_ms:
            _last_ms, first = now, _seed()
        elif _counter + count <= _COUNTER_MAX:
            first = _counter + 1
        else:  # more ids than the counter allows in a millisecond: borrow from the next one
            _last_ms, first = _last_ms + 1, _seed()
        _counter = first + count - 1
        return _last_ms, first


def _seed() -> int:
    # The highest bit starts as zero, so that at least 2**41 ids fit after any seed.
    return int.from_bytes(os.urandom(6), "big") >> 7


def _assemble(milliseconds: int, counter: int, tail: int) -> uuid.UUID:
    value = (milliseconds & 0xFFFF_FFFF_FFFF) << 80
    value |= 0x7 << 76
    value |= (counter >> 30) << 64
    value |= 0b10 << 62
    value |= (counter & 0x3FFF_FFFF) << 32
    return uuid.UUID(int=value | tail)


def _after_fork() -> None:
    # The lock may have been held by a thread that does not exist here. A full counter forces a new random seed, which
    # keeps this process's ids behind the parent's earlier ones and away from its later ones.
    global _lock, _counter
    _lock = threading.Lock()
    _counter = _COUNTER_MAX


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)
