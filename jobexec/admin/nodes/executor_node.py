"""Running executors."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import admin
from django.urls import path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobexec.models import ExclusiveLock, ExecutorNode

from ..common import display, node_columns
from ..common.base import TableAdmin
from ..dashboard.view import dashboard_view


@admin.register(ExecutorNode)
class ExecutorNodeAdmin(TableAdmin):
    """Nodes with their leases and their load. A node deletes its row when it shuts down gracefully."""

    list_display = ("name", "state_badge", "signs_of_life", "busy", "queued", "serves", "process", "up")
    list_filter = ("state",)
    search_fields = ("name__startswith", "hostname__startswith")
    sortable_by = ("name",)
    ordering = ("name", "start_time", "id")
    readonly_fields = ("state_badge", "heartbeat", "lease", "busy", "queued", "serves", "process", "locks")
    fieldsets = (
        (None, {"fields": ("name", "state_badge", "heartbeat", "lease", "busy", "queued")}),
        (gettext_lazy("Serves"), {"fields": ("serves",)}),
        (gettext_lazy("Process"), {"fields": ("process", "start_time", "lock_owner", "id", "locks")}),
    )

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(partial(dashboard_view, site=self.admin_site))
        return [path("dashboard/", view, name="jobexec_dashboard"), *super().get_urls()]

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
