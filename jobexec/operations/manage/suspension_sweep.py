"""Begin and end suspensions: move their jobs, even if processes are killed on the way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db import OperationalError, connections
from django.db.models import Min, Q, QuerySet

from jobexec import clock, signals
from jobexec.identifiers import as_id
from jobexec.models import JOB_TABLES, RUNNABLE_TABLES, AbstractJob, SuspendedJob, Suspension, SuspensionScope, TimerJob
from jobexec.models.suspension import parts_of

from ..messages.deliver import receive_kept
from ..notify.signals import announce
from ..rows.move import move, move_all
from ..rows.routing import free, table_for, wake_for
from ..rows.suspension_cover import covered_rows, lock_suspensions
from ..sql.delete import delete_rows
from ..sql.errors import is_conflict
from ..sql.locks import atomic, lock_rows
from ..targets.for_each import CHANGED_MEANWHILE, for_each
from ..targets.lookup import find_states

_PAGE = 200
#: How many times one walk tries pages again.
_CONFLICTS = 20


def sweep_suspensions(using: str) -> int:
    """Complete the moves for suspensions that have begun or ended; return how many jobs moved.

    Every node calls it, possibly at the same time: each step is done once or is idempotent, and the next call finds
    what a killed process has left. Nothing depends on its timing: acquisition and timers query the suspensions
    themselves. Camunda: TimerSuspendJobDefinitionHandler, TimerActivateJobDefinitionHandler.
    """
    now, count = clock.now(using), 0
    for suspension in due_suspensions(using, now).order_by("pk"):
        count += end(suspension) if suspension.over(now) else begin(suspension)
    return count


def due_suspensions(using: str, at: datetime) -> QuerySet[Suspension]:
    """The suspensions that have begun or ended by then, with moves left to do."""
    begun = Q(swept=False) & (Q(suspend_time=None) | Q(suspend_time__lte=at))
    over = Q(live=None) | Q(activate_time__lte=at)
    return Suspension.objects.using(using).filter(begun | over, scope__in=SuspensionScope.values)


def next_suspension_date(using: str) -> datetime | None:
    """When the next suspension begins or ends; None if no date is set."""
    table = Suspension.objects.using(using).filter(live=True, scope__in=SuspensionScope.values)
    dates = table.aggregate(begin=Min("suspend_time", filter=Q(swept=False)), end=Min("activate_time"))
    return min((date for date in dates.values() if date is not None), default=None)


def begin(suspension: Suspension) -> int:
    """Move the jobs that a suspension in force covers; running jobs finish. Return how many moved."""
    using = suspension._state.db or "default"
    if suspension.scope == SuspensionScope.JOB and not _worth_keeping(suspension, using):
        return 0
    scope: dict[str, Any] = parts_of(suspension.scope, suspension.value)
    if not scope:  # a broken row matches no job
        return 0
    if suspension.since is not None:
        scope["create_time__gte"] = suspension.since
    # In this order, a timer that meanwhile becomes executable is not missed.
    count = sum(_suspend_table(table, using, scope) for table in reversed(RUNNABLE_TABLES))
    # Not if it has been postponed or widened meanwhile: then there are jobs left to move.
    as_seen = {"suspend_time": suspension.suspend_time, "include_jobs": suspension.include_jobs}
    one(suspension).filter(live=True, **as_seen).update(swept=True)
    return count


def one(suspension: Suspension) -> QuerySet[Suspension]:
    """A queryset for the row of this suspension, in the database from which it was read."""
    return Suspension.objects.using(suspension._state.db).filter(pk=suspension.pk)


def _worth_keeping(suspension: Suspension, using: str) -> bool:
    """Return whether a single job's row is still needed: not if the job is gone, nor if there is no end.

    Without an end, the job's own flag is enough, so that the small table stays small.
    """
    job = as_id(suspension.value)
    if job is None or job not in find_states([job], using):
        delete_rows(one(suspension))
        return False
    if suspension.activate_time is not None:
        return True
    for_each(job, using, lambda row: _suspend_own(suspension, row), *JOB_TABLES)
    return False


def _suspend_own(suspension: Suspension, row: AbstractJob) -> str | None:
    """Replace a suspension without an end with the job's own flag."""
    found = lock_suspensions(one(suspension))
    if not found or not found[0].in_force(clock.now(suspension._state.db or "default")) or found[0].activate_time:
        return CHANGED_MEANWHILE
    # A dead letter waits for an operator anyway, and requeueing it overrides its own suspension.
    refusal = None if row.dead else suspend_for_good(row)
    if refusal is None:
        delete_rows(one(suspension))
    return refusal


def suspend_for_good(row: AbstractJob) -> str | None:
    """Suspend a single locked row without an end; return the reason on refusal. A running job finishes first."""
    using = row._state.db or "default"
    if row.locked or not row.runnable:
        type(row)._base_manager.using(using).filter(pk=row.pk).update(suspend_requested=True)
        return None
    return suspend_row(row, suspend_requested=True)


def suspend_row(row: AbstractJob, **changes: Any) -> str | None:
    """Move a locked row to the suspended jobs; return the reason on refusal."""
    using = row._state.db or "default"
    receive_kept(using, [row])
    moved = move(row, SuspendedJob, **changes, suspended_at=clock.now(using))
    if moved is None:
        return CHANGED_MEANWHILE
    announce(signals.job_suspended, using, SuspendedJob, jobs=[moved])
    return None


def _suspend_table(table: type[AbstractJob], using: str, scope: dict[str, Any]) -> int:
    now = clock.now(using)

    def suspend_page(rows: list[Any]) -> int:
        # Under the suspension's lock: it may have been lifted since this walk began, and then the jobs would never be
        # moved back.
        covered = covered_rows(using, rows)
        receive_kept(using, covered)
        moved = move_all(covered, SuspendedJob, suspended_at=clock.now(using))
        if moved:
            announce(signals.job_suspended, using, SuspendedJob, jobs=moved)
        return len(moved)

    return _in_pages(table._base_manager.using(using).filter(free(table, now), **scope), suspend_page)[0]


def _in_pages(rows: QuerySet[Any], act: Callable[[list[Any]], int]) -> tuple[int, bool]:
    """The sum of ``act`` over pages of locked rows, one transaction each, and whether all rows could be locked.

    Pages by ascending id: rows that are just being acquired are skipped, and must not be met again and again.
    """
    count, last, complete, conflicts = 0, None, True, 0
    while True:
        try:
            with atomic(rows.db):
                page = list(
                    (rows.filter(pk__gt=last) if last else rows).order_by("pk").values_list("pk", flat=True)[:_PAGE]
                )
                if not page:
                    return count, complete
                locked = list(lock_rows(rows.filter(pk__in=page).order_by("pk"), skip_locked=True))
                moved = act(locked)
        except OperationalError as error:
            # InnoDB may end it for an acquisition that has skipped a row of the page: nothing of the page is done.
            conflicts += 1
            if connections[rows.db].in_atomic_block or not is_conflict(error) or conflicts > _CONFLICTS:
                raise
            continue
        complete, last = complete and len(locked) == len(page), page[-1]
        count += moved


def end(suspension: Suspension) -> int:
    """Activate the jobs of an ended suspension, unless another covers them, and delete it last.

    Returns how many moved. A process that is killed on the way leaves a row with ``live`` NULL for the next sweep.
    """
    using = suspension._state.db or "default"
    if not _mark_ended(suspension, using):
        return 0
    count, complete = 0, True
    if suspension.scope != SuspensionScope.JOB or as_id(suspension.value):
        count, complete = activate_all(using, parts_of(suspension.scope, suspension.value))
    if complete:
        delete_rows(one(suspension))  # it cannot become live again: suspending the scope anew creates another row
    return count


def _mark_ended(suspension: Suspension, using: str) -> bool:
    """Mark the suspension as ended, if it is. Waits for transactions that are moving jobs that it covers."""
    with atomic(using):
        found = lock_suspensions(one(suspension))
        if not found or not found[0].over(clock.now(using)):
            return False
        if found[0].live:
            one(suspension).update(live=None)
    return True


def activate_all(using: str, scope: dict[str, str]) -> tuple[int, bool]:
    """Activate the suspended jobs of a scope; return how many moved, and whether none was skipped.

    A scope without columns, from a broken row, matches no job.
    """
    if not scope:
        return 0, True
    rows = SuspendedJob.objects.using(using).filter(suspend_requested=False, **scope)
    return _in_pages(rows, lambda page: activate_rows(using, page))


def activate_rows(using: str, rows: list[SuspendedJob]) -> int:
    """Make those of the locked rows runnable that no suspension covers any more; return how many."""
    covered, now = covered_rows(using, rows), clock.now(using)
    count, left = 0, [row for row in rows if row not in covered]
    for to in reversed(RUNNABLE_TABLES):
        those = [row for row in left if table_for(row, later=bool(row.due_date and row.due_date > now)) is to]
        moved = move_all(those, to)
        if moved:
            announce(signals.job_activated, using, to, jobs=moved)
            wake_for(using, moved, timers=to is TimerJob)
            count += len(moved)
    return count
