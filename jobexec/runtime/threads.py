"""The base classes of everything that runs, and the only file that makes threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from jobexec import clock
from jobexec.conf import Settings
from jobexec.operations.sql.errors import one_line

from .connections import close_connections, refresh_connections, rest_connections
from .wake_up import WakeUpEvent

logger = logging.getLogger("jobexec.executor")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_IDLE_CONNECTION = 5.0

#: Seconds between two looks of a loop for which a heartbeat also looks.
SELDOM = 300.0


def own_interval(settings: Settings) -> float:
    """Seconds between two looks of a loop that is woken up by what a heartbeat sees.

    RECOVERY_INTERVAL, if heartbeats come less often; otherwise rarely, as the heartbeat's one statement looks for all.
    """
    often = settings.recovery_interval < settings.heartbeat_interval
    return settings.recovery_interval.total_seconds() if often else SELDOM


def spawn(name: str, target: Callable[[], None]) -> threading.Thread:
    """Start a thread that closes its database connections when it ends.

    A daemon: a handler that never returns must not keep the process from leaving.
    """

    def run() -> None:
        try:
            target()
        finally:
            close_connections()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def is_alive(thread: threading.Thread | None) -> bool:
    """Whether the thread exists and runs."""
    return thread is not None and thread.is_alive()


def call_in_thread(name: str, function: Callable[[], None], timeout: float) -> None:
    """Call a function that uses the database in a new thread and wait; raises what it raises.

    The thread that starts and stops an executor may have connections that are hours old, or an open transaction.
    Raises TimeoutError after ``timeout`` seconds; the thread then goes on alone.
    """
    errors: list[BaseException] = []

    def target() -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    thread = spawn(name, target)
    thread.join(timeout)
    if errors:
        raise errors[0]
    if thread.is_alive():
        raise TimeoutError(f"no answer within {timeout:.0f} s")


class Service:
    """A service that can be started and stopped; repeated calls are harmless."""

    def start(self) -> None:
        """Start and return when started; raises whatever prevents the start."""
        raise NotImplementedError

    def stop(self, timeout: float) -> bool:
        """Stop and return when stopped, or after ``timeout`` seconds; returns whether it stopped."""
        raise NotImplementedError


class Loop(Service):
    """A thread that calls :meth:`run_once` again and again. Tests call it directly.

    A loop that waits long closes its database connection meanwhile, unless CONN_MAX_AGE or ``keeps_connection`` says
    otherwise.
    """

    keeps_connection = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._woken: threading.Event | WakeUpEvent = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        #: When the current round began, by the monotonic clock; None between rounds. For the health report.
        self.round_began: float | None = None
        #: When a round last ended without an error.
        self.succeeded_at = 0.0

    @property
    def alive(self) -> bool:
        return is_alive(self._thread)

    def run_once(self) -> float:
        """Run one round; returns the seconds to wait for the next, unless woken up."""
        raise NotImplementedError

    def wake(self) -> None:
        """End the wait at once; a wake-up during a round is kept for the next."""
        self._woken.set()

    def start(self) -> None:
        if self._thread is not None and self._thread.is_alive() and not self._stopping.is_set():
            return
        # An event for each start: a thread that did not end in time must not be revived.
        stopping = self._stopping = threading.Event()
        self._thread = spawn(self.name, lambda: self._run(stopping))

    def ask_to_stop(self) -> None:
        """Let the loop end after its current round, without waiting for it."""
        self._stopping.set()
        self._woken.set()

    def stop(self, timeout: float) -> bool:
        self.ask_to_stop()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        stopped = not self._thread.is_alive()
        if stopped:
            self._thread = None
        return stopped

    def _run(self, stopping: threading.Event) -> None:
        failures = 0
        while not stopping.is_set():
            self._woken.clear()
            if stopping.is_set():  # set between the two lines above
                return
            try:
                wait, failures = self._round(), 0
            except BaseException as error:  # a signal receiver may raise anything, which must not end the loop
                failures += 1
                self._pause(error, failures, stopping)
                continue
            finally:
                refresh_connections()
            if stopping.is_set():  # and a wake-up may already belong to another thread: a new start may have begun
                return
            if wait >= _IDLE_CONNECTION and not self.keeps_connection:
                rest_connections(wait)
            self._woken.wait(wait)

    def _round(self) -> float:
        self.round_began = clock.monotonic()
        try:
            wait = self.run_once()
            self.succeeded_at = clock.monotonic()
            return wait
        finally:
            self.round_began = None

    def _pause(self, error: BaseException, failures: int, stopping: threading.Event) -> None:
        """Wait longer after each failure; wake-ups do not count, or a broken loop would spin."""
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(failures - 1, 10))
        # The first of a row of failures is news; the rest would fill the log of a database outage.
        level = logging.WARNING if failures == 1 else logging.DEBUG
        with suppress(Exception):  # a project's logging filter that fails must not cost the thread
            text = "%s failed, next try in %.1f s: %s"
            logger.log(level, text, self.name, pause, one_line(error), exc_info=failures == 1)
        stopping.wait(pause)


class Deadline:
    """How much of a time span is left, by the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self._end = clock.monotonic() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self._end - clock.monotonic())
