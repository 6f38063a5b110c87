"""Incidents: failures that need an operator."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobexec.identifiers import uuid7

from .base import SparseIndex, key_index, process_instance_index
from .fields import NameField


class IncidentState(models.TextChoices):
    """The states of an incident (ACT_HI_INCIDENT.INCIDENT_STATE_)."""

    OPEN = "open", _("open")
    RESOLVED = "resolved", _("resolved")
    DELETED = "deleted", _("deleted")


class Incident(models.Model):
    """A job has no retries left (ACT_RU_INCIDENT, type failedJob; ACT_HI_INCIDENT), or a breaker is open.

    Opened in the transaction that makes a job a dead letter, resolved in the one that gives it new retries, deleted
    with the job. That of a circuit breaker has a ``resource`` and no job. Holds plain ids, no foreign keys to jobs.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    type = models.CharField(max_length=32, default="failedJob")
    state = models.CharField(max_length=16, choices=IncidentState, default=IncidentState.OPEN)
    timestamp = models.DateTimeField()
    end_time = models.DateTimeField(null=True, blank=True)
    job_id = models.UUIDField(null=True, blank=True, db_index=True)
    resource: models.Field[str | None, str | None] = NameField(  # type: ignore[misc,assignment]
        max_length=255, null=True, blank=True, help_text=_("The resource whose circuit breaker is open.")
    )
    job_definition_id = NameField(max_length=255, blank=True, default="")
    handler_type = NameField(max_length=255)
    category = NameField(max_length=128)
    process_instance_id = NameField(max_length=255, blank=True, default="")
    process_definition_key = NameField(max_length=255, blank=True, default="")
    deployment_id = NameField(max_length=255, blank=True, default="")
    tenant_id = NameField(max_length=64, blank=True, default="")
    failed_activity_id = NameField(max_length=255, blank=True, default="")
    fingerprint = models.CharField(max_length=32, blank=True, default="")
    message = models.CharField(max_length=4000, blank=True, default="")
    incident_key = models.BigIntegerField(
        null=True, blank=True, editable=False, help_text=_("The key that gateway clients use for the incident.")
    )
    annotation = models.CharField(max_length=4000, blank=True, default="")

    class Meta:
        verbose_name = _("incident")
        verbose_name_plural = _("incidents")
        default_permissions = ("view",)
        indexes: ClassVar = [
            models.Index(fields=["state", "timestamp"], name="jobexec_incident_state"),
            models.Index(fields=["end_time"], name="jobexec_incident_end"),
            process_instance_index("jobexec_incident_instance"),
            key_index("jobexec_incident_key", "incident_key"),
            SparseIndex(fields=["resource"], name="jobexec_incident_resource"),
        ]
        permissions: ClassVar = [("annotate_incident", _("Can annotate incidents"))]

    def __str__(self) -> str:
        return f"{self.resource or self.handler_type}: {self.message}"
