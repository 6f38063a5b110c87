"""Several executor processes under one command; restarts what dies."""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .shutdown import Shutdown, child_environment

logger = logging.getLogger("jobexec.supervisor")

_TURN = 0.2
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_STABLE = 30.0
_HOPELESS = (1, 2)  # could not start, wrong usage: trying again would change nothing


@dataclass(slots=True)
class _Child:
    arguments: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    failures: int = 0
    restart_at: float = 0.0
    exit_code: int | None = None


class Supervisor:
    """Starts one child per list of ``arguments`` by exec and keeps them running until a signal comes.

    By exec and not by fork: a forked child would share its parent's identity and database connections. Each child is
    in a session of its own, because Ctrl-C of a terminal reaches the whole foreground group and must count once.
    ``changed`` (for --reload) is asked each second whether the children shall be restarted.
    """

    def __init__(
        self, commands: Iterable[Sequence[str]], shutdown: Shutdown, changed: Callable[[], bool] | None = None
    ) -> None:
        self._children = [_Child(arguments) for arguments in commands]
        self._shutdown = shutdown
        self._changed = changed
        self._next_look = 0.0

    def run(self) -> int:
        """Returns the worst exit code of the children."""
        while not self._shutdown.requested:
            for child in self._children:
                self._keep(child)
            if self._reload_wanted():
                self._stop_all()
                for child in self._children:
                    child.process, child.exit_code, child.restart_at, child.failures = None, None, 0.0, 0
            elif self._all_ended():
                break
            self._shutdown.wait(_TURN)
        self._stop_all()
        return max((child.exit_code or 0 for child in self._children), default=0)

    def _all_ended(self) -> bool:
        codes = [child.exit_code for child in self._children]
        # With --reload, code that cannot start is repaired by the next change.
        return None not in codes and (self._changed is None or not any(codes))

    def _keep(self, child: _Child) -> None:
        now = time.monotonic()
        if child.exit_code is not None:
            return
        if child.process is None:
            if now >= child.restart_at:
                child.process, child.started = _start(child.arguments), now
            return
        code = child.process.poll()
        if code is None:
            return
        if code == 0 or (code in _HOPELESS and now - child.started < _STABLE):
            child.exit_code = code
            return
        child.failures = child.failures + 1 if now - child.started < _STABLE else 1
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (child.failures - 1))
        logger.error("Executor process %d ended with %d; it is restarted in %.0f s", child.process.pid, code, pause)
        child.process, child.restart_at = None, now + pause

    def _reload_wanted(self) -> bool:
        now = time.monotonic()
        if self._changed is None or now < self._next_look:
            return False
        self._next_look = now + 1.0
        return self._changed()

    def _stop_all(self) -> None:
        """Pass the signal on and wait; a second one is passed on too, and then the children leave at once."""
        passed_on = threading.Event()

        def leave() -> None:
            if not passed_on.is_set():
                passed_on.set()
                self._signal()

        self._shutdown.leave = leave
        self._signal()
        for child in self._children:
            if child.process is not None:
                code = child.process.wait()
                # Killed by a signal: as shells say it, and not a negative number that the best exit code would beat.
                code = 128 - code if code < 0 else code
                child.exit_code = code if child.exit_code is None else child.exit_code

    def _signal(self) -> None:
        for child in self._children:
            if child.process is not None and child.process.poll() is None:
                child.process.send_signal(signal.SIGTERM)


def _start(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(arguments, env=child_environment(), start_new_session=True)


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
