"""Which process instances are locked, by whom and since when."""

from __future__ import annotations

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobexec.models import ExclusiveLock, ExternalWorkerJob, Job
from jobexec.operations.external_home import job_of_instance

from . import display
from .base import TableAdmin


@admin.register(ExclusiveLock)
class ExclusiveLockAdmin(TableAdmin):
    """Locks of process instances. They come and go with the jobs that hold them; nobody lifts them by hand."""

    list_display = ("process_instance_id", "owner", "held_for", "jobs")
    search_fields = ("process_instance_id__exact", "lock_owner__exact")
    search_help_text = gettext_lazy("A process instance or a lock owner, exactly.")
    sortable_by = ("process_instance_id",)
    ordering = ("process_instance_id",)

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
        return display.link(self.list_url(table), _("jobs"), q=lock.process_instance_id)
