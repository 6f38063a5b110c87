"""Actions that repair single jobs: unlock, execute, move to the dead letters, recalculate due dates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy, ngettext, ngettext_lazy

from jobexec.exceptions import JobExecError, JobStateError
from jobexec.executor.execute_now import execute_by_hand
from jobexec.operations.manage.nodes import living_nodes

from ..common.actions import Action, Outcome
from ..common.forms import ConfirmForm, ReasonForm, RecalculateForm
from .actions import JobAction

#: The request waits for each of them.
MOST_EXECUTED = 10


class RecalculateDueDate(JobAction):
    """Recalculate the due dates of waiting retries."""

    name = verb = "recalculate_due_date"
    description = gettext_lazy("Recalculate the due date of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Recalculate due date…")
    form_class = RecalculateForm
    warning = gettext_lazy(
        "Waiting retries get the due date that their retry plan now specifies. Timers keep the date that they were "
        "given and are skipped."
    )

    def applies(self, row: Any) -> bool:
        return bool(row.attempts or row.snoozes)


class Unlock(JobAction):
    """Unlock jobs whose owner is gone."""

    name = verb = "unlock"
    description = gettext_lazy("Unlock selected %(verbose_name_plural)s…")
    label = gettext_lazy("Unlock…")
    form_class = ConfirmForm
    warning = gettext_lazy(
        "Jobs whose owner is gone become available to other nodes. Jobs of a living owner are skipped, because they "
        "would run twice. A node whose lease has expired is declared dead."
    )

    def applies(self, row: Any) -> bool:
        return bool(row.locked) and not living_nodes(row._state.db).filter(lock_owner=row.lock_owner).exists()


class GiveBack(Unlock):
    """Unlock jobs that external workers hold."""

    def applies(self, row: Any) -> bool:
        return bool(row.locked)

    warning = gettext_lazy(
        "Other workers may fetch the jobs immediately, even if the workers that hold them are still working on them: "
        "a job may be executed twice."
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
    report = ngettext_lazy("%(count)d job executed.", "%(count)d jobs executed.", "count")
    done = Action.done

    def applies(self, row: Any) -> bool:
        return not row.locked

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


class MoveToDeadLetters(JobAction):
    """Turn jobs into dead letters."""

    name, verb = "move_to_dead_letters", "move_to_dead_letter"
    description = gettext_lazy("Move selected %(verbose_name_plural)s to the dead letters…")
    label = gettext_lazy("Move to dead letters…")
    form_class = ReasonForm
