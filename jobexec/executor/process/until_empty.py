"""When a run with --until-empty is over, and what it leaves for later."""

from __future__ import annotations

from django.db import DatabaseError, InterfaceError
from django.utils.timezone import localtime

from jobexec.operations.reports.pending import Pending, pending

from ...runtime.connections import refresh_connections
from ..job_executor import JobExecutor


class UntilEmpty:
    """Returns whether nothing is due or running and no retry waits; timers in the future are only reported."""

    def __init__(self, executor: JobExecutor) -> None:
        self._executor = executor
        self._pending: dict[str, Pending] = {}
        #: Whether it is over; False if a signal, for example, ended the executor.
        self.reached = False

    def __call__(self) -> bool:
        if not self._executor.idle:
            return False
        try:
            self._pending = {
                using: pending(using, engine.node.scopes) for using, engine in self._executor.engines.items()
            }
        except (DatabaseError, InterfaceError):
            return False  # the database is away; wait for it, as the loops do
        finally:
            refresh_connections()
        # Checked again after the look at the tables: jobs acquired meanwhile are in neither of the first two checks.
        self.reached = all(each.empty for each in self._pending.values()) and self._executor.idle
        return self.reached

    def report(self) -> str:
        """One line for each engine with timers left, or that nothing is left."""
        lines = [
            f"{using}: timers that wait: {each.timers}, the next until {localtime(next_due):%Y-%m-%d %H:%M:%S %Z}."
            for using, each in self._pending.items()
            if each.timers and (next_due := each.next_due_date)
        ]
        return "\n".join(lines) or "Nothing is left to do."
