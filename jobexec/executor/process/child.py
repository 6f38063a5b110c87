"""One process of a supervisor: started again when it ends, and later each time that it fails."""

from __future__ import annotations

import logging
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from jobexec import clock

from .control_pipe import DRAIN, RECYCLE, Downward
from .report import Report
from .shutdown import EXIT_DRAINED, EXIT_RECYCLED, EXIT_UNFINISHED

logger = logging.getLogger("jobexec.supervisor")

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_STABLE = 30.0
_HOPELESS = (1, 2)  # could not start, wrong usage: trying again would change nothing
_SILENT = 120.0  # seconds without a report after which a child does not live; a handler may hold the GIL for long


class Child:
    """``command`` starts it; ``finite`` says that it may end by itself (--until-empty) and is done then.

    Each is in a session of its own: Ctrl-C of a terminal reaches the whole foreground group and must count once.
    """

    def __init__(self, name: str, command: Sequence[str], finite: bool = False) -> None:
        self.name, self._command, self._finite = name, command, finite
        self.forget()

    def forget(self) -> None:
        """As if it had never been started; for --reload, after which everything may be different."""
        self._process: subprocess.Popen[bytes] | None = None
        self._link: Downward | None = None
        self._started_at = self._heard_at = self._restart_at = 0.0
        self._failures = 0
        self._report: Report | None = None
        #: Whether it has been told to drain so that a fresh one takes its place.
        self.recycling = False
        #: How often it was started again.
        self.restarts = 0
        #: Whether an executor has ever started in it: what it did once it can do again, if not at once.
        self.proven = False
        #: How it has ended for good; None while it runs or is to run again. Killed by signal 9 is 137.
        self.exit_code: int | None = None

    # Its life.

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def keep(self) -> None:
        """Start it, or start it again, if it is time."""
        if self.exit_code is not None:
            return
        if self._process is None:
            if clock.monotonic() >= self._restart_at:
                self._start()
            return
        code = self._process.poll()
        if code is not None:
            self.hear()
            self._ended(self._process.pid, code)

    def _start(self) -> None:
        self._link = Downward()
        self._report, self._started_at = None, clock.monotonic()
        self._heard_at = self._started_at
        try:
            self._process = subprocess.Popen(
                self._command,
                env=self._link.environment,
                pass_fds=[self._link.inherited],
                start_new_session=True,
            )
        except OSError as error:  # no memory, too many processes: both pass
            self._link.close()
            self._fail(f"Executor process {self.name} could not be started ({error})")
            return
        self._link.started()

    def _ended(self, pid: int, code: int) -> None:
        lasted = clock.monotonic() - self._started_at
        self._forget_process()
        if code == 0 and self._finite:
            self.exit_code = 0
        elif code == EXIT_RECYCLED or (self.recycling and code in (0, EXIT_UNFINISHED)):
            logger.info("Executor process %d (%s) ended with %d; a new one replaces it", pid, self.name, code)
            self._failures, self.recycling = 0, False
            self.restarts += 1
            self._start()
        elif code in _HOPELESS and lasted < _STABLE and not self.proven:
            self.exit_code = code
            logger.error(
                "Executor process %d (%s) could not start (exit code %d) and will not be restarted",
                pid,
                self.name,
                code,
            )
        else:
            self._failures = 0 if lasted >= _STABLE else self._failures
            how = f"ended with {code}" if code >= 0 else f"was killed by signal {-code}"
            self._fail(f"Executor process {pid} ({self.name}) {how}")

    def _fail(self, what: str) -> None:
        self._failures += 1
        self.restarts += 1
        self.recycling = False
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(self._failures - 1, 10))
        logger.error("%s; restarting in %.0f s", what, pause)
        self._restart_at = clock.monotonic() + pause

    def _forget_process(self) -> None:
        self._process = None
        if self._link is not None:
            self._link.close()

    # What is said to it.

    def drain(self) -> None:
        """Let it end as a first signal does, but only once, even if others signal it, too."""
        self.hear()
        if not self.running or self._link is None:
            return
        # Before its first report nobody listens to orders, and nothing is in its hands.
        if self._report is None or not self._link.order(DRAIN):
            self._signal(signal.SIGTERM)

    def leave(self) -> None:
        """Let it end now."""
        if self.running:
            # An order was no signal, and one that is pending swallows a second one of its kind: one of each is two.
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGINT)

    def recycle(self) -> None:
        """Grant its wish to be started afresh."""
        self.recycling = self._link is not None and self._link.order(RECYCLE)

    def wait(self, timeout: float) -> bool:
        """Wait for its end, for good; whether it has come."""
        if self._process is None:
            return True
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        self._forget_process()
        self.exit_code = _last_code(code) if self.exit_code is None else self.exit_code
        return True

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    # What it says.

    def hear(self) -> None:
        """Take in what it has reported."""
        for report in self._link.reports() if self._process is not None and self._link is not None else ():
            self._report, self._heard_at = report, clock.monotonic()
            if not report.startup:
                self.proven = True

    @property
    def wish(self) -> str | None:
        """Why it wants to be started afresh."""
        return self._report.wish if self._report is not None and self.running else None

    @property
    def state(self) -> str:
        """starting, serving, draining, waiting (to be restarted) or ended."""
        if self.exit_code is not None:
            return "ended"
        if self._process is None:
            return "waiting"
        if self._report is None or self._report.startup:
            return "starting"
        return "draining" if self._report.draining else "serving"

    @property
    def ready(self) -> bool:
        """Whether it takes jobs."""
        return self.state == "serving" and self._report is not None and not self._report.ready

    def against_live(self) -> list[str]:
        """Why it does not live. Waiting to be restarted is living."""
        if self.exit_code:
            return [f"could not start (exit code {self.exit_code})"]
        if self._process is None or self._report is None:
            return []  # a start may wait for its database
        silence = clock.monotonic() - self._heard_at
        if silence > _SILENT:
            return [f"has not reported for {silence:.0f} s"]
        return self._report.live

    def details(self) -> dict[str, Any]:
        """What the supervisor's health says about it."""
        own = {"node": self.name, "pid": self._process.pid} if self._process is not None else {"node": self.name}
        view = {**own, "state": self.state, "restarts": self.restarts, "ready": self.ready, "wish": self.wish}
        if self.state == "waiting":
            view["restart_in_seconds"] = round(max(0.0, self._restart_at - clock.monotonic()), 1)
        if (report := self._report) is not None and self._process is not None:
            view |= {"reasons": [*report.ready, *report.live], **report.details}
        return view


def _last_code(code: int) -> int:
    """What the end of a child that was told to end means for the whole."""
    # SIGTERM ends a child only as long as it is still starting, and then there was nothing to drain.
    if code in (EXIT_RECYCLED, -signal.SIGTERM):
        return EXIT_DRAINED
    # Killed by another signal: as shells say it, and not a negative number that the best exit code would beat.
    return 128 - code if code < 0 else code
