"""Actions on jobs. The permissions of the model Job apply to all job tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobexec import operations
from jobexec.operations import OperationResult

from ..common import display
from ..common.actions import Action, Outcome
from ..common.forms import ConfirmForm, DueDateForm, PriorityForm, RetriesForm, SuspendForm
from ..common.search import as_uuid
from ..common.tenancy import is_restricted


class JobAction(Action):
    """An action on rows of a job table."""

    name_column = "handler_type"

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        result = self.operate(queryset, using, data)
        return Outcome(list(result.changed), dict(result.skipped))

    def operate(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> OperationResult:
        """Call the operation."""
        raise NotImplementedError

    def whereabouts(self, request: HttpRequest, keys: Iterable[str], using: str) -> dict[str, str]:
        ids = {key: as_uuid(key) for key in keys}
        # Users limited to some tenants get the same answer for other tenants' jobs as for jobs that never existed.
        tell = ids and not is_restricted(request)
        states = operations.find_states([id for id in ids.values() if id is not None], using) if tell else {}
        reasons = {}
        for key, id in ids.items():
            table = states.get(id) if id else None
            gone = _("it is done or deleted")
            reasons[key] = gone if table is None else _("its state is now %(state)s") % {"state": _(table.state)}
        return reasons


class ResetRetries(JobAction):
    """Set the number of attempts left."""

    name, permission = "reset_retries", "retry"
    operation = "set_retries"
    description = gettext_lazy("Set retries of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Set retries…")
    form_class = RetriesForm

    def operate(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> OperationResult:
        return operations.set_retries(queryset, data["retries"], using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext("%(count)d job has %(retries)d retries.", "%(count)d jobs have %(retries)d retries.", count)
        return text % {"count": count, **data}


class RetryNow(JobAction):
    """Make waiting jobs due now."""

    name, permission = "retry_now", "retry"
    operation = "retry_now"
    description = gettext_lazy("Run selected %(verbose_name_plural)s now")
    label = gettext_lazy("Run now")

    def operate(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> OperationResult:
        return operations.retry_now(queryset, using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext("%(count)d job is due now.", "%(count)d jobs are due now.", count) % {"count": count}


class Requeue(JobAction):
    """Give dead letters new attempts."""

    name, permission = "requeue", "requeue"
    operation = "requeue"
    description = gettext_lazy("Requeue selected %(verbose_name_plural)s…")
    label = gettext_lazy("Requeue…")
    form_class = RetriesForm

    def operate(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> OperationResult:
        return operations.requeue(queryset, data["retries"], using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext(
            "%(count)d job requeued with %(retries)d retries.",
            "%(count)d jobs requeued with %(retries)d retries.",
            count,
        )
        return text % {"count": count, **data}


class Cancel(JobAction):
    """Remove waiting jobs, and ask running jobs to stop."""

    name, permission = "cancel", "cancel"
    operation = "cancel"
    description = gettext_lazy("Cancel selected %(verbose_name_plural)s…")
    label = gettext_lazy("Cancel…")
    form_class = ConfirmForm
    warning = gettext_lazy(
        "Waiting jobs are removed and never run. Running jobs are asked to stop; their handlers decide whether and "
        "when they do. They are not retried."
    )
    dangerous = True

    def operate(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> OperationResult:
        return operations.cancel(queryset, using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext(
            "%(count)d job cancelled. If it is running, it has been asked to stop.",
            "%(count)d jobs cancelled. Those that are running have been asked to stop.",
            count,
        )
        return text % {"count": count}


class Suspend(JobAction):
    """Suspend jobs, now or from a date on, until a date or without an end."""

    name, permission = "suspend", "suspend"
    operation = "suspend"
    description = gettext_lazy("Suspend selected %(verbose_name_plural)s…")
    label = gettext_lazy("Suspend…")
    form_class = SuspendForm

    def operate(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> OperationResult:
        result = operations.suspend(queryset, using=using, at=data["at"], until=data["until"])
        assert isinstance(result, OperationResult)
        return result

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext(
            "%(count)d job suspended%(dates)s. If it is running, it finishes; only its retry is held back.",
            "%(count)d jobs suspended%(dates)s. Those that are running finish; only their retries are held back.",
            count,
        )
        return text % {"count": count, "dates": dates(data)}


def dates(data: Mapping[str, Any]) -> str:
    """The chosen period, to append to a word: " from … until …"; empty for now and without an end."""
    begin = _(" from %(moment)s") % {"moment": display.absolute(data["at"])} if data.get("at") else ""
    end = _(" until %(moment)s") % {"moment": display.absolute(data["until"])} if data.get("until") else ""
    return begin + end


class Activate(JobAction):
    """Let suspended jobs run again."""

    name, permission = "activate", "activate"
    operation = "activate"
    description = gettext_lazy("Activate selected %(verbose_name_plural)s")
    label = gettext_lazy("Activate")

    def operate(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> OperationResult:
        result = operations.activate(queryset, using=using)
        assert isinstance(result, OperationResult)
        return result

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext("%(count)d job activated.", "%(count)d jobs activated.", count) % {"count": count}


class Reschedule(JobAction):
    """Set the due date of jobs."""

    name, permission = "reschedule", "reschedule"
    operation = "set_due_date"
    description = gettext_lazy("Reschedule selected %(verbose_name_plural)s…")
    label = gettext_lazy("Reschedule…")
    form_class = DueDateForm

    def operate(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> OperationResult:
        return operations.set_due_date(queryset, data["due_date"], using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext("%(count)d job is due %(due)s.", "%(count)d jobs are due %(due)s.", count)
        return text % {"count": count, "due": _moment(data)}


def _moment(data: Mapping[str, Any]) -> str:
    due: datetime = data["due_date"]
    return display.absolute(due)


class SetPriority(JobAction):
    """Set the priority of jobs."""

    name, permission = "set_priority", "prioritize"
    operation = "set_priority"
    description = gettext_lazy("Set priority of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Set priority…")
    form_class = PriorityForm

    def operate(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> OperationResult:
        return operations.set_priority(queryset, data["priority"], using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext("%(count)d job has priority %(priority)d.", "%(count)d jobs have priority %(priority)d.", count)
        return text % {"count": count, **data}


class Delete(JobAction):
    """Delete jobs for good. It has the name of Django's own action and replaces it."""

    name, permission = "delete_selected", "delete"
    operation = "delete"
    description = gettext_lazy("Delete selected %(verbose_name_plural)s…")
    label = gettext_lazy("Delete…")
    form_class = ConfirmForm
    warning = gettext_lazy("Deleted jobs never run and cannot be restored. Running jobs are left alone.")
    dangerous = True

    def operate(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> OperationResult:
        return operations.delete_jobs(queryset, using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext("%(count)d job deleted.", "%(count)d jobs deleted.", count) % {"count": count}
