"""Unique keys and the jobs that hold them."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobexec import clock

from .fields import NameField


class JobKey(models.Model):
    """A key for one tenant's jobs of one handler and the job that has it, in any table.

    Written at enqueue only. The job that holds a key determines whether the key is still taken: nothing is written when
    the job moves or ends, so jobs with keys cost their executor nothing. A row whose job is over and whose time
    has expired is free for the next job; the cleanup of the history deletes it.
    """

    handler_type = NameField(max_length=255)
    tenant_id = NameField(max_length=64, blank=True, default="", db_default="")
    key = NameField(max_length=255)
    job_id = models.UUIDField(db_index=True)
    create_time = models.DateTimeField(default=clock.now, db_index=True)
    expiration_time = models.DateTimeField(
        null=True, blank=True, help_text=_("The key is taken until then, even if the job has ended.")
    )

    class Meta:
        verbose_name = _("unique key")
        verbose_name_plural = _("unique keys")
        default_permissions = ("view", "delete")
        # The tenant comes last: the previous release queries handler and key alone.
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["handler_type", "key", "tenant_id"], name="jobexec_jobkey_of_tenant")
        ]

    def __str__(self) -> str:
        return f"{self.handler_type} {self.key}"
