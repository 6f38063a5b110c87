"""The admin's actions on instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy

from jobexec import operations
from jobexec.admin.common.actions import Outcome
from jobexec.admin.common.base import FROM_PAGE
from jobexec.admin.common.batching import BATCH_ABOVE
from jobexec.models import Batch, DeadLetterJob

from ..definition import Process
from ..engine.inputs import Change
from ..engine.modify import refusal
from ..engine.rows import State
from ..models import Execution, ProcessInstance
from ..operations.instances import cancel, set_variables
from ..operations.many import cancel_all
from ..operations.modify import modify_instance, restart
from .common import ProcessAction, ProcessTableAdmin, named, process_of
from .forms import CancelForm, ElementsForm, ModifyForm, RetryForm, VariableForm, with_choices

#: Definitions of the selected instances, and arrivals at an element, whose choices a form offers.
_DEFINITIONS = _ARRIVALS = 20


class Cancel(ProcessAction):
    """Cancel instances, with all that they called."""

    name = "cancel"
    permission = "cancel"
    description = gettext_lazy("Cancel selected %(verbose_name_plural)s…")
    label = gettext_lazy("Cancel…")
    form_class = CancelForm
    dangerous = True
    warning = gettext_lazy("Their jobs, tasks and timers are removed. A flow first compensates its completed steps.")
    name_column = "business_key"

    in_background = True
    report = ngettext_lazy(
        "%(count)d process instance was cancelled.",
        "%(count)d process instances were cancelled.",
        "count",
    )

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        cancel(key, data["reason"], skip_listeners=data["skip_listeners"], using=using)

    def start_batch(self, queryset: QuerySet[Any], data: Mapping[str, Any], user: str) -> Batch:
        made = cancel_all(queryset, data["reason"], skip_listeners=data["skip_listeners"], user=user)
        return Batch.objects.using(queryset.db).get(pk=made.id)


class Modify(ProcessAction):
    """Modify running instances."""

    name = permission = "modify"
    description = gettext_lazy("Modify selected %(verbose_name_plural)s…")
    label = gettext_lazy("Modify…")
    form_class = ModifyForm
    dangerous = True
    warning = gettext_lazy(
        "All changes are made in one step of each instance. Started elements get the variables. An instance with "
        "nothing left to do is cancelled."
    )
    name_column = "business_key"
    report = ngettext_lazy(
        "%(count)d process instance was modified.",
        "%(count)d process instances were modified.",
        "count",
    )

    def form_for(self, queryset: QuerySet[Any]) -> type[forms.Form] | None:
        processes = _processes(queryset)
        return with_choices(
            ModifyForm,
            cancel=_standing(queryset, processes),
            before=_startable(processes, Change.BEFORE),
            after=_startable(processes, Change.AFTER),
        )

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        skip = data["skip_listeners"]
        modify_instance(key, data["commands"], data["reason"], skip_listeners=skip, using=using)


class Restart(ProcessAction):
    """Restart instances that have ended."""

    name = permission = "restart"
    description = gettext_lazy("Restart selected %(verbose_name_plural)s…")
    label = gettext_lazy("Restart…")
    form_class = ElementsForm
    warning = gettext_lazy(
        "For each of them, a new instance of the same version is started, with its business key, the variables that it "
        "ended with and the variables below. If you choose no element, it begins at its start event."
    )
    name_column = "business_key"
    report = ngettext_lazy(
        "%(count)d process instance was started.",
        "%(count)d process instances were started.",
        "count",
    )

    def form_for(self, queryset: QuerySet[Any]) -> type[forms.Form] | None:
        processes = _processes(queryset)
        return with_choices(
            ElementsForm,
            before=_startable(processes, Change.BEFORE),
            after=_startable(processes, Change.AFTER),
        )

    def perform_for(
        self, request: HttpRequest, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]
    ) -> Outcome:
        return self.perform(queryset, using, {**data, "user": request.user.get_username(), "request": request})

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        chosen: dict[str, Any] = {name: data[name] for name in ("before", "after", "variables", "user")}
        data["request"].jobexec_started = restart(key, using=using, **chosen).pk

    def respond(self, modeladmin: Any, request: HttpRequest) -> HttpResponse | None:
        return to_started(modeladmin, request) or super().respond(modeladmin, request)


def to_started(page: ProcessTableAdmin, request: HttpRequest) -> HttpResponse | None:
    """The page of the instance that an action on one row has started."""
    instances = page.table(ProcessInstance, request)
    started = getattr(request, "jobexec_started", None)
    if instances is None or started is None or FROM_PAGE not in request.POST:
        return None
    return HttpResponseRedirect(instances.page_url(started))


def _processes(queryset: QuerySet[Any]) -> list[Process]:
    """The definitions of the selected instances."""
    ids = queryset.order_by().values_list("definition_id", flat=True).distinct()[:_DEFINITIONS]
    found = [process_of(queryset.db, id) for id in sorted(ids)]
    return [process for process in found if process is not None]


def _startable(processes: Iterable[Process], change: Change) -> list[tuple[str, str]]:
    """The elements that can be started this way, in the order of the files."""
    return list(
        {
            node.id: _labelled(process, node.id)
            for process in processes
            for node in process.nodes
            if refusal(process, node, change) is None
        }.items()
    )


def _standing(queryset: QuerySet[Any], processes: Sequence[Process]) -> list[tuple[str, str]]:
    """The active elements; of one instance with several arrivals at an element, each of them."""
    keys = list(queryset.order_by().values_list("pk", flat=True)[: BATCH_ABOVE + 1])
    rows = Execution.objects.using(queryset.db).filter(instance_id__in=keys).exclude(state=State.COMPENSABLE.value)
    found: dict[str, list[UUID | None]] = {}
    for element, activity in rows.order_by("entered_at", "pk").values_list("element_id", "activity_id"):
        found.setdefault(element, []).append(activity)
    choices = []
    for element, activities in found.items():
        label = next((text for process in processes if (text := _labelled(process, element)) != element), element)
        some = len(keys) == 1 and 1 < len(activities) <= _ARRIVALS
        choices.append((f":{element}", _("%(element)s: all") % {"element": label} if some else label))
        if some:
            numbered = enumerate((each for each in activities if each is not None), 1)
            text = _("%(element)s: number %(number)d")
            choices += [(f"{each}:{element}", text % {"element": label, "number": n}) for n, each in numbered]
    return choices


def _labelled(process: Process, element: str) -> str:
    name = named(process, element)
    return name if name == element else f"{name} ({element})"


class Retry(ProcessAction):
    """Requeue the dead letters of instances, each of which is an incident."""

    name = "retry"
    permission = "retry"
    description = gettext_lazy("Retry the incidents of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Retry its incidents…")
    form_class = RetryForm
    name_column = "business_key"
    report = ngettext_lazy("%(count)d incident is retried.", "%(count)d incidents are retried.", "count")

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


class SetVariable(ProcessAction):
    """Set one variable."""

    name = "set_variable"
    permission = "variables"
    description = gettext_lazy("Set a variable of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Set a variable…")
    form_class = VariableForm
    warning = gettext_lazy("A running process reads the new value at its next step.")
    name_column = "business_key"
    report = ngettext_lazy(
        "The variable %(name)s of %(count)d process instance was set.",
        "The variable %(name)s of %(count)d process instances was set.",
        "count",
    )

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        set_variables(key, {data["name"]: data["value"]}, using=using)
