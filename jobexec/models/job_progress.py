"""The progress of running jobs, apart from the hot rows."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class JobProgress(models.Model):
    """The last progress reported by a running job; jobs that never report any have no row.

    In a separate table: a column of the job would be written to the row that acquisition and settlement use.
    """

    job_id = models.UUIDField(primary_key=True)
    attempt = models.PositiveIntegerField(help_text=_("The number of the attempt that reported this, starting at 1."))
    done = models.BigIntegerField()
    total = models.BigIntegerField(null=True, blank=True)
    update_time = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = _("job progress")
        verbose_name_plural = _("job progress")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.done} / {'?' if self.total is None else self.total}"
