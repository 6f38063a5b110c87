"""What is suspended beyond single jobs; a small table that acquisition reads on every page."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobexec import clock

from .fields import NameField


class Scope(models.TextChoices):
    """What a suspension covers; the value is the name of the job column that it compares."""

    PROCESS_INSTANCE = "process_instance_id", _("process instance")
    PROCESS_DEFINITION = "process_definition_key", _("process definition")
    JOB_DEFINITION = "job_definition_id", _("job definition")
    TENANT = "tenant_id", _("tenant")


class Suspension(models.Model):
    """Jobs whose column ``scope`` equals ``value`` do not run, also those that are created later.

    In force from ``suspend_time`` until ``activate_time``, where these are given (Camunda: the execution date of
    suspending and activating by definition). ``swept`` says that the rows which existed when it came into force have
    been moved; every node looks for suspensions that began or ended and finishes what is left to do.
    """

    scope = models.CharField(max_length=32, choices=Scope)
    value = NameField(max_length=255)
    create_time = models.DateTimeField(default=clock.now)
    suspend_time = models.DateTimeField(null=True, blank=True, help_text=_("In force from then on."))
    activate_time = models.DateTimeField(null=True, blank=True, help_text=_("In force until then."))
    swept = models.BooleanField(default=True, help_text=_("The jobs that existed then have been moved."))

    class Meta:
        verbose_name = _("suspension")
        verbose_name_plural = _("suspensions")
        default_permissions = ("view",)
        constraints: ClassVar = [models.UniqueConstraint(fields=["scope", "value"], name="jobexec_suspension_unique")]

    def __str__(self) -> str:
        return f"{self.get_scope_display()} {self.value}"
