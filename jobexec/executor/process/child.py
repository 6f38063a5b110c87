"""One process of a supervisor: restarted when it ends, with a growing delay after each failure."""

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
from .shutdown import EXIT_DRAINED, EXIT_RECYCLED, EXIT_STOPPED, EXIT_UNFINISHED

logger = logging.getLogger("jobexec.supervisor")

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_STABLE = 30.0
_HOPELESS = (1, 2)  # could not start, wrong usage: another try would change nothing
_SILENT = 120.0  # seconds without a report after which a child counts as dead; a handler may hold the GIL for long


class Child:
    """``command`` starts it; ``finite`` means that it may end by itself (--until-empty) and is done then.

    ``kind`` is what the log calls it.

    Each has its own session: Ctrl-C of a terminal reaches the whole foreground group and must count once.
    """

    def __init__(self, name: str, command: Sequence[str], finite: bool = False, kind: str = "Executor process") -> None:
        self.name, self._command, self._finite, self._kind = name, command, finite, kind
        self.forget()

    def forget(self) -> None:
        """Reset it as if never started; for --reload, after which everything may be different."""
        self._process: subprocess.Popen[bytes] | None = None
        self._link: Downward | None = None
        self._started_at = self._heard_at = self._restart_at = 0.0
        self._failures = 0
        self._report: Report | None = None
        #: Whether it was asked to drain in order to be replaced.
        self.recycling = False
        #: How often it was restarted.
        self.restarts = 0
        #: Whether an executor has ever started in it: then later failures to start count as temporary.
        self.proven = False
        #: Its final exit code; None while it runs or is to run again. Killed by signal 9 is 137.
        self.exit_code: int | None = None

    # Life cycle.

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def keep(self) -> None:
        """Start or restart it, if it is time."""
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
        except OSError as error:  # no memory, too many processes: both are temporary
            self._link.close()
            self._fail(f"{self._kind} {self.name} could not be started ({error})")
            return
        self._link.started()

    def _ended(self, pid: int, code: int) -> None:
        lasted = clock.monotonic() - self._started_at
        self._forget_process()
        if code == 0 and self._finite:
            self.exit_code = 0
        elif code == EXIT_RECYCLED or (self.recycling and code in (0, EXIT_UNFINISHED)):
            logger.info("%s %d (%s) ended with %d; a new one replaces it", self._kind, pid, self.name, code)
            self._failures, self.recycling = 0, False
            self.restarts += 1
            self._start()
        elif code == EXIT_STOPPED:
            self.exit_code = EXIT_DRAINED
            logger.info("%s %d (%s) was drained by an operator and is not restarted", self._kind, pid, self.name)
        elif code in _HOPELESS and lasted < _STABLE and not self.proven:
            self.exit_code = code
            logger.error(
                "%s %d (%s) could not start (exit code %d) and will not be restarted",
                self._kind,
                pid,
                self.name,
                code,
            )
        else:
            self._failures = 0 if lasted >= _STABLE else self._failures
            how = f"ended with {code}" if code >= 0 else f"was killed by signal {-code}"
            self._fail(f"{self._kind} {pid} ({self.name}) {how}")

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

    # Orders to the child.

    def drain(self) -> None:
        """Let it end as after a first signal, but only once, even if other processes signal it, too."""
        self.hear()
        if not self.running or self._link is None:
            return
        # Before its first report it does not read orders, and has no jobs in hand.
        if self._report is None or not self._link.order(DRAIN):
            self._signal(signal.SIGTERM)

    def leave(self) -> None:
        """End the child immediately."""
        if self.running:
            # An order is not a signal, and a pending signal swallows a second one of its kind: one of each makes two.
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGINT)

    def recycle(self) -> None:
        """Drain the child in order to replace it, as it requested."""
        self.recycling = self._link is not None and self._link.order(RECYCLE)

    def wait(self, timeout: float) -> bool:
        """Wait for its final end; returns whether it has ended."""
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

    # Reports from the child.

    def hear(self) -> None:
        """Read the child's reports."""
        for report in self._link.reports() if self._process is not None and self._link is not None else ():
            self._report, self._heard_at = report, clock.monotonic()
            if not report.startup:
                self.proven = True

    @property
    def wish(self) -> str | None:
        """The reason why the child requests a restart."""
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
        """Reasons why it is not alive. Waiting to be restarted counts as alive."""
        if self.exit_code:
            return [f"could not start (exit code {self.exit_code})"]
        if self._process is None or self._report is None:
            return []  # a start may wait for its database
        silence = clock.monotonic() - self._heard_at
        if silence > _SILENT:
            return [f"has not reported for {silence:.0f} s"]
        return self._report.live

    def details(self) -> dict[str, Any]:
        """Its part of the supervisor's health report."""
        own = {"node": self.name, "pid": self._process.pid} if self._process is not None else {"node": self.name}
        view = {**own, "state": self.state, "restarts": self.restarts, "ready": self.ready, "wish": self.wish}
        if self.state == "waiting":
            view["restart_in_seconds"] = round(max(0.0, self._restart_at - clock.monotonic()), 1)
        if (report := self._report) is not None and self._process is not None:
            view |= {"reasons": [*report.ready, *report.live], **report.details}
        return view


def _last_code(code: int) -> int:
    """The supervisor's exit code for a child that was asked to end."""
    # SIGTERM kills a child only while it is still starting, and then there was nothing to drain.
    if code in (EXIT_RECYCLED, EXIT_STOPPED, -signal.SIGTERM):
        return EXIT_DRAINED
    # Killed by another signal: as in shells, and not a negative number, which any other exit code would outrank.
    return 128 - code if code < 0 else code
