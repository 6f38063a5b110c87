"""The demo's processes: each in a session of its own, its output in a file."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TAIL = 15
_PR_SET_PDEATHSIG = 1


class Child:
    """A running process. Ctrl-C in the terminal does not reach it: when it ends is for its parent to say."""

    def __init__(
        self, name: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str], **streams: Any
    ) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                arguments,
                env=environment,
                start_new_session=True,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
                **{"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file, **streams},
            )

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.process.poll()

    def first_line(self) -> str:
        """The first line of its output, or nothing if there is none yet."""
        line, end, _ = self.log.read_text(errors="replace").partition("\n")
        return line.strip() if end else ""

    def tail(self) -> str:
        """The last lines of its output."""
        lines = self.log.read_text(errors="replace").rstrip().splitlines()[-TAIL:]
        return "\n".join(f"    {line}" for line in lines) or "    (it said nothing)"

    def stop(self, patience: float) -> int:
        """SIGTERM, and the same again if `patience` seconds were not enough, then SIGKILL. Returns the exit code."""
        for number, seconds in ((signal.SIGTERM, patience), (signal.SIGTERM, 2.0), (signal.SIGKILL, 10.0)):
            if self.exit_code is None:
                self.process.send_signal(number)
                try:
                    self.process.wait(seconds)
                except subprocess.TimeoutExpired:
                    continue
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        return self.process.wait()


_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _end_with_parent() -> None:
    """Linux sends SIGTERM when the parent is gone, also by kill -9: nothing of the demo is left running."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
