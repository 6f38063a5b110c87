"""Deployments, and the nodes that take their jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy

from jobexec import operations
from jobexec.models import Deployment, DeploymentRegistration, ExecutorNode

from ..common import display
from ..common.actions import Action, Outcome, RowAction
from ..common.base import TableAdmin
from ..common.forms import ConfirmForm, NodeNameForm

if TYPE_CHECKING:
    TabularInline = admin.TabularInline[Any, Any]
else:
    TabularInline = admin.TabularInline


class RegistrationAction(RowAction):
    """An action that asks for a node's name."""

    permission = "register"
    form_class = NodeNameForm

    def choices(self, using: str) -> list[str]:
        running = ExecutorNode.objects.using(using).values_list("name", flat=True)
        registered = DeploymentRegistration.objects.using(using).values_list("node_name", flat=True)
        return sorted({*running.distinct(), *registered.distinct()})


class Register(RegistrationAction):
    """Let a node take the deployment's jobs."""

    name = "register"
    description = gettext_lazy("Register selected %(verbose_name_plural)s for a node…")
    label = gettext_lazy("Register for a node…")
    report = ngettext_lazy(
        "%(count)d deployment registered for %(node_name)s, which sees it at its next heartbeat.",
        "%(count)d deployments registered for %(node_name)s, which sees them at its next heartbeat.",
        "count",
    )

    def operate(self, key: str, using: str, data: Mapping[str, Any]) -> None:
        operations.register_deployment(key, data["node_name"], using=using)


class Unregister(RegistrationAction):
    """Keep a node from taking the deployment's jobs."""

    name = "unregister"
    description = gettext_lazy("Unregister selected %(verbose_name_plural)s for a node…")
    label = gettext_lazy("Unregister for a node…")
    warning = gettext_lazy("The node does not register them again when it restarts.")
    report = ngettext_lazy(
        "%(count)d deployment unregistered for %(node_name)s, including after a restart.",
        "%(count)d deployments unregistered for %(node_name)s, including after a restart.",
        "count",
    )

    def operate(self, key: str, using: str, data: Mapping[str, Any]) -> None:
        operations.unregister_deployment(key, data["node_name"], using=using)


class RetireRegistrations(RegistrationAction):
    """Delete the registrations of a node that is gone."""

    name = "retire_registrations"
    description = gettext_lazy("Retire the registrations of selected %(verbose_name_plural)s for a node…")
    label = gettext_lazy("Retire registrations of a node…")
    warning = gettext_lazy("Only for a node that is gone. A node that starts with this name registers again.")
    report = ngettext_lazy(
        "%(count)d deployment no longer has a registration for %(node_name)s.",
        "%(count)d deployments no longer have a registration for %(node_name)s.",
        "count",
    )

    def operate(self, key: str, using: str, data: Mapping[str, Any]) -> None:
        operations.retire_registrations(data["node_name"], [key], using=using)


class Retire(Action):
    """Delete deployments that no job and no living node needs."""

    name, permission = "retire", "retire"
    description = gettext_lazy("Retire selected %(verbose_name_plural)s…")
    label = gettext_lazy("Retire…")
    form_class = ConfirmForm
    dangerous = True
    warning = gettext_lazy(
        "Deployments that jobs refer to or that a living node has are skipped. The registrations of the others are "
        "deleted with them."
    )
    report = ngettext_lazy("%(count)d deployment retired.", "%(count)d deployments retired.", "count")

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        result = operations.retire_deployments(queryset.values_list("pk", flat=True), using=using)
        return Outcome(result.changed, {id: _(reason) for id, reason in result.skipped.items()})

    def respond(self, modeladmin: TableAdmin, request: HttpRequest) -> HttpResponse | None:
        return None  # its page is gone


class RegistrationInline(TabularInline):
    """The registrations of a deployment, by node name."""

    model = DeploymentRegistration
    fields = readonly_fields = ("node_name", "takes_its_jobs", "changed")
    ordering = ("node_name",)
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(description=gettext_lazy("registered"))
    def takes_its_jobs(self, registration: DeploymentRegistration) -> str:
        return display.yes_or_no(registration.registered)

    @admin.display(description=gettext_lazy("changed at"))
    def changed(self, registration: DeploymentRegistration) -> str | SafeString:
        return display.exact(registration.changed_at, display.now(registration))


@admin.register(Deployment)
class DeploymentAdmin(TableAdmin):
    """Versions of the code, newest first, with the nodes that take their jobs."""

    list_display = ("id", "name", "version", "deploy_time", "handler_count", "takers")
    list_filter = ("name",)
    search_fields = ("id__startswith",)
    sortable_by = ("id", "name", "deploy_time")
    ordering = ("-deploy_time", "id")
    actions = (Register(), Unregister(), RetireRegistrations(), Retire())
    inlines = (RegistrationInline,)
    readonly_fields = ("handler_names",)
    fields = ("id", "name", "version", "deploy_time", "handler_names")

    def has_register_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.register_deployment")

    def has_retire_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.delete_deployment")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Deployment]:
        return super().get_queryset(request).prefetch_related("registrations")

    @admin.display(description=gettext_lazy("handlers"))
    def handler_count(self, deployment: Deployment) -> int:
        return len(deployment.handlers)

    @admin.display(description=gettext_lazy("handlers"))
    def handler_names(self, deployment: Deployment) -> str | SafeString:
        return display.lines(deployment.handlers)

    @admin.display(description=gettext_lazy("nodes"))
    def takers(self, deployment: Deployment) -> SafeString | str:
        registrations = sorted(deployment.registrations.all(), key=lambda each: each.node_name)
        badges = [
            display.badge("ok", each.node_name)
            if each.registered
            else display.badge("off", _("not %(node)s") % {"node": each.node_name})
            for each in registrations
        ]
        return display.row(badges)
