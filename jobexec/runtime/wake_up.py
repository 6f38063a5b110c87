"""An event that a thread waits for together with notifications from the database."""

from __future__ import annotations

import select
import socket
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

_LONGEST = 3600.0  # the system counts milliseconds, and its maximum is limited


class Source(Protocol):
    """A source of notifications. Read by the waiting thread itself, so that no other thread has to wake it up."""

    def fileno(self) -> int | None:
        """The descriptor that becomes readable with a notification; None if there is none now."""
        ...

    def turn(self) -> float | None:
        """Seconds after which to ask without the descriptor; None for never."""
        ...

    def ask(self) -> None:
        """Pass on pending notifications; sets the event if they concern the waiting thread. Never raises."""
        ...


class WakeUpEvent:
    """Like ``threading.Event``, but its wait also watches ``source``.

    One thread waits, any may set it. A thread that blocks on a descriptor and is to be woken up by others needs a pipe
    to itself. The time is real, even while a test has frozen the clock.
    """

    def __init__(self, source: Source | None = None) -> None:
        self._source = source
        self._rung = self._waiting = False
        self._inner, self._outer = socket.socketpair()
        for end in (self._inner, self._outer):
            end.setblocking(False)
            weakref.finalize(self, end.close)
        self._inner_fileno = self._inner.fileno()
        self._descriptor: int | None = None
        self._readable = _readable(self._inner_fileno)

    def set(self) -> None:
        """Set the event: the wait ends, or the next one does not begin."""
        if self._rung:
            return
        self._rung = True  # in this order: a thread just about to wait checks it once more
        if self._waiting:
            with suppress(BlockingIOError):  # full, so it will be read
                self._outer.send(b"\0")

    def clear(self) -> None:
        """Reset the event."""
        self._rung = False

    def is_set(self) -> bool:
        """Whether it was set since :meth:`clear`."""
        return self._rung

    def wait(self, timeout: float) -> bool:
        """Wait until it is set, or ``timeout`` seconds; returns whether it is. The source is asked in any case."""
        end = time.monotonic() + timeout
        while not self._rung:
            left = max(0.0, end - time.monotonic())
            self._pause(min(left, _LONGEST))
            if not left:
                break
        return self._rung

    def _pause(self, seconds: float) -> None:
        """Wait for the pipe and for the source, and ask the source if it may have notifications."""
        source, turn = self._source, None
        if source:
            turn = source.turn()
            self._look_at(source.fileno())
        self._waiting = True
        try:
            ready = [] if self._rung else self._readable(seconds if turn is None or seconds < turn else turn)
        finally:
            self._waiting = False
        if self._inner_fileno in ready:
            self._inner.recv(64)
        elif source and (ready or turn is not None):
            source.ask()

    def _look_at(self, descriptor: int | None) -> None:
        """Wait for this descriptor, too, from now on."""
        if descriptor != self._descriptor:
            self._descriptor, self._readable = descriptor, _readable(self._inner_fileno, descriptor)


def _readable(*descriptors: int | None) -> Callable[[float], list[int]]:
    """A function that waits for a number of seconds, and returns which of the descriptors are readable."""
    given = [descriptor for descriptor in descriptors if descriptor is not None]
    if not hasattr(select, "poll"):
        return lambda seconds: select.select(given, [], [], seconds)[0]
    poller = select.poll()  # knows descriptors above 1024, and is the cheapest
    for descriptor in given:
        poller.register(descriptor, select.POLLIN)
    return lambda seconds: [descriptor for descriptor, _ in poller.poll(seconds * 1000)]
