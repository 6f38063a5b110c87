"""Several executor processes under one command; restarts dead ones, and one after another those that ask for it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from jobexec import clock

from .child import Child
from .report import Report
from .shutdown import Shutdown

logger = logging.getLogger("jobexec.supervisor")

_TURN = 0.2
_STANDS_STILL = 30.0


class Supervisor:
    """Starts ``children`` by exec and keeps them running until a signal comes.

    By exec and not by fork: a forked child would share its parent's identity and database connections. At most one
    child at a time is restarted at its own wish. ``changed`` (for --reload) is called each second and returns changed
    source files, upon which all children are restarted, which ``say`` reports; ``listeners`` (systemd) get the report
    in each turn.
    """

    def __init__(
        self,
        children: Iterable[Child],
        shutdown: Shutdown,
        changed: Callable[[], Sequence[Path]] | None = None,
        listeners: Sequence[Callable[[Report], object]] = (),
        say: Callable[[str], object] = logger.info,
    ) -> None:
        self._children = list(children)
        self._shutdown = shutdown
        self._changed = changed
        self._listeners = listeners
        self._say = say
        self._next_look = 0.0
        self._stopping = self._told = self._left = self._lamented = False
        self._turned_at = clock.monotonic()
        self._report = Report(startup=["starting"], ready=["starting"], status="Starting")
        shutdown.leave = self._leave

    def run(self) -> int:
        """Run the children; returns the worst of their exit codes."""
        while not self._shutdown.requested:
            for child in self._children:
                child.keep()
            self._turn()
            self._recycle()
            if files := self._changes():
                self._reload(files)
            elif self._all_ended():
                break
            self._shutdown.wait(_TURN)
        self._stopping = True
        self._stop_all()
        return max((child.exit_code or 0 for child in self._children), default=0)

    def _turn(self) -> None:
        for child in self._children:
            child.hear()
        self._turned_at = clock.monotonic()
        self._report = self._look()
        for tell in self._listeners:
            tell(self._report)

    def _recycle(self) -> None:
        if any(child.recycling or child.state == "starting" for child in self._children):
            return  # two at the same time would leave two too few; a child that keeps failing holds up no other
        for child in self._children:
            if child.wish:
                child.recycle()
                return

    def _all_ended(self) -> bool:
        codes = [child.exit_code for child in self._children]
        if None in codes:
            return False
        if self._changed is None or not any(codes):
            return True
        if not self._lamented:  # code that cannot start may be repaired by the next change
            self._lamented = True
            self._say("No process could start. They are started again when a source file changes.")
        return False

    def _changes(self) -> Sequence[Path]:
        now = clock.monotonic()
        if self._changed is None or now < self._next_look:
            return []
        self._next_look = now + 1.0
        return self._changed()

    def _reload(self, files: Sequence[Path]) -> None:
        assert self._changed is not None
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        self._say(f"{files[0]}{more} changed: draining and restarting.")
        self._stop_all()
        if self._shutdown.requested:
            return  # the command ends with the exit codes of the children that have just ended
        self._told = self._lamented = False
        # Draining takes time. Files changed meanwhile are loaded by the start, and are no reason to drain again.
        self._changed()
        for child in self._children:
            child.forget()

    def _stop_all(self) -> None:
        """Let all children drain and wait; a second signal is passed on, and then they leave at once."""
        for child in self._children:
            child.drain()
        self._told = True
        if self._left:  # the second signal came before it could be passed on
            self._pass_on()
        self._turn()
        while waiting := [child for child in self._children if not child.wait(0)]:
            waiting[0].wait(_TURN)
            self._turn()

    def _leave(self) -> None:
        if not self._left:
            self._left = True
            if self._told:
                self._pass_on()

    def _pass_on(self) -> None:
        for child in self._children:
            child.leave()

    # Health.

    def report(self) -> Report:
        """The report on all children, as of the last turn; for other threads."""
        still = clock.monotonic() - self._turned_at
        if still <= _STANDS_STILL:
            return self._report
        return replace(self._report, live=[*self._report.live, f"the supervisor has been blocked for {still:.0f} s"])

    def _look(self) -> Report:
        startup = [f"{child.name} has not started yet" for child in self._children if not child.proven]
        ready = list(self._against_ready())
        names = ", ".join(child.name for child in self._children if child.ready)
        return Report(
            startup=startup,
            ready=ready,
            live=list(self._against_live()),
            draining=self._stopping,
            status=f"Not ready: {'; '.join(ready)}" if ready else f"Ready: {names}",
            details={"pid": os.getpid(), "processes": [child.details() for child in self._children]},
        )

    def _against_ready(self) -> Iterator[str]:
        if self._stopping:
            yield "draining"
        elif not any(child.ready for child in self._children):
            yield "no process is ready"

    def _against_live(self) -> Iterator[str]:
        if self._stopping:
            return
        for child in self._children:
            yield from (f"{child.name}: {reason}" for reason in child.against_live())
