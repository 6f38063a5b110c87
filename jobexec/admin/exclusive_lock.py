"""Which process instances are locked, by whom and since when."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from jobexec.models import ExclusiveLock, Job

from . import display
from .base import TableAdmin


@admin.register(ExclusiveLock)
class ExclusiveLockAdmin(TableAdmin):
    """Locks of process instances. They come and go with the jobs that hold them; nobody lifts them by hand."""

    list_display = ("process_instance_id", "owner", "held_for", "jobs")
    search_fields = ("process_instance_id__exact", "lock_owner__exact")
    search_help_text = _("A process instance or a lock owner, exactly.")
    sortable_by = ("process_instance_id",)
    ordering = ("process_instance_id",)

    @admin.display(description=_("lock owner"))
    def owner(self, lock: ExclusiveLock) -> str | SafeString:
        return display.lock_owner(lock.lock_owner)

    @admin.display(description=_("held for"))
    def held_for(self, lock: ExclusiveLock) -> SafeString:
        return display.age(lock.lock_time, display.now(lock))

    @admin.display(description=_("jobs"))
    def jobs(self, lock: ExclusiveLock) -> SafeString:
        return display.link(self.list_url(Job), _("jobs"), q=lock.process_instance_id)
