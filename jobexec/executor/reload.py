"""Whether source files have changed, for --reload."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path


class SourceWatcher:
    """Whether one of the loaded modules' files has changed since the last look."""

    def __init__(self, files: Callable[[], Iterable[Path]]) -> None:
        self._files = files
        self._times = self._look()

    def __call__(self) -> bool:
        times = self._look()
        changed, self._times = times != self._times, times
        return changed

    def _look(self) -> dict[Path, float]:
        times = {}
        for path in self._files():
            try:
                times[path] = path.stat().st_mtime
            except OSError:
                continue
        return times
