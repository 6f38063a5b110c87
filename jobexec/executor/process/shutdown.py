"""How a process ends: the first signal drains, the second one leaves at once; a limit drains and restarts."""

from __future__ import annotations

import atexit
import logging
import os
import queue
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType

from ..job_executor import JobExecutor
from . import control_pipe
from .health import Health
from .limits import Reason

logger = logging.getLogger("jobexec.executor")

# A process that asks to be restarted does not exit with 0: Restart=on-failure of systemd and Docker then do it, too.
EXIT_DRAINED, EXIT_LEFT, EXIT_UNFINISHED, EXIT_RECYCLED = 0, 3, 4, 5
#: Of a supervised process that an operator has drained: it is not restarted.
EXIT_STOPPED = 6
_TURN = 0.2
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Shutdown:
    """Turns SIGTERM and SIGINT into a request; installed in the main thread, where Python handles signals."""

    def __init__(self, leave: Callable[[], None] | None = None) -> None:
        self.requested = False
        #: Whether a signal has arrived; the next one is the second.
        self.signalled = False
        self.leave = leave or leave_now
        # Not an Event: a signal that arrives while the main thread is inside Event.wait() would wait for the Event's
        # own lock, for ever. This queue's put() is reentrant.
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()

    def request(self) -> None:
        """Ask for the end. This is not a signal: the first signal after it still drains."""
        self.requested = True
        self._bell.put(None)

    def wait(self, timeout: float) -> bool:
        """Wait for a request; returns whether there is one."""
        if not self.requested:
            with suppress(queue.Empty):
                self._bell.get(timeout=timeout)
        return self.requested

    def install(self) -> None:
        """Handle the signals from now on."""
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)

    def finish(self, code: int) -> None:
        """Everything has ended; a signal during the interpreter's shutdown no longer changes the exit code."""
        self.leave = lambda: os._exit(code)
        # Python's last act is to restore the default action of signals, which is to kill.
        atexit.register(_ignore_signals)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.signalled:
            self.leave()
        self.signalled = True
        self.request()


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def leave_now() -> None:
    """End the process without waiting for anything: running handlers cannot be stopped in any other way."""
    # In a signal handler: the interrupted code may hold the locks of both streams' buffers, so bypass them.
    with suppress(RuntimeError, OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError):
        os.write(2, b"Leaving at once; recovery will release the jobs in hand.\n")
    os._exit(EXIT_LEFT)


def serve(
    executor: JobExecutor,
    shutdown: Shutdown,
    done: Callable[[], bool] | None = None,
    say: Callable[[str], object] = logger.info,
    health: Health | None = None,
    reasons: Sequence[Reason] = (),
) -> int:
    """Run a started executor until a signal, an operator, ``done``, one of ``reasons`` or the supervisor ends it.

    Returns the exit code. 0: all running jobs have ended and are settled. 4: the grace period ended before some job
    did. 5: a new process is to replace this one, for one of ``reasons``, and no signal came meanwhile. 6: an operator
    has drained it, which its supervisor must not undo. (3, by a second signal, ends the process on the spot.) With a
    supervisor, a reason is a wish, and the process goes on until the supervisor grants it: not all processes may drain
    at the same time. ``say`` reports the progress of a drain.
    """
    health = health or Health(executor)
    why = _until_end(shutdown, lambda: executor.to_drain or (done is not None and done()), health, reasons)
    health.drain()
    if shutdown.requested or executor.to_drain or why:
        text = f"Restarting, because {why}. " if why else "Stopped by an operator. " if executor.to_drain else ""
        say(f"{text}Draining. Running jobs: {executor.running_jobs}.")
    shutdown.request()
    drained = executor.stop()
    say(
        "Drained."
        if drained
        else "The grace period has ended and some jobs still run or are not settled; their locks will expire."
    )
    code = EXIT_DRAINED if drained else EXIT_UNFINISHED
    if why and not shutdown.signalled:
        code = EXIT_RECYCLED  # even if unfinished: stuck threads are a reason to restart, and never end
    elif executor.to_drain and control_pipe.supervisor() is not None and not shutdown.signalled:
        code = EXIT_STOPPED
    shutdown.finish(code)
    return code


def _until_end(shutdown: Shutdown, done: Callable[[], bool], health: Health, reasons: Sequence[Reason]) -> str | None:
    """Wait; returns why this process is to be restarted, or None if it is simply to end."""
    above = control_pipe.supervisor()
    while not shutdown.wait(_TURN):
        if done():
            return None
        if above is not None and above.gone:
            logger.warning("The supervisor is gone; draining")
            return None
        order = above.order() if above is not None else None
        if order == control_pipe.DRAIN:
            shutdown.request()
            return None
        wish = health.wish or next(filter(None, (reason() for reason in reasons)), None)
        if wish and (above is None or order == control_pipe.RECYCLE):
            return wish
        if wish:
            health.ask(wish)
    return None
