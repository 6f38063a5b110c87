"""What happened, told outside of the job tables: one file for each process, one line for each event.

A line is JSON and written by one call, so a process that is killed leaves at most one torn line, its last. Times (`t`)
are those of CLOCK_MONOTONIC, which all processes of a machine share; `w` is the wall clock, for people.
"""

import json
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def now() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class Journal:
    """The journal of this process; any thread may write."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(folder / f"{name}-{os.getpid()}.jsonl", flags, 0o644)
        self._lock = threading.Lock()
        self._name = name

    def write(self, what: str, **values: Any) -> float:
        """Append a line; returns its time."""
        with self._lock:
            moment = now()
            line = {
                "t": moment,
                "w": round(time.time(), 3),
                "by": self._name,
                "pid": os.getpid(),
                "what": what,
                **values,
            }
            os.write(self._file, json.dumps(line, default=str).encode() + b"\n")
        return moment


def read(folder: Path) -> list[Line]:
    """All lines of all processes in the order of time. A torn last line is left out; any other is an error."""
    lines: list[Line] = []
    for path in sorted(folder.glob("*.jsonl")):
        lines += _parse(path.read_text(errors="replace"), path.name)
    return sorted(lines, key=lambda line: line["t"])


def _parse(text: str, name: str) -> Iterable[Line]:
    *whole, _torn = text.split("\n")  # what follows the last newline is nothing, or torn
    for number, line in enumerate(whole, 1):
        try:
            yield json.loads(line)
        except ValueError as error:
            raise ValueError(f"{name}, line {number} is no JSON: {line[:200]!r}") from error


def shown(line: Line, start: float = 0.0) -> str:
    """A line for people: seconds since the start of the run, who, what."""
    rest = " ".join(f"{key}={value}" for key, value in line.items() if key not in {"t", "w", "by", "pid", "what"})
    return f"{line['t'] - start:9.3f} s  {line['by']} ({line['pid']})  {line['what']}  {rest}"
