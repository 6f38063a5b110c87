"""Unique keys and the jobs that hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy, pgettext

from jobexec.identifiers import as_id
from jobexec.models import JobKey
from jobexec.operations import find_states
from jobexec.operations.manage.purge import release_keys

from ..common import display, filters
from ..common.actions import DeletingAction, Outcome
from ..common.base import TableAdmin
from ..common.batching import MOST_BY_PAGES


class ReleaseKeys(DeletingAction):
    """Make the key available to the next job."""

    description = gettext_lazy("Release selected %(verbose_name_plural)s…")
    label = gettext_lazy("Release…")
    warning = gettext_lazy(
        "The key becomes available to the next job, even while the job that holds it waits or runs. That job is not "
        "affected."
    )
    name_column = "key"
    most = MOST_BY_PAGES
    report = ngettext_lazy("%(count)d key released.", "%(count)d keys released.", "count")

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        return Outcome(list(release_keys(queryset.values_list("pk", flat=True), using=using)))


@admin.register(JobKey)
class JobKeyAdmin(TableAdmin):
    """Unique keys, the latest taken first."""

    tenant_column = "tenant_id"
    list_display = ("key", "tenant_id", "state", "handler", "job", "since", "until")
    list_display_links = ("key",)
    list_filter = (filters.HandlerFilter,)
    search_fields = ("key__startswith",)
    search_help_text = gettext_lazy("The beginning of the key, or the id of a job.")
    sortable_by = ()
    ordering = ("-create_time", "-id")
    actions = (ReleaseKeys(),)
    readonly_fields = ("state", "job", "since_exactly", "until_exactly")
    fieldsets = (
        (
            None,
            {"fields": (("key", "state"), ("handler_type", "job"), ("tenant_id",), ("since_exactly", "until_exactly"))},
        ),
    )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("jobexec.delete_jobkey")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        id = as_id(term)
        if id is not None:
            held = queryset.filter(job_id=id)
            if held.order_by().exists():
                return held, False
        return queryset.filter(key__startswith=term) if term else queryset, False

    def complete(self, rows: Sequence[JobKey]) -> None:
        """Look up the tables of the jobs that hold the keys."""
        if rows:
            states = find_states({row.job_id for row in rows}, rows[0]._state.db or "default")
            for row in rows:
                row.living = states.get(row.job_id)  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: JobKey) -> SafeString:
        """The state of the holding job; which other jobs the key blocks depends on their own options."""
        living = getattr(row, "living", None)
        if row.expiration_time is not None and row.expiration_time > display.now(row):
            return display.badge("work", pgettext("state of a unique key", "taken"))
        if living is None:
            return display.badge("off", pgettext("state of a unique key", "free"))
        if living.dead:
            return display.badge("bad", _(living.state))
        return display.badge("work", pgettext("state of a unique key", "taken"))

    @admin.display(description=gettext_lazy("handler"))
    def handler(self, row: JobKey) -> SafeString:
        return display.handler(row.handler_type)

    @admin.display(description=gettext_lazy("job"))
    def job(self, row: JobKey) -> SafeString:
        living = getattr(row, "living", None)
        state = _("over") if living is None else _(living.state)
        link = display.job_link(row.job_id, self.admin_site.name)
        return format_html('{} <span class="jobexec-quiet">{}</span>', link, state)

    @admin.display(description=gettext_lazy("since"))
    def since(self, row: JobKey) -> str | SafeString:
        return display.relative(row.create_time, display.now(row))

    @admin.display(description=gettext_lazy("until"))
    def until(self, row: JobKey) -> str | SafeString:
        return display.relative(row.expiration_time, display.now(row))

    @admin.display(description=gettext_lazy("since"))
    def since_exactly(self, row: JobKey) -> str | SafeString:
        return display.exact(row.create_time, display.now(row))

    @admin.display(description=gettext_lazy("until"))
    def until_exactly(self, row: JobKey) -> str | SafeString:
        return display.exact(row.expiration_time, display.now(row))
