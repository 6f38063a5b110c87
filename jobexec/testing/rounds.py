"""The work of a node's other loops, one round each, in the caller's thread."""

from __future__ import annotations

import contextvars
from datetime import datetime, timedelta

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import HandlerNotFound
from jobexec.executor.run.execution import failure_of
from jobexec.handlers.registry import get_history_handler, known_names
from jobexec.handlers.schedules import declarations
from jobexec.operations.maintenance.history_jobs import HistoryRecord, next_history_date, write_history
from jobexec.operations.maintenance.timers import next_due_date, trigger_due_timers
from jobexec.operations.manage.suspension_sweep import sweep_suspensions
from jobexec.operations.messages.deliver import deliver, next_delivery
from jobexec.operations.nodes.leases import declare_dead
from jobexec.operations.reports.resources import resource_status
from jobexec.operations.resources.promote import blocked_resources, promote
from jobexec.operations.rows.tallies import look_at_all
from jobexec.operations.schedules.firing import fire_due
from jobexec.operations.schedules.jobs import scheduled_jobs
from jobexec.operations.schedules.sync import Declared, sync_schedules
from jobexec.operations.settle.recover import recover_expired_locks, recover_node
from jobexec.operations.values.failure import Failure

from .clocks import follow_the_process
from .commits import own_transaction
from .steps import Steps

_PAGE = 100


class Rounds(Steps):
    """Timers, schedules, suspensions, history and recovery, one round at a time."""

    reraise = True
    _synchronised = False

    def _raises(self, reraise: bool | None) -> bool:
        return self.reraise if reraise is None else reraise

    def run_suspensions(self) -> int:
        """Move jobs for suspensions that begin or end; returns how many."""
        with own_transaction(self.using):
            return sweep_suspensions(self.using)

    def run_timers(self) -> int:
        """Move due timers on, and blocked jobs if their message or their resources allow; returns how many timers.

        Runs none of them.
        """
        follow_the_process(self.using)
        self.run_messages()
        with own_transaction(self.using):
            look_at_all(self.using)
        count, moved = 0, _PAGE
        while moved == _PAGE:
            with own_transaction(self.using):
                moved = trigger_due_timers(self.using, _PAGE)
            count += moved
        self.run_promotions()
        return count

    def run_messages(self) -> int:
        """Deliver messages, and end the waits whose time is over; returns how many jobs continued, but runs none."""
        follow_the_process(self.using)
        count, due = 0, next_delivery(self.using)
        while due is not None and due <= clock.now(self.using):
            with own_transaction(self.using):
                done = deliver(self.using, _PAGE)
            count += done.received + done.ended
            due = next_delivery(self.using) if done.more else None
        return count

    def run_promotions(self) -> int:
        """Give blocked jobs their permits, as far as their resources allow; returns how many. Runs none of them."""
        count, moved = 0, _PAGE
        while moved and get_settings().resources:
            with own_transaction(self.using):
                moved = promote(self.using, blocked_resources(self.using), _PAGE).moved
            count += moved
        return count

    def run_schedules(self) -> int:
        """Fire due schedules; returns how many jobs they created. Runs none of them.

        The first call also writes the schedules declared in code, as a node does when it starts: only later times
        fire. Raises a handler's error about a schedule whose arguments do not fit.
        """
        follow_the_process(self.using)
        made, more = 0, True
        with own_transaction(self.using):
            if not self._synchronised:
                sync_schedules(self.using, [Declared(*row) for row in declarations(self.using)], known_names())
        self._synchronised = True
        while more:
            with own_transaction(self.using):
                fired = fire_due(self.using, scheduled_jobs(), _PAGE)
            if fired.failed:
                raise next(iter(fired.failed.values()))
            made, more = made + fired.jobs, fired.more
        return made

    def run_history(self, *, reraise: bool | None = None) -> int:
        """Let the history handlers write due records; returns how many rows were processed."""
        writer, count = _Writer(self.using, self.node), 0
        while (due := next_history_date(self.using)) is not None and due <= clock.now(self.using):
            with own_transaction(self.using):
                looked_at = write_history(self.using, _PAGE, writer)
            count += looked_at
            if not looked_at:
                break
        if writer.errors and self._raises(reraise):
            raise writer.errors[0]
        return count

    def recover(self) -> int:
        """Release the jobs of dead nodes, and expired locks; returns how many nodes were dead."""
        with own_transaction(self.using):
            dead = declare_dead(self.using, but=self.owner)
            for node in dead:
                recover_node(self.using, node)
            recover_expired_locks(self.using)
        return len(dead)

    def _advance(self) -> bool:
        """Move the controlled clock to the next date at which a job is due; returns whether there is one."""
        frozen = clock.frozen_clock()
        if frozen is None:
            raise RuntimeError(
                "advance=True moves a controlled clock, but none is active: use controlled_clock() or the fixture "
                "jobexec_clock."
            )
        using = self.using
        found = (next_due_date(using), next_delivery(using), next_history_date(using), _next_permit(using))
        dates = [date for date in found if date is not None]
        if not dates:
            return False
        frozen.tick(max(timedelta(0), min(dates) - frozen.now))
        return True


def _next_permit(using: str) -> datetime | None:
    """When the rate or the breaker of a resource lets the next of its waiting jobs begin; None if none waits for it."""
    if not get_settings().resources:
        return None
    found = resource_status(using, blocked_resources(using))
    return min((each.until for each in found if each.waiting and each.until is not None), default=None)


class _Writer:
    """Writes recorded history, as the history loop does, and collects the errors."""

    def __init__(self, using: str, node_name: str) -> None:
        self.using, self.node_name = using, node_name
        self.errors: list[BaseException] = []

    def write(self, handler_type: str, records: list[HistoryRecord]) -> None:
        """In a fresh context, as for a job."""
        contextvars.Context().run(get_history_handler(handler_type).function, records)

    def failure_of(self, handler_type: str, error: BaseException) -> Failure:
        """The failure to record for an error."""
        if not any(error is each for each in self.errors):
            self.errors.append(error)
        try:
            handler = get_history_handler(handler_type)
        except HandlerNotFound:
            handler = None
        return failure_of(error, self.using, handler)
