"""Actions on all jobs of a definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, ngettext_lazy

from jobexec import operations
from jobexec.models import RUNNABLE_TABLES, AbstractJob, Batch, DeadLetterJob, JobDefinition, SuspendedJob
from jobexec.operations.batches.definitions import (
    clear_overriding_priority,
    override_priority,
    set_retries_by_definition,
)
from jobexec.operations.manage.verbs import period

from ..common import display
from ..common.actions import Outcome, RowAction
from ..common.forms import LiftForm, OverrideForm, RetriesForm, SuspendScopeForm


class DefinitionAction(RowAction):
    """An operation on the jobs of definitions, one definition at a time."""

    tables: ClassVar[tuple[type[AbstractJob], ...]] = ()
    """Where the jobs are that it changes at once."""

    def jobs(self, queryset: QuerySet[Any]) -> list[QuerySet[Any]]:
        ids = list(queryset.values_list("pk", flat=True))
        return [table._base_manager.using(queryset.db).filter(job_definition_id__in=ids) for table in self.tables]


class SuspendDefinition(DefinitionAction):
    """Suspend all jobs of a handler, including jobs that are created later."""

    name, permission = "suspend", "suspend"
    tables = RUNNABLE_TABLES
    description = gettext_lazy("Suspend the jobs of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Suspend…")
    form_class = SuspendScopeForm
    warning = gettext_lazy("This also applies to jobs that are created later. Running jobs finish.")

    def operate(self, key: str, using: str, data: Mapping[str, Any]) -> str | None:
        operations.suspend(job_definition_id=key, using=using, **data)
        return None

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext("%(count)d definition suspended%(dates)s.", "%(count)d definitions suspended%(dates)s.", count)
        return text % {"count": count, "dates": period(data)}


class ActivateDefinition(DefinitionAction):
    """Activate all jobs of a handler, now or at a date."""

    name, permission = "activate", "activate"
    tables = (SuspendedJob,)
    description = gettext_lazy("Activate the jobs of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Activate…")
    form_class = LiftForm
    warning = gettext_lazy(
        "Jobs that something else suspends stay suspended. Activating immediately also cancels a planned suspension."
    )

    def operate(self, key: str, using: str, data: Mapping[str, Any]) -> str | None:
        operations.activate(job_definition_id=key, using=using, at=data["at"])
        return None

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        if data["at"]:
            text = ngettext(
                "The suspension of %(count)d definition ends %(at)s.",
                "The suspensions of %(count)d definitions end %(at)s.",
                count,
            )
            return text % {"count": count, "at": display.absolute(data["at"])}
        text = ngettext("%(count)d definition activated.", "%(count)d definitions activated.", count)
        return text % {"count": count}


class OverridePriority(DefinitionAction):
    """Override the priority of the code."""

    name, permission = "override_priority", "prioritize"
    description = gettext_lazy("Override the priority of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Override priority…")
    form_class = OverrideForm
    warning = gettext_lazy("New jobs get this priority within seconds, whatever their code says.")
    report = ngettext_lazy(
        "The jobs of %(count)d definition get priority %(priority)d.",
        "The jobs of %(count)d definitions get priority %(priority)d.",
        "count",
    )

    def initial(self, queryset: QuerySet[Any]) -> dict[str, Any]:
        found = list(queryset.order_by().values_list("overriding_priority", "priority")[:2])
        return {"priority": found[0][1] if found[0][0] is None else found[0][0]} if len(found) == 1 else {}

    def operate(self, key: str, using: str, data: Mapping[str, Any]) -> str | None:
        override_priority(key, data["priority"], cascade=data["cascade"], using=using)
        return None


class ClearPriority(DefinitionAction):
    """Restore the priority of the code."""

    name, permission = "clear_priority", "prioritize"
    description = gettext_lazy("Clear the overriding priority of selected %(verbose_name_plural)s")
    label = gettext_lazy("Clear priority")
    report = ngettext_lazy(
        "New jobs of %(count)d definition have the priority of their code again.",
        "New jobs of %(count)d definitions have the priority of their code again.",
        "count",
    )

    def operate(self, key: str, using: str, data: Mapping[str, Any]) -> str | None:
        if not JobDefinition.objects.using(using).filter(pk=key, overriding_priority__isnull=False).exists():
            return _("its priority is not overridden")
        clear_overriding_priority(key, using=using)
        return None


class RetryDeadLetters(DefinitionAction):
    """Requeue all dead letters of a handler."""

    name, permission = "set_retries", "requeue"
    tables = (DeadLetterJob,)
    description = gettext_lazy("Set retries of the dead letters of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Set retries of dead letters…")
    form_class = RetriesForm
    warning = gettext_lazy("All dead letters of the handler are requeued, by a batch if there are many.")
    report = ngettext_lazy(
        "The dead letters of %(count)d definition are requeued with %(retries)d retries.",
        "The dead letters of %(count)d definitions are requeued with %(retries)d retries.",
        "count",
    )

    def perform_for(
        self, request: HttpRequest, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]
    ) -> Outcome:
        return self.perform(queryset, using, {**data, "user": request.user.get_username()})

    def operate(self, key: str, using: str, data: Mapping[str, Any]) -> str | None:
        result = set_retries_by_definition(key, data["retries"], using=using, user=data["user"])
        if isinstance(result, Batch) or result:
            return None
        return _("it has no dead letters")
