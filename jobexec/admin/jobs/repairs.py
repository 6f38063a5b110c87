"""What a person does to single jobs that stand where they should not: free, give up, let wait anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy, ngettext

from jobexec.exceptions import JobExecError, JobStateError
from jobexec.executor.execute_now import execute_by_hand
from jobexec.operations import OperationResult
from jobexec.operations.manage.dead_letters import move_to_dead_letter
from jobexec.operations.manage.due_dates import recalculate_due_date
from jobexec.operations.manage.unlock import unlock

from ..common.actions import Outcome
from ..common.forms import ConfirmForm, ReasonForm, RecalculateForm
from .actions import JobAction

#: Each takes its time in the request.
MOST_EXECUTED = 10


class RecalculateDueDate(JobAction):
    """Let waiting retries wait anew."""

    name, permission = "recalculate_due_date", "reschedule"
    description = gettext_lazy("Recalculate the due date of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Recalculate due date…")
    form_class = RecalculateForm
    warning = gettext_lazy(
        "Waiting retries get the date that their retry plan says now. A timer was given its date and is left alone."
    )

    def operate(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> OperationResult:
        return recalculate_due_date(queryset, from_creation=data["from_creation"], using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext("%(count)d job waits anew.", "%(count)d jobs wait anew.", count) % {"count": count}


class Unlock(JobAction):
    """Take jobs from owners that are gone."""

    name, permission = "unlock", "unlock"
    description = gettext_lazy("Unlock selected %(verbose_name_plural)s…")
    label = gettext_lazy("Unlock…")
    form_class = ConfirmForm
    warning = gettext_lazy(
        "Jobs whose owner is gone are given to others. As long as the owner lives they are left alone: a job would run "
        "twice. A node whose lease has run out is declared dead."
    )

    def operate(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> OperationResult:
        return unlock(queryset, using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext("%(count)d job unlocked.", "%(count)d jobs unlocked.", count) % {"count": count}


class GiveBack(Unlock):
    """Take jobs from workers outside."""

    warning = gettext_lazy(
        "Other workers may fetch the jobs at once, whatever those do that have them: a job may be done twice."
    )


class ExecuteNow(JobAction):
    """Run jobs in the process of the admin, while the request waits."""

    name, permission = "execute_now", "execute"
    description = gettext_lazy("Execute selected %(verbose_name_plural)s now…")
    label = gettext_lazy("Execute now…")
    form_class = ConfirmForm
    warning = gettext_lazy(
        "The job runs in the process that serves this page, and the page waits until it has ended. A failure costs a "
        "retry."
    )
    dangerous = True

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        ids, outcome = list(queryset.values_list("pk", flat=True)[: MOST_EXECUTED + 1]), Outcome()
        if len(ids) > MOST_EXECUTED:
            text = ngettext("Choose at most %(count)d job.", "Choose at most %(count)d jobs.", MOST_EXECUTED)
            raise JobStateError(text % {"count": MOST_EXECUTED})
        for id in ids:
            try:
                failure = execute_by_hand(id, using=using)
            except JobExecError as error:
                outcome.skipped[id] = str(error).rstrip(".")
            else:
                if failure is None:
                    outcome.changed.append(id)
                else:
                    outcome.failed[id] = failure.message
        return outcome

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext("%(count)d job executed.", "%(count)d jobs executed.", count) % {"count": count}


class MoveToDeadLetters(JobAction):
    """Give jobs up, and leave them for a person."""

    name, permission = "move_to_dead_letters", "bury"
    description = gettext_lazy("Move selected %(verbose_name_plural)s to the dead letters…")
    label = gettext_lazy("Move to dead letters…")
    form_class = ReasonForm
    warning = gettext_lazy(
        "They are not tried again until somebody requeues them, and each has an incident. Running jobs are left alone."
    )

    def operate(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> OperationResult:
        return move_to_dead_letter(queryset, data["reason"], using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext("%(count)d job is a dead letter now.", "%(count)d jobs are dead letters now.", count)
        return text % {"count": count}
