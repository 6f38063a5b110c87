"""Recalculate the due dates of waiting retries."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from jobexec import clock
from jobexec.exceptions import DoNotRetry, InvalidJob, InvalidRetryPlan
from jobexec.models import AbstractJob, JobDefinition, SuspendedJob, TimerJob
from jobexec.retry import RetryPlan, default_plan

from ..audit import audited
from ..notify.wake import wake_on_commit
from ..rows.move import move
from ..rows.routing import is_external, table_for, wake_for
from ..targets.for_each import CHANGED_MEANWHILE, OperationResult, Target, database_of, for_each

_FIRST_RUN = gettext_noop("it waits for its first run at an explicit date: set a due date instead")


@audited
def recalculate_due_date(target: Target, *, from_creation: bool = False, using: str | None = None) -> OperationResult:
    """Recalculate the due dates of waiting retries by their retry plan, from now or from the jobs' creation.

    Camunda's recalculateJobDuedate evaluates the expression of a timer again, from now or from the creation. Here, a
    timer has a date instead of an expression, and is refused. Only the back-off of a retry follows a rule, so this
    applies a plan that was changed in the row (or in the code, for rows that name no plan) to jobs that already wait.
    The plan is the job's own, otherwise its definition's, otherwise the default; only executors know a plan that is a
    function, so the default is used instead. External jobs are refused: their workers decide. A date that has passed
    makes the job due immediately. A suspended job gets the date and stays suspended.
    """
    if not isinstance(from_creation, bool):
        raise InvalidJob(f"from_creation: expected True or False, got {from_creation!r}.")
    database = database_of(target, using)
    return for_each(target, database, lambda row: _recalculate(database, row, from_creation), TimerJob, SuspendedJob)


def _recalculate(using: str, row: AbstractJob, from_creation: bool) -> str | None:
    now = clock.now(using)
    if is_external(row):
        return gettext_noop("its workers decide how long it waits: set a due date instead")
    if not (row.attempts or row.snoozes) or row.due_date is None:
        return _FIRST_RUN
    try:
        due = _due_date(using, row, row.create_time if from_creation else now)
    except DoNotRetry:
        return gettext_noop("its retry plan allows no further attempt")
    except (InvalidRetryPlan, OverflowError) as error:
        return _("its retry plan is broken: %(error)s") % {"error": error}
    if isinstance(row, TimerJob) and due <= now:
        if move(row, table_for(row, later=False), due_date=due) is None:
            return CHANGED_MEANWHILE
        wake_for(using, [row])
        return None
    type(row)._base_manager.using(using).filter(pk=row.pk).update(due_date=due)
    wake_on_commit(using, timers=True)
    return None


def _due_date(using: str, row: AbstractJob, start: datetime) -> datetime:
    # The number of the failed attempt, as at the failure: conflicts do not count.
    return _plan(using, row).next_due_date(start, max(1, row.attempts - row.conflicts))


def _plan(using: str, row: AbstractJob) -> RetryPlan:
    text = row.retry_plan
    if not text:
        definition = JobDefinition.objects.using(using).filter(pk=row.job_definition_id)
        text = definition.values_list("retry_plan", flat=True).first() or ""
    return RetryPlan.parse(text) if text else default_plan()
