"""Events of jobs, kept after the jobs are gone."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from .base import process_instance_index
from .fields import NameField


class LogState(models.TextChoices):
    """The event that a log row reports (ACT_HI_JOB_LOG.JOB_STATE_)."""

    CREATED = "created", _("created")
    FAILED = "failed", _("failed")
    SUCCESSFUL = "successful", _("successful")
    DELETED = "deleted", _("deleted")
    CANCELLED = "cancelled", _("cancelled")


class JobLog(models.Model):
    """One event in the life of a job (ACT_HI_JOB_LOG). Holds plain ids, no foreign keys to jobs."""

    timestamp = models.DateTimeField(db_index=True)
    state = models.CharField(max_length=16, choices=LogState)
    job_id = models.UUIDField(db_index=True)
    job_definition_id = NameField(max_length=255, blank=True, default="")
    handler_type = NameField(max_length=255)
    category = NameField(max_length=128)
    process_instance_id = NameField(max_length=255, blank=True, default="")
    process_definition_key = NameField(max_length=255, blank=True, default="")
    deployment_id = NameField(max_length=255, blank=True, default="")
    tenant_id = NameField(max_length=64, blank=True, default="")
    priority = models.IntegerField(default=0)
    due_date = models.DateTimeField(null=True, blank=True)
    retries = models.PositiveIntegerField(default=0, help_text=_("Attempts left after the event."))
    attempt = models.PositiveIntegerField(default=0, help_text=_("The number of the attempt, starting at 1."))
    node = NameField(max_length=255, blank=True, default="")
    wait = models.FloatField(null=True, blank=True, help_text=_("Seconds from the due date to the start."))
    duration = models.FloatField(null=True, blank=True, help_text=_("Seconds that the handler ran."))
    exception_message = models.CharField(max_length=4000, blank=True, default="")
    exception_stack = models.TextField(blank=True, default="")
    fingerprint = models.CharField(max_length=32, blank=True, default="", db_default="")
    client = NameField(
        max_length=150, blank=True, default="", db_default="", help_text=_("The gateway client that reported it.")
    )

    class Meta:
        verbose_name = _("job log entry")
        verbose_name_plural = _("job log")
        default_permissions = ("view",)
        indexes: ClassVar = [process_instance_index("jobexec_joblog_instance")]

    def __str__(self) -> str:
        return f"{self.handler_type} {self.get_state_display()}"
