"""How far the benchmark is, for those who wait for it."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType

from jobexec.runtime.threads import spawn

_TURN = 0.2
_BAR = 28


class Progress(AbstractContextManager["Progress"]):
    """Says nothing; what others do with what they are told is theirs."""

    def run(self, title: str, number: int, runs: int) -> None:
        """The run ``number`` of ``runs`` begins."""

    def follow(self, done: Callable[[], int], wanted: int) -> None:
        """``done()`` tells from now on how many of ``wanted`` jobs of this run are done. It must be cheap."""

    def stage(self, title: str) -> None:
        """Something else begins, that belongs to no run."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """It is over."""


class Lines(Progress):
    """One line for each run."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def run(self, title: str, number: int, runs: int) -> None:
        self._write(f"run {number} of {runs}: {title}")

    def stage(self, title: str) -> None:
        self._write(title)


class Bar(Progress):
    """One line of a terminal that is drawn again and again, by a thread of its own, and is gone at the end."""

    def __init__(self, write: Callable[[str], object], encoding: str = "") -> None:
        self._write = write
        self._full, self._empty = ("━", "┈") if encoding.lower().replace("-", "") == "utf8" else ("#", ".")
        self._title, self._number, self._runs = "", 0, 0
        self._began = time.monotonic()
        self._done: Callable[[], int] = lambda: 0
        self._wanted = 0
        self._ended = threading.Event()

    def __enter__(self) -> Bar:
        self._thread = spawn("jobbench-progress", self._draw)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._write("\r\x1b[K")

    def run(self, title: str, number: int, runs: int) -> None:
        self.stage(title)
        self._number, self._runs = number, runs

    def follow(self, done: Callable[[], int], wanted: int) -> None:
        self._done, self._wanted = done, wanted

    def stage(self, title: str) -> None:
        self._title, self._began, self._wanted = title, time.monotonic(), 0

    def _draw(self) -> None:
        while not self._ended.wait(_TURN):
            columns = shutil.get_terminal_size().columns
            self._write(f"\r{self.line()[: columns - 1]}\x1b[K")

    def line(self) -> str:
        """What is to be seen now."""
        wanted = self._wanted
        done = min(self._done(), wanted) if wanted else 0
        share = done / wanted if wanted else 0.0
        if self._runs:
            share = (self._number - 1 + share) / self._runs
        full = round(share * _BAR)
        parts = [f"{self._full * full}{self._empty * (_BAR - full)} {share:>4.0%}"]
        parts += [f"run {self._number} of {self._runs}"] if self._runs else []
        parts += [self._title, f"{time.monotonic() - self._began:.0f} s"]
        parts += [f"{done:,} of {wanted:,}"] if wanted else []
        return "  ".join(parts)
