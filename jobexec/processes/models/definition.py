"""Deployments: files, and the processes in them; also the shapes of flows."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobexec import clock
from jobexec.identifiers import uuid7
from jobexec.models.fields import NameField


class ProcessDeployment(models.Model):
    """Files that were deployed together (ACT_RE_DEPLOYMENT). ``key`` is its number for clients of Camunda 8."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    key = models.BigIntegerField(unique=True, null=True, blank=True)
    name = models.CharField(max_length=255, blank=True, default="")
    source = models.CharField(
        max_length=255, blank=True, default="", help_text=_("The app or client that deployed it.")
    )
    tenant_id = NameField(max_length=64, blank=True, default="")
    deploy_user = models.CharField(max_length=255, blank=True, default="")
    deploy_time = models.DateTimeField(default=clock.now)

    class Meta:
        verbose_name = _("process deployment")
        verbose_name_plural = _("process deployments")
        default_permissions = ("add", "view", "delete")

    def __str__(self) -> str:
        return self.name or str(self.pk)


class ProcessResource(models.Model):
    """One file of a deployment, as it came (ACT_GE_BYTEARRAY)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    deployment_id = models.UUIDField(db_index=True)
    name = models.CharField(max_length=255)
    text = models.TextField()
    sha256 = models.CharField(max_length=64)

    class Meta:
        verbose_name = _("process resource")
        verbose_name_plural = _("process resources")
        default_permissions = ()

    def __str__(self) -> str:
        return self.name


class ProcessDefinition(models.Model):
    """One process in one version (ACT_RE_PROCDEF), or one shape of a flow, which has no version.

    Rows do not change, so processes keep what they have read. ``model`` is the definition as JSON
    (:mod:`jobexec.processes.definition.as_json`). ``key`` is the id of the process in its file, ``number`` what clients
    of Camunda 8 call the key of this version; the shapes of flows have none.
    """

    id = NameField(max_length=255, primary_key=True)
    key = NameField(max_length=255)
    number = models.BigIntegerField(unique=True, null=True, blank=True)
    version = models.PositiveIntegerField(null=True, blank=True)
    version_tag = NameField(max_length=255, blank=True, default="")
    name = models.CharField(max_length=255, blank=True, default="")
    tenant_id = NameField(max_length=64, blank=True, default="")
    deployment_id = models.UUIDField(null=True, blank=True, db_index=True)
    resource_id = models.UUIDField(null=True, blank=True)
    model = models.TextField()
    code_deployment = NameField(
        max_length=100, blank=True, default="", help_text=_("The code deployment that contains its handlers.")
    )
    deploy_time = models.DateTimeField(default=clock.now)

    class Meta:
        verbose_name = _("process definition")
        verbose_name_plural = _("process definitions")
        default_permissions = ("view", "delete")
        permissions: ClassVar = [("suspend_processdefinition", _("Can suspend and activate process definitions"))]
        # The versions of flows are NULL, and NULLs differ from each other.
        constraints = (models.UniqueConstraint(fields=["tenant_id", "key", "version"], name="jobexec_procdef_version"),)

    def __str__(self) -> str:
        return f"{self.key} {self.version}" if self.version else self.key
