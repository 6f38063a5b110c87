"""Schedules and their next times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import router
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils.translation import gettext_lazy

from jobexec.exceptions import InvalidSchedule
from jobexec.handlers.registry import OWN, all_handlers
from jobexec.models import WITHDRAWN, JobDefinition, Schedule, ScheduleFiring
from jobexec.operations.schedules.jobs import scheduled_jobs
from jobexec.operations.schedules.manage import save_schedule, schedule_problem
from jobexec.operations.schedules.words import in_words

from ..common import display
from ..common.permissions import OperationPermissions
from ..common.search import HandlerSearch
from ..common.tenancy import COLUMN, tenants_of
from .actions import DeleteSchedules, Disable, Enable, FireNow
from .columns import SHOWN, ScheduleColumns, described
from .form import EXPRESSIONS, ScheduleForm, zones

FIRINGS_SHOWN = 10
HANDLERS_OFFERED = 200
_ASKED = ("expression", "timezone", "misfire")
_JSON = ("args", "kwargs", "options")


class OriginFilter(admin.SimpleListFilter):
    """Whether the code or an operator has created the schedule."""

    title = gettext_lazy("origin")
    parameter_name = "origin"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("code", gettext_lazy("From the code")), ("person", gettext_lazy("Created by an operator"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "code":
            return queryset.exclude(declared="")
        return queryset.filter(declared="") if self.value() == "person" else queryset


@admin.register(Schedule)
class ScheduleAdmin(ScheduleColumns, OperationPermissions, HandlerSearch):
    """Schedules by name. Unlike other rows, users add and edit them here; the operations save them."""

    form = ScheduleForm
    list_display = ("name", "standing", "handler", "recurrence", "next", "last", "fired", "misfire", "origin")
    list_display_links = ("name",)
    list_filter = ("enabled", OriginFilter, "misfire")
    deferred = ("handler_configuration", "options")
    search_fields = ("name__startswith",)
    search_help_text = gettext_lazy(
        "The beginning of the schedule's name, or of its handler's full or short name (charge_card)."
    )
    sortable_by = ("name", "next", "last", "fired")
    ordering = ("name",)
    audit_name = "name"
    actions = (FireNow(), Enable(), Disable(), DeleteSchedules())
    change_form_template = "admin/jobexec/schedule_page.html"

    # Permissions.

    def get_queryset(self, request: HttpRequest) -> QuerySet[Schedule]:
        """A schedule belongs to the tenant of its jobs."""
        rows: QuerySet[Schedule] = self.all_rows(request)
        tenants = tenants_of(request)
        if tenants is None:
            return rows
        ours = Q(**{f"options__{COLUMN}__in": sorted(tenants - {""})})
        if "" in tenants:
            ours |= Q(**{f"options__{COLUMN}__isnull": True}) | Q(**{f"options__{COLUMN}": ""})
        return rows.filter(ours)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(admin.ModelAdmin.has_view_permission(self, request, obj))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.add_schedule")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("jobexec.change_schedule")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("jobexec.delete_schedule")

    # The form.

    def get_urls(self) -> list[Any]:
        times = self.admin_site.admin_view(self.times_view)
        return [path("times/", times, name="jobexec_schedule_times"), *super().get_urls()]

    def times_view(self, request: HttpRequest) -> HttpResponse:
        """The next times of what is entered in the form, for its script; or what is wrong with it."""
        if not (self.has_add_permission(request) or self.has_change_permission(request)):
            raise PermissionDenied
        entered = {name: request.GET.get(name, "").strip() for name in ("expression", "timezone")}
        row = Schedule(**entered)
        row._state.db = router.db_for_write(Schedule)
        return HttpResponse(described(row) if all(entered.values()) else display.NONE)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.using, form.tenants = router.db_for_write(Schedule), tenants_of(request)
        return form

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        if obj is None:
            return ["next_times"]
        fixed = ["name", *(["handler_type"] if obj.from_code else [])]
        return [*fixed, *SHOWN, *self.shown_on_page.values()]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            asked = {"fields": ["name", "handler_type", *_ASKED, "next_times", "enabled"]}
            return [(None, asked), (gettext_lazy("Jobs"), {"fields": _JSON})]
        edits = self.has_change_permission(request, obj)
        heading = ("standing", "next_time", "last_time", "made")
        when = ["expression", ("timezone", "misfire"), "next_times"]
        jobs = _JSON if edits else ("arguments", "shown_options")
        fieldsets = [
            (None, {"fields": [heading, "name", "handler_type"]}),
            (gettext_lazy("When"), {"fields": when}),
            (gettext_lazy("Jobs"), {"fields": jobs}),
            (gettext_lazy("Origin"), {"fields": [("origin", "create_time")]}),
        ]
        return self.in_words(fieldsets)

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        context = {"show_delete": False, "show_save_and_add_another": False, **(extra_context or {})}
        try:
            return super().changeform_view(request, object_id, form_url, context)
        except InvalidSchedule as error:  # what the form could not check
            self.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    def save_model(self, request: HttpRequest, obj: Schedule, form: Any, change: bool) -> None:
        using = router.db_for_write(Schedule)
        saved = save_schedule(using, name=obj.name, **form.values(), replace=change)
        obj.__dict__.update(saved.__dict__)

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        edits = self.has_add_permission(request) if row is None else self.has_change_permission(request, row)
        context: dict[str, Any] = {"edits": edits}
        if edits:
            expressions = [(expression, in_words(expression)) for expression in EXPRESSIONS]
            context |= {"zones": zones(), "expressions": expressions, "handlers": self._handlers(request)}
        if row is not None:
            enabling = Disable if row.enabled else Enable
            context |= {
                "row_actions": [
                    action
                    for action in self.permitted_actions(request)
                    if not isinstance(action, (Enable, Disable)) or isinstance(action, enabling)
                ],
                "problem": schedule_problem(row),
                "from_code": row.from_code,
                "by_hand": self._by_hand(row),
                "firings": self._firings(row),
            }
        return context

    def _handlers(self, request: HttpRequest) -> list[str]:
        """Handlers to suggest: those of this process, and those that executors have registered."""
        if tenants_of(request) is not None:
            return []  # handlers belong to no tenant
        known = {handler.name for handler in all_handlers() if not handler.name.startswith(OWN)}
        definitions = JobDefinition.objects.using(router.db_for_read(Schedule)).order_by("handler_type")
        recorded = definitions.values_list("handler_type", flat=True).distinct()[:HANDLERS_OFFERED]
        return sorted(known.union(name for name in recorded if not name.startswith(OWN)))

    def _by_hand(self, row: Schedule) -> str:
        """The expression that the code declares, if an operator has changed the schedule; '' if not."""
        expression, *rest = row.declared.removeprefix(WITHDRAWN).split("\n") if row.declared else ("",)
        if not row.declared or [row.expression, row.timezone, row.misfire] == [expression, *rest]:
            return ""
        return expression

    def _firings(self, row: Schedule) -> list[dict[str, Any]]:
        found = ScheduleFiring.objects.using(row._state.db).filter(schedule_id=row.pk).order_by("-fire_time")
        now = display.now(row)
        return [
            {
                "time": display.exact(firing.fire_time, now),
                "made": display.relative(firing.create_time, now),
                "job": display.job_link(firing.job_id, self.admin_site.name),
            }
            for firing in found[:FIRINGS_SHOWN]
        ]

    # Columns and fields.

    def complete(self, rows: Sequence[Schedule]) -> None:
        """Set ``known``: whether this process knows the handler, or an executor has registered it."""
        here = set(scheduled_jobs().names()) if rows else set()
        elsewhere = {row.handler_type for row in rows} - here
        if elsewhere:
            definitions = JobDefinition.objects.using(rows[0]._state.db).filter(handler_type__in=elsewhere)
            here |= set(definitions.values_list("handler_type", flat=True))
        for row in rows:
            row.known = row.handler_type in here  # type: ignore[attr-defined]
