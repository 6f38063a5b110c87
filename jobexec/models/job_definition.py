"""Registered handlers."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobexec import clock

from .fields import NameField


class JobDefinition(models.Model):
    """A handler in the code of some node (ACT_RU_JOBDEF); written by executors when they start.

    Jobs refer to their definition by plain id and need no row here: enqueueing touches no definition.
    """

    id = NameField(max_length=255, primary_key=True)
    handler_type = NameField(max_length=255)
    process_definition_key = NameField(max_length=255, blank=True, default="")
    category = NameField(max_length=128)
    priority = models.IntegerField(default=0)
    retry_plan = models.CharField(max_length=255, blank=True, default="")
    exclusive = models.BooleanField(default=True)
    atomic = models.BooleanField(default=False)
    overriding_priority = models.IntegerField(
        null=True, blank=True, help_text=_("Instead of the priority that its jobs were created with.")
    )
    overriding_since = models.DateTimeField(
        null=True, blank=True, help_text=_("The jobs that were created from then on have it.")
    )
    sensitive = models.JSONField(default=list, db_default=[], help_text=_("Arguments that are never shown."))
    last_registered = models.DateTimeField(default=clock.now)

    class Meta:
        verbose_name = _("job definition")
        verbose_name_plural = _("job definitions")
        default_permissions = ("view",)
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return self.id
