"""Signals: the first one drains, the second one leaves now."""

from __future__ import annotations

import atexit
import logging
import os
import queue
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import FrameType

from .job_executor import JobExecutor

logger = logging.getLogger("jobexec.executor")

EXIT_DRAINED, EXIT_LEFT, EXIT_UNFINISHED = 0, 3, 4
_TURN = 0.2
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Shutdown:
    """Turns SIGTERM and SIGINT into a request; installed in the main thread, where Python handles signals."""

    def __init__(self, leave: Callable[[], None] | None = None) -> None:
        self.requested = False
        self.leave = leave or leave_now
        # Not an Event: a signal that arrives while the main thread is inside Event.wait() would wait for the Event's
        # own lock, for ever. This queue's put() is made to be called from anywhere.
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()

    def request(self) -> None:
        """Ask for the end, as the first signal does; a signal from now on is the second one."""
        self.requested = True
        self._bell.put(None)

    def wait(self, timeout: float) -> bool:
        """Wait for a request; whether there is one."""
        if not self.requested:
            with suppress(queue.Empty):
                self._bell.get(timeout=timeout)
        return self.requested

    def install(self) -> None:
        """Handle the signals from now on."""
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)

    def finish(self, code: int) -> None:
        """Everything has ended; a signal while the interpreter shuts down changes nothing about the exit code."""
        self.leave = lambda: os._exit(code)
        # Python's last act is to restore the default action of signals, which is to kill.
        atexit.register(_ignore_signals)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            self.leave()
        self.request()


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def leave_now() -> None:
    """End the process without waiting for anything: running handlers cannot be stopped in any other way."""
    # In a signal handler: what it interrupted may hold the locks of both streams' buffers, so the text goes past them.
    with suppress(RuntimeError, OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError):
        os.write(2, b"Leaving at once; jobs in hand are given back by recovery.\n")
    os._exit(EXIT_LEFT)


def serve(
    executor: JobExecutor,
    shutdown: Shutdown,
    done: Callable[[], bool] | None = None,
    say: Callable[[str], object] = logger.info,
) -> int:
    """Run a started executor until a signal comes, ``done`` says so, or the supervisor is gone; returns the exit code.

    0: everything that ran has ended and is settled. 4: the grace period ended before some job did. (3, by a second
    signal, ends the process on the spot.) ``say`` is told how a drain goes on.
    """
    parent = supervisor()
    while not shutdown.wait(_TURN):
        if done is not None and done():
            break
        if parent is not None and os.getppid() != parent:
            logger.warning("The supervisor is gone; draining")
            break
    if shutdown.requested:
        say(f"Draining: {executor.pool.load()['busy_threads']} jobs are running.")
    shutdown.request()
    code = EXIT_DRAINED if executor.stop() else EXIT_UNFINISHED
    say("Drained." if code == EXIT_DRAINED else "The grace period is over and jobs still run; their locks will expire.")
    shutdown.finish(code)
    return code


_SUPERVISED = "JOBEXEC_SUPERVISED"


@cache
def supervisor() -> int | None:
    """The process id of the supervisor of this process, which must not become one itself; None without one.

    Told by the supervisor, and not asked of the system: it may have died while this process was still starting. Taken
    from the environment, because a command that a job starts is nobody's child in this sense.
    """
    pid = os.environ.pop(_SUPERVISED, "")
    return int(pid) if pid.isdigit() else None


def child_environment() -> dict[str, str]:
    """The environment that makes a child know its place."""
    return os.environ | {_SUPERVISED: str(os.getpid())}
