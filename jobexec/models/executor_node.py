"""The running executors and their leases."""

from __future__ import annotations

from typing import ClassVar, Self

from django.db import models
from django.db.models import Exists, OuterRef
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from jobexec.identifiers import uuid7

from .fields import NameField


class NodeState(models.TextChoices):
    """The states of a node; the row of a node that was stopped gracefully or has been recovered is deleted."""

    ACTIVE = "active", pgettext_lazy("state", "active")
    PAUSED = "paused", _("paused")
    DRAINING = "draining", _("draining")
    DEAD = "dead", _("dead")


class ExecutorNodes(models.QuerySet["ExecutorNode"]):
    """Rows of nodes."""

    def told_apart(self) -> Self:
        """Rows that know whether another node that is not dead has their name."""
        others = ExecutorNode._base_manager.using(self.db).exclude(state=NodeState.DEAD)
        return self.annotate(has_namesakes=Exists(others.filter(name=OuterRef("name")).exclude(pk=OuterRef("pk"))))


class ExecutorNode(models.Model):
    """One running executor on one engine. Its locks are valid as long as its lease, which its heartbeat renews.

    ``lock_owner`` is the name plus the boot's id, so that two nodes of one name, or two boots of one node, are never
    confused. All times are the database's.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = NameField(max_length=200, db_index=True)
    lock_owner = NameField(max_length=255, unique=True)
    state = models.CharField(max_length=16, choices=NodeState, default=NodeState.ACTIVE)
    requested_state = models.CharField(
        max_length=16,
        choices=NodeState,
        default=NodeState.ACTIVE,
        db_default=NodeState.ACTIVE,
        help_text=_("The state requested by an operator; the node follows at its next heartbeat."),
    )
    hostname = models.CharField(max_length=255, blank=True, default="")
    pid = models.PositiveBigIntegerField(default=0)
    start_time = models.DateTimeField()
    heartbeat_time = models.DateTimeField()
    lease_expiration_time = models.DateTimeField()
    threads = models.PositiveIntegerField(default=0)
    queue_size = models.PositiveIntegerField(default=0)
    busy_threads = models.PositiveIntegerField(default=0)
    queued_jobs = models.PositiveIntegerField(default=0)
    stuck_threads = models.PositiveIntegerField(
        default=0, help_text=_("Threads whose job is still running after its timeout.")
    )
    categories = models.JSONField(default=list)
    deployments = models.JSONField(default=list)
    running = models.JSONField(
        default=list,
        db_default=[],
        editable=False,
        help_text=_("What has been running there for a while, the longest first."),
    )
    deployment = NameField(
        max_length=255, blank=True, default="", db_default="", help_text=_("The value declared in the code.")
    )
    deployment_aware = models.BooleanField(default=False)

    objects = ExecutorNodes.as_manager()
    has_namesakes = False

    class Meta:
        verbose_name = _("executor node")
        verbose_name_plural = _("executor nodes")
        default_permissions = ("view",)
        permissions: ClassVar = [("control_executornode", _("Can pause, resume and drain executor nodes"))]
        ordering: ClassVar = ["name", "start_time"]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """The name; of labelled rows, with the process if another node has the same name."""
        if not self.has_namesakes:
            return self.name
        return gettext("%(name)s (%(pid)d on %(host)s)") % {
            "name": self.name,
            "pid": self.pid,
            "host": self.hostname or "?",
        }
