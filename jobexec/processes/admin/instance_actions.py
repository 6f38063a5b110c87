"""What operators do to instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobexec import operations
from jobexec.admin.common.actions import Outcome
from jobexec.models import DeadLetterJob

from ..operations.instances import cancel, set_variables
from .common import RowAction
from .forms import ReasonForm, RetryForm, VariableForm


class Cancel(RowAction):
    """Cancel instances, with all that they called."""

    name = "cancel"
    permission = "cancel"
    description = gettext_lazy("Cancel selected %(verbose_name_plural)s…")
    label = gettext_lazy("Cancel…")
    form_class = ReasonForm
    dangerous = True
    warning = gettext_lazy("Their jobs, tasks and timers are removed. A flow first undoes what its steps have done.")
    name_column = "business_key"

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        cancel(key, data["reason"], using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext(
            "%(count)d process instance was cancelled.", "%(count)d process instances were cancelled.", count
        ) % {"count": count}


class Retry(RowAction):
    """Requeue the dead letters of instances, each of which is an incident."""

    name = "retry"
    permission = "retry"
    description = gettext_lazy("Retry the incidents of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Retry its incidents…")
    form_class = RetryForm
    name_column = "business_key"

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        for key in queryset.values_list("pk", flat=True):
            dead = DeadLetterJob.objects.using(using).filter(process_instance_id=str(key))
            if data["job"] is not None:
                dead = dead.filter(pk=data["job"])
            result = operations.requeue(dead, data["retries"], using=using)
            outcome.changed += result.changed
            outcome.skipped |= result.skipped
            if not result.changed and not result.skipped:
                outcome.skipped[key] = _("it has no incident")
        return outcome

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext("%(count)d incident is retried.", "%(count)d incidents are retried.", count) % {"count": count}


class SetVariable(RowAction):
    """Set one variable."""

    name = "set_variable"
    permission = "variables"
    description = gettext_lazy("Set a variable of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Set a variable…")
    form_class = VariableForm
    warning = gettext_lazy("A running process reads the new value at its next step.")
    name_column = "business_key"

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        set_variables(key, {data["name"]: data["value"]}, using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext(
            "The variable %(name)s of %(count)d process instance was set.",
            "The variable %(name)s of %(count)d process instances was set.",
            count,
        ) % {"count": count, "name": data["name"]}
