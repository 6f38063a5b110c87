"""Resources that jobs share: what they bear, what is in use, what waits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext, pgettext_lazy

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.conf.resources import ResourceLimits
from jobexec.models import BlockedJob, BreakerState, Job, Resource
from jobexec.operations.reports.resources import ResourceStatus, cut_off, held, holders, resource_status
from jobexec.operations.resources.limits import limits_of

from ..common import display
from ..common.base import TableAdmin
from ..common.job_columns import visible_calls
from ..common.permissions import OperationPermissions
from .resource_actions import HoldClosed, HoldOpen, Release, SetLimits
from .story import story_of_breaker

HOLDERS_SHOWN = 10
_KINDS = {BreakerState.CLOSED: "ok", BreakerState.OPEN: "bad", BreakerState.HALF_OPEN: "warn"}


class StateFilter(admin.SimpleListFilter):
    """The state that counts now, which is not always that of a column."""

    title = gettext_lazy("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("open", gettext_lazy("None of its jobs may start")), ("held", gettext_lazy("Held by an operator"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        condition = {"open": cut_off, "held": held}.get(self.value() or "")
        return queryset if condition is None else queryset.filter(condition(clock.now(queryset.db)))


@admin.register(Resource)
class ResourceAdmin(OperationPermissions, TableAdmin):
    """The resources that jobs have used, and entries of RESOURCES that operators have changed, by name."""

    list_display = ("named", "most", "pace", "used", "waits", "standing", "let_through")
    list_display_links = ("named",)
    list_filter = (StateFilter,)
    search_fields = ("name__startswith",)
    search_help_text = gettext_lazy("The beginning of the name.")
    sortable_by = ("named",)
    ordering = ("name",)
    actions = (SetLimits(), HoldOpen(), HoldClosed(), Release())
    change_form_template = "admin/jobexec/resource_page.html"
    readonly_fields = (
        *("entry", "most", "pace", "allowed", "used", "waits", "standing", "let_through"),
        *("since", "until", "trial", "why"),
    )
    fieldsets = (
        (None, {"fields": (("name", "entry"), ("most", "pace", "allowed"), ("used", "waits", "let_through"))}),
        (gettext_lazy("Circuit breaker"), {"fields": (("standing", "since", "until", "trial"), "why")}),
    )

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """As in the other tables, the permission to change is not one to view."""
        return super().has_view_permission(request, obj) and request.user.has_perm("jobexec.view_resource")

    def complete(self, rows: Sequence[Resource]) -> None:
        """Read the status of all rows at once. A pattern has none: only the names that it covers have permits."""
        named = {row.name: row for row in rows if not row.name.endswith("*")}
        if named:
            for status in resource_status(rows[0]._state.db or "default", list(named)):
                named[status.name].status = status  # type: ignore[attr-defined]

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        context = {"story": story_of_breaker(self, request, row), "holders": None}
        if row.name.endswith("*"):
            actions = [action for action in self.permitted_actions(request) if isinstance(action, SetLimits)]
            return {**context, "row_actions": actions}
        if self.other(Job, request) is None:
            return context
        using = row._state.db or "default"
        found = holders(using, row.name, HOLDERS_SHOWN + 1)
        calls = visible_calls(request, self.admin_site, {job.pk for job in found[:HOLDERS_SHOWN]}, using)
        return {
            **context,
            "holders": [
                {
                    "job": display.job_link(job.pk, self.admin_site.name),
                    "handler": display.call(job.handler_type, calls.get(job.pk, "")),
                    "node": display.lock_owner(job.lock_owner),
                }
                for job in found[:HOLDERS_SHOWN]
            ],
            "more_holders": len(found) > HOLDERS_SHOWN,
        }

    @admin.display(description=Resource._meta.get_field("name").verbose_name, ordering="name")
    def named(self, row: Resource) -> str | SafeString:
        """The name, and below it the entry of RESOURCES if that has another name."""
        entry = _entry(row)
        if entry == row.name:
            return row.name
        told = _("entry %(name)s") % {"name": entry} if entry else _("no entry of RESOURCES")
        return format_html('{}<span class="jobexec-beneath">{}</span>', row.name, told)

    @admin.display(description=gettext_lazy("entry of RESOURCES"))
    def entry(self, row: Resource) -> str:
        return _entry(row) or display.NONE

    @admin.display(description=pgettext_lazy("of a resource", "limit"))
    def most(self, row: Resource) -> str | SafeString:
        return _shown(_number(_limits(row).limit), _number(_declared(row).limit))

    @admin.display(description=gettext_lazy("rate"))
    def pace(self, row: Resource) -> str | SafeString:
        return _shown(str(_limits(row).rate or _none()), str(_declared(row).rate or _none()))

    @admin.display(description=gettext_lazy("the rate allows"))
    def allowed(self, row: Resource) -> str:
        status = _status(row)
        return (status and status.rate_words) or display.NONE

    @admin.display(description=gettext_lazy("permits in use"))
    def used(self, row: Resource) -> str | SafeString:
        status = _status(row)
        if status is None:
            return display.NONE
        most = _limits(row).limit
        return display.number(status.in_use) if most is None else display.load(status.in_use, most)

    @admin.display(description=gettext_lazy("waiting jobs"))
    def waits(self, row: Resource) -> str | SafeString:
        status = _status(row)
        if status is None:
            return display.NONE
        return display.link(self.list_url(BlockedJob), status.waiting, resource=row.name)

    @admin.display(description=gettext_lazy("breaker"))
    def standing(self, row: Resource) -> str | SafeString:
        """The state that counts now; below it, for how long."""
        status = _status(row)
        if status is None or not status.breaker:
            return display.NONE
        badge = display.badge(_KINDS[BreakerState(status.breaker)], status.breaker_words)
        until = _until(row)
        if until is None:
            return badge
        left = _("%(time)s left") % {"time": display.duration((until - display.now(row)).total_seconds())}
        return format_html('{}<br><span class="jobexec-quiet jobexec-time">{}</span>', badge, left)

    @admin.display(description=gettext_lazy("promoted jobs"))
    def let_through(self, row: Resource) -> str:
        return display.NONE if _status(row) is None else display.number(row.promoted)

    @admin.display(description=gettext_lazy("since"))
    def since(self, row: Resource) -> str | SafeString:
        return display.exact(row.breaker_time, display.now(row))

    @admin.display(description=gettext_lazy("until"))
    def until(self, row: Resource) -> str | SafeString:
        return display.exact(_until(row), display.now(row))

    @admin.display(description=gettext_lazy("successful trial calls"))
    def trial(self, row: Resource) -> str:
        status, breaker = _status(row), _declared(row).breaker
        if status is None or breaker is None or status.breaker != BreakerState.HALF_OPEN:
            return display.NONE
        return f"{row.trials} / {breaker.trial_calls}"

    @admin.display(description=gettext_lazy("reason"))
    def why(self, row: Resource) -> str | SafeString:
        return display.pre(row.reason)


def _status(row: Resource) -> ResourceStatus | None:
    return getattr(row, "status", None)


def _until(row: Resource) -> datetime | None:
    """When the state that counts now ends by itself."""
    status = _status(row)
    if status is None or not (status.held or status.breaker == BreakerState.OPEN):
        return None
    return row.hold_until if status.held else row.trial_time


def _entry(row: Resource) -> str:
    return get_settings().resources.covering(row.name) or ""


def _declared(row: Resource) -> ResourceLimits:
    return get_settings().resources.get(_entry(row)) or ResourceLimits()


def _limits(row: Resource) -> ResourceLimits:
    status = _status(row)
    return (limits_of(row) if status is None else status.limits) or ResourceLimits()


def _shown(value: str, declared: str) -> str | SafeString:
    if value == declared:
        return value
    instead = _("instead of %(value)s") % {"value": declared}
    return format_html('{}<br><span class="jobexec-quiet">{}</span>', value, instead)


def _number(limit: int | None) -> str:
    return _none() if limit is None else display.number(limit)


def _none() -> str:
    return pgettext("limit of a resource", "none")
