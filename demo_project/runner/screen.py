"""What the terminal shows: a line that refreshes itself, or a line now and then where there is no terminal."""

from __future__ import annotations

import shutil
import time
from typing import TextIO

Counts = dict[str, int]
PLAIN_EVERY = 3.0
BAR = 20


class Screen:
    """Writes for people. Everything goes through here, so that no text is written into the progress line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.live = out.isatty()
        self._start = time.monotonic()
        self._open = False
        self._last = ("", 0.0)

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._start

    def say(self, text: str = "") -> None:
        """A line that stays."""
        self._write(("\r\033[K" if self._open else "") + text + "\n")
        self._open = False

    def progress(self, counts: Counts) -> None:
        """Show how things stand."""
        text = progress_line(counts)
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            line = f"{self.seconds:4.0f} s  "
            text = text if len(line + text) <= width else short_line(counts)
            self._write(f"\r\033[K{(line + text)[:width]}")
            self._open = True
        elif text != self._last[0] and self.seconds - self._last[1] >= PLAIN_EVERY:
            self._last = (text, self.seconds)
            self.say(f"{self.seconds:4.0f} s  {text}")

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except OSError:
            pass  # the terminal is gone; everything must still be stopped in order


def progress_line(counts: Counts) -> str:
    """How many bookings have come to an end, and what their jobs do."""
    bookings, confirmed, attention = counts["bookings"], counts["confirmed"], counts["attention"]
    ended = (confirmed + attention) / bookings if bookings else 0.0
    bar = "#" * round(BAR * ended)
    return (
        f"[{bar:.<{BAR}}] {confirmed}/{bookings} confirmed, {attention} need attention | jobs: "
        f"{counts['due'] - counts['running']} due, {counts['running']} in hand, {counts['permits']} wait for the "
        f"flight service, {counts['retries']} for a retry, {counts['dead_letters']} dead, "
        f"{counts['reminders']} reminders"
    )


def short_line(counts: Counts) -> str:
    """The same for a terminal of 80 columns."""
    return (
        f"{counts['confirmed']}/{counts['bookings']} confirmed | jobs: {counts['due'] - counts['running']} due, "
        f"{counts['running']} run, {counts['permits']} wait, {counts['retries']} retry, {counts['dead_letters']} dead"
    )
