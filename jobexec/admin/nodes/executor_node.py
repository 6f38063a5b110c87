"""Running executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy

from jobexec import operations
from jobexec.models import ExclusiveLock, ExecutorNode, NodeState
from jobexec.operations.targets.for_each import OperationResult

from ..common import display, node_columns
from ..common.actions import Action, Outcome
from ..common.base import TableAdmin
from ..common.forms import ConfirmForm
from ..dashboard.view import dashboard_view
from ..pages.running import running_view


class Control(Action):
    """Pause, resume or drain the selected nodes, and no others of their names."""

    permission = "control"
    form_class: type[ConfirmForm] | None = ConfirmForm
    verb: ClassVar[Callable[..., OperationResult]]
    report = ngettext_lazy(
        "%(count)d node will follow at its next heartbeat.",
        "%(count)d nodes will follow at their next heartbeats.",
        "count",
    )

    from_states: ClassVar[frozenset[str]]
    """The states that operators have last requested in which the page of a node offers it."""

    def applies(self, row: Any) -> bool:
        return row.state not in (NodeState.DRAINING, NodeState.DEAD) and row.requested_state in self.from_states

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        result = type(self).verb(list(queryset.values_list("pk", flat=True)), using=using)
        return Outcome(result.changed, {name: _(reason) for name, reason in result.skipped.items()})


class Pause(Control):
    """Let nodes take no more jobs."""

    name = "pause"
    description = gettext_lazy("Pause selected %(verbose_name_plural)s…")
    label = gettext_lazy("Pause…")
    warning = gettext_lazy(
        "They take no more jobs until they are resumed or restarted, and finish those that they hold."
    )
    verb = operations.pause_nodes
    from_states = frozenset({NodeState.ACTIVE})


class Resume(Control):
    """Let paused nodes take jobs again."""

    name = "resume"
    description = gettext_lazy("Resume selected %(verbose_name_plural)s")
    label = gettext_lazy("Resume")
    form_class = None
    verb = operations.resume_nodes
    from_states = frozenset({NodeState.PAUSED})


class Drain(Control):
    """Let the processes of nodes end."""

    name = "drain"
    description = gettext_lazy("Drain selected %(verbose_name_plural)s…")
    label = gettext_lazy("Drain…")
    dangerous = True
    warning = gettext_lazy(
        "Their processes finish the running jobs and exit. Your process manager may start them again."
    )
    verb = operations.drain_nodes
    from_states = frozenset({NodeState.ACTIVE, NodeState.PAUSED})


@admin.register(ExecutorNode)
class ExecutorNodeAdmin(TableAdmin):
    """Nodes with their leases and their load. A node deletes its row when it shuts down gracefully."""

    list_display = ("label", "state_badge", "signs_of_life", "busy", "queued", "serves", "process", "up")
    list_filter = ("state",)
    actions = (Pause(), Resume(), Drain())
    search_fields = ("name__startswith", "hostname__startswith")
    sortable_by = ("label",)
    ordering = ("name", "start_time", "id")
    readonly_fields = ("label", "state_badge", "heartbeat", "lease", "busy", "queued", "serves", "process", "locks")
    fieldsets = (
        (None, {"fields": ("label", "state_badge", "heartbeat", "lease", "busy", "queued")}),
        (gettext_lazy("Serves"), {"fields": ("serves",)}),
        (gettext_lazy("Process"), {"fields": ("process", "start_time", "lock_owner", "id", "locks")}),
    )

    def has_control_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.control_executornode")

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(partial(dashboard_view, site=self.admin_site))
        running = self.admin_site.admin_view(partial(running_view, site=self.admin_site))
        return [
            path("dashboard/", view, name="jobexec_dashboard"),
            path("running/", running, name="jobexec_running"),
            *super().get_urls(),
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        nodes: Any = super().get_queryset(request)
        return nodes.told_apart()  # type: ignore[no-any-return]

    @admin.display(description=gettext_lazy("name"), ordering="name")
    def label(self, node: ExecutorNode) -> str:
        return node.label

    @admin.display(description=gettext_lazy("state"))
    def state_badge(self, node: ExecutorNode) -> SafeString:
        return node_columns.state_badge(node.state)

    @admin.display(description=gettext_lazy("heartbeat"))
    def heartbeat(self, node: ExecutorNode) -> str | SafeString:
        return display.relative(node.heartbeat_time, display.now(node))

    @admin.display(description=gettext_lazy("lease"))
    def lease(self, node: ExecutorNode) -> SafeString:
        return node_columns.lease_badge(node.lease_expiration_time - display.now(node))

    @admin.display(description=gettext_lazy("heartbeat, lease"))
    def signs_of_life(self, node: ExecutorNode) -> SafeString:
        return format_html("{}<br>{}", self.heartbeat(node), self.lease(node))

    @admin.display(description=gettext_lazy("threads busy"))
    def busy(self, node: ExecutorNode) -> SafeString:
        busy, stuck = display.load(node.busy_threads, node.threads), node_columns.stuck_badge(node.stuck_threads)
        return busy if stuck is None else format_html("{}<br>{}", busy, stuck)

    @admin.display(description=gettext_lazy("queued"))
    def queued(self, node: ExecutorNode) -> SafeString:
        return display.load(node.queued_jobs, node.queue_size)

    @admin.display(description=gettext_lazy("serves"))
    def serves(self, node: ExecutorNode) -> SafeString:
        deployments: Any = ", ".join(node.deployments) or _("none")
        taken = _("deployments: %s") % deployments if node.deployment_aware else _("all deployments")
        return format_html("{}<br>{}", ", ".join(node.categories) or display.NONE, taken)

    @admin.display(description=gettext_lazy("process"))
    def process(self, node: ExecutorNode) -> str:
        return _("%(pid)d on %(host)s") % {"pid": node.pid, "host": node.hostname or "?"}

    @admin.display(description=gettext_lazy("up for"))
    def up(self, node: ExecutorNode) -> SafeString:
        return display.age(node.start_time, display.now(node))

    @admin.display(description=gettext_lazy("process instances"))
    def locks(self, node: ExecutorNode) -> SafeString:
        return display.link(self.list_url(ExclusiveLock), _("locked by this node"), q=node.lock_owner)
