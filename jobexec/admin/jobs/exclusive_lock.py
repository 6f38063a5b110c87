"""Locked process instances, their owners and times."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobexec.models import ExclusiveLock, ExternalWorkerJob, Job
from jobexec.models.locks import locks_of
from jobexec.operations.rows.routing import job_of_instance

from ..common import display
from ..common.base import TableAdmin
from ..common.page_links import instance_link


@admin.register(ExclusiveLock)
class ExclusiveLockAdmin(TableAdmin):
    """Locks of process instances. They come and go with the jobs that hold them; operators cannot remove them."""

    list_display = ("instance", "tenant_id", "owner", "held_for", "jobs")
    list_display_links = ("held_for",)
    search_fields = ("process_instance_id", "lock_owner")
    search_help_text = gettext_lazy("The exact process instance or lock owner.")
    sortable_by = ("instance",)
    ordering = ("process_instance_id",)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        return (queryset.filter(locks_of(term) | Q(lock_owner=term)) if term else queryset), False

    @admin.display(description=gettext_lazy("process instance"), ordering="process_instance_id")
    def instance(self, lock: ExclusiveLock) -> SafeString | str | None:
        return instance_link(self.admin_site.name, lock.instance, lock.tenant_id)

    @admin.display(description=gettext_lazy("tenant"))
    def tenant_id(self, lock: ExclusiveLock) -> str:
        return lock.tenant_id

    @admin.display(description=gettext_lazy("lock owner"))
    def owner(self, lock: ExclusiveLock) -> str | SafeString:
        job = job_of_instance(lock.lock_owner)
        if job is None:
            return display.lock_owner(lock.lock_owner)
        return format_html("{} {}", _("external job"), display.job_link(job, self.admin_site.name))

    @admin.display(description=gettext_lazy("held for"))
    def held_for(self, lock: ExclusiveLock) -> SafeString:
        return display.age(lock.lock_time, display.now(lock))

    @admin.display(description=gettext_lazy("jobs"))
    def jobs(self, lock: ExclusiveLock) -> SafeString:
        table = Job if job_of_instance(lock.lock_owner) is None else ExternalWorkerJob
        return display.link(self.list_url(table), _("jobs"), q=lock.instance)
