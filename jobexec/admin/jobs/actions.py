"""Actions on jobs. The permissions of the model Job apply to all job tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobexec import operations
from jobexec.identifiers import as_id
from jobexec.models import SuspendedJob
from jobexec.operations.manage.verbs import VERBS

from ..common.actions import Action, Outcome
from ..common.forms import ConfirmForm, DueDateForm, PriorityForm, ReencryptForm, RetriesForm, SuspendForm
from ..common.tenancy import is_restricted


class JobAction(Action):
    """An action on rows of a job table."""

    name_column = "handler_type"
    #: Its name in :data:`~jobexec.operations.manage.verbs.VERBS`, from which the permission and the texts come.
    verb: ClassVar[str]

    def __init_subclass__(cls) -> None:
        verb = VERBS.get(vars(cls).get("verb", ""))
        if verb is not None:
            cls.permission = verb.permission
            cls.operation = cls.verb if verb.in_batches else None
            cls.warning = cls.warning or verb.warning

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        result = VERBS[self.verb].act(queryset, data, using)
        return Outcome(list(result.changed), dict(result.skipped))

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return VERBS[self.verb].done(count, data)

    def whereabouts(self, request: HttpRequest, keys: Iterable[str], using: str) -> dict[str, str]:
        ids = {key: as_id(key) for key in keys}
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
    """Set how many attempts are left."""

    name, verb = "reset_retries", "set_retries"
    description = gettext_lazy("Set retries of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Set retries…")
    form_class = RetriesForm


class RetryNow(JobAction):
    """Make waiting jobs due now."""

    name = verb = "retry_now"
    description = gettext_lazy("Run selected %(verbose_name_plural)s now")
    label = gettext_lazy("Run now")


class Requeue(JobAction):
    """Give dead letters new attempts."""

    name = verb = "requeue"
    description = gettext_lazy("Requeue selected %(verbose_name_plural)s…")
    label = gettext_lazy("Requeue…")
    form_class = RetriesForm


class Cancel(JobAction):
    """Remove waiting jobs, and ask running jobs to stop."""

    name = verb = "cancel"
    description = gettext_lazy("Cancel selected %(verbose_name_plural)s…")
    label = gettext_lazy("Cancel…")
    form_class = ConfirmForm
    dangerous = True


class Suspend(JobAction):
    """Suspend jobs, now or from a date on, until a date or without an end."""

    name = verb = "suspend"
    description = gettext_lazy("Suspend selected %(verbose_name_plural)s…")
    label = gettext_lazy("Suspend…")
    form_class = SuspendForm


class Activate(JobAction):
    """Let suspended jobs run again."""

    name = verb = "activate"
    description = gettext_lazy("Activate selected %(verbose_name_plural)s")
    label = gettext_lazy("Activate")

    def applies(self, row: Any) -> bool:
        return bool(row.suspend_requested or isinstance(row, SuspendedJob))


class Reschedule(JobAction):
    """Set the due date of jobs."""

    name, verb = "reschedule", "set_due_date"
    description = gettext_lazy("Reschedule selected %(verbose_name_plural)s…")
    label = gettext_lazy("Reschedule…")
    form_class = DueDateForm


class SetPriority(JobAction):
    """Set the priority of jobs."""

    name = verb = "set_priority"
    description = gettext_lazy("Set priority of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Set priority…")
    form_class = PriorityForm


class Delete(JobAction):
    """Delete jobs for good. It has the name of Django's own action and replaces it."""

    name, verb = "delete_selected", "delete"
    description = gettext_lazy("Delete selected %(verbose_name_plural)s…")
    label = gettext_lazy("Delete…")
    form_class = ConfirmForm
    dangerous = True


class EndWait(JobAction):
    """Let jobs go on without their message."""

    name = verb = "end_wait"
    description = gettext_lazy("Continue selected %(verbose_name_plural)s without their message…")
    label = gettext_lazy("Continue without the message…")
    form_class = ConfirmForm

    def applies(self, row: Any) -> bool:
        return row.waits_for is not None


class Reencrypt(JobAction):
    """Encrypt jobs with the newest key."""

    name = verb = "reencrypt"
    description = gettext_lazy("Encrypt selected %(verbose_name_plural)s with the newest key…")
    label = gettext_lazy("Encrypt again…")
    form_class = ReencryptForm
    warning = gettext_lazy(
        "Jobs that are encrypted get the newest key, whatever state they are in. Running jobs are not affected."
    )
