"""Read single keys from the terminal, without Enter."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

try:
    import termios
    import tty
except ImportError:  # Windows: no keys, only Ctrl-C
    termios = None  # type: ignore[assignment]


@contextmanager
def keys() -> Iterator[Keyboard]:
    """A keyboard for the duration of the context; afterwards the terminal is restored."""
    if termios is None or not sys.stdin.isatty():
        yield Keyboard(None)
        return
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    try:
        tty.setcbreak(number)
        yield Keyboard(number)
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


class Keyboard:
    """Waits for a key; without a terminal it only sleeps."""

    def __init__(self, number: int | None) -> None:
        self._number = number

    def wait(self, seconds: float) -> str:
        """Return the key that is pressed within ``seconds``; '' for none."""
        if self._number is None:
            time.sleep(seconds)
            return ""
        ready, _, _ = select.select([self._number], [], [], seconds)
        # Bypass Python's buffer, which select does not see.
        return os.read(self._number, 1).decode("ascii", "ignore") if ready else ""
