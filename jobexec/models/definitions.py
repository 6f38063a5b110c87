"""The code of nodes: its handlers and its versions."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext
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
        null=True, blank=True, help_text=_("Replaces the priority that its jobs were created with.")
    )
    overriding_since = models.DateTimeField(
        null=True, blank=True, help_text=_("Jobs created since then have the overriding priority.")
    )
    sensitive = models.JSONField(
        default=list, db_default=[], help_text=_("Names of arguments whose values are never shown.")
    )
    last_registered = models.DateTimeField(default=clock.now)

    class Meta:
        verbose_name = _("job definition")
        verbose_name_plural = _("job definitions")
        default_permissions = ("view",)
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return self.id


class Deployment(models.Model):
    """A named, versioned set of handlers that nodes have in their code (ACT_RE_DEPLOYMENT).

    ``id`` is ``name:version`` and is the value of the column ``deployment_id`` of a job.
    """

    id = NameField(max_length=255, primary_key=True)
    name = NameField(max_length=127)
    version = NameField(max_length=127)
    deploy_time = models.DateTimeField(default=clock.now)
    handlers = models.JSONField(default=list)

    class Meta:
        verbose_name = _("deployment")
        verbose_name_plural = _("deployments")
        default_permissions = ("view", "delete")
        ordering: ClassVar = ["name", "deploy_time"]
        permissions: ClassVar = [("register_deployment", _("Can register and unregister deployments for nodes"))]

    def __str__(self) -> str:
        return self.id


class DeploymentRegistration(models.Model):
    """Whether the nodes of one name take the jobs of one deployment.

    Stored by node *name*, so it outlives the node's row. ``registered`` false is an operator's decision, which a
    restart of the node does not override. (Camunda keeps its registry in memory and loses it at every restart.)
    """

    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="registrations")
    node_name = NameField(max_length=255)
    registered = models.BooleanField(default=True)
    changed_at = models.DateTimeField(default=clock.now)

    class Meta:
        verbose_name = _("deployment registration")
        verbose_name_plural = _("deployment registrations")
        default_permissions = ("view",)
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["node_name", "deployment"], name="jobexec_registration_unique")
        ]

    def __str__(self) -> str:
        return gettext("%(deployment)s on %(node)s") % {"deployment": self.deployment_id, "node": self.node_name}
