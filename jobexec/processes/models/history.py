"""The history of processes."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobexec.identifiers import uuid7
from jobexec.models.fields import NameField


class ActivityInstance(models.Model):
    """One arrival of a token at an element, written when it is over (ACT_HI_ACTINST).

    What is not over is read from the executions, which know when they came. ``assignee`` is who had the user task in
    the end, ``job_id`` the job that began or did what the element does, if it was not done in the step that reached it.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    instance_id = models.UUIDField()
    parent_id = models.UUIDField(null=True, blank=True)
    definition_id = NameField(max_length=255)
    element_id = NameField(max_length=255)
    kind = models.CharField(max_length=32)
    start_time = models.DateTimeField()
    end_time = models.DateTimeField()
    state = models.CharField(max_length=16)
    called_instance_id = models.UUIDField(null=True, blank=True)
    assignee = NameField(max_length=255, blank=True, default="", db_default="")
    job_id = models.UUIDField(null=True, blank=True)

    class Meta:
        verbose_name = _("activity instance")
        verbose_name_plural = _("activity instances")
        default_permissions = ("view",)
        indexes = (
            models.Index(fields=["instance_id"], name="jobexec_activity_instance"),
            models.Index(fields=["definition_id", "element_id", "end_time"], name="jobexec_activity_element"),
        )

    def __str__(self) -> str:
        return f"{self.element_id} of {self.instance_id}"
