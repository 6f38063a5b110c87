"""The versions of the code, and which node names serve them."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from jobexec import clock

from .fields import NameField


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
