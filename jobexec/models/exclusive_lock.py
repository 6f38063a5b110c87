"""One row per process instance, only while one of its exclusive jobs is locked."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobexec import clock

from .fields import NameField


class ExclusiveLock(models.Model):
    """The right to run the exclusive jobs of a process instance, held by one lock owner.

    The primary key is what makes exclusivity strict: of two nodes that insert the row, one fails. ``acquisition``
    tells the rows that one call inserted from those that were there (where INSERT cannot return rows).
    """

    process_instance_id = NameField(max_length=255, primary_key=True)
    lock_owner = NameField(max_length=255, db_index=True)
    acquisition = models.UUIDField()
    lock_time = models.DateTimeField(default=clock.now)

    class Meta:
        verbose_name = _("exclusive lock")
        verbose_name_plural = _("exclusive locks")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.process_instance_id
