"""Running processes: instances, their executions and variables, and what they wait for.

No foreign keys: they would lock the row of the instance with each insert. All rows of a call hierarchy have the id of
its topmost instance, so that one statement of each table loads them.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Exists, JSONField, OuterRef, Q, QuerySet
from django.db.models import Value as Constant
from django.utils.translation import gettext_lazy as _

from jobexec.identifiers import uuid7
from jobexec.models.fields import NameField

from ..engine.rows import NOT_WAITING


class InstanceState(models.TextChoices):
    """The states of a process instance."""

    ACTIVE = "active", _("active")
    COMPENSATING = "compensating", _("compensating")
    COMPLETED = "completed", _("completed")
    TERMINATED = "terminated", _("terminated")
    CANCELLED = "cancelled", _("cancelled")


RUNNING = (InstanceState.ACTIVE, InstanceState.COMPENSATING)


def value_is(value: Any) -> Q:
    """The condition that a variable has a value; null is stored in two ways.

    MySQL and MariaDB also find the text "5" for the number 5.
    """
    return Q(value=value) if value is not None else Q(value__isnull=True) | Q(value=Constant(None, JSONField()))


class ProcessInstanceQuerySet(QuerySet["ProcessInstance"]):
    """Process instances, filtered by their state, process, tokens and variables."""

    def active(self) -> ProcessInstanceQuerySet:
        """Those that run, also those that compensate."""
        return self.filter(state__in=RUNNING)

    def of(self, key: str, version: int | None = None) -> ProcessInstanceQuerySet:
        """Those of the process with this key, in all versions or in one."""
        if version is None:
            return self.filter(definition_key=key)
        return self.filter(definition_key=key, definition_id__startswith=f"{key}:{version}:")

    def waits_at(self, *elements: str) -> ProcessInstanceQuerySet:
        """Those with a token that waits at one of these elements, also for its own job."""
        tokens = Execution.objects.using(self.db).filter(
            root_id=OuterRef("root_id"), instance_id=OuterRef("pk"), element_id__in=elements
        )
        return self.filter(Exists(tokens.exclude(state__in=NOT_WAITING)))

    def with_variables(self, **values: Any) -> ProcessInstanceQuerySet:
        """Running ones with these values of variables; variables of scopes within an instance do not count.

        On MySQL and MariaDB a text variable equals a number with the same spelling.
        """
        found = self
        for name, value in values.items():
            own = Variable.objects.using(self.db).filter(value_is(value), scope_id=OuterRef("pk"), name=name)
            found = found.filter(Exists(own))
        return found


class ProcessInstance(models.Model):
    """One run of a process, while it runs and afterwards (ACT_RU_EXECUTION and ACT_HI_PROCINST).

    Each step of a call hierarchy locks the row of its topmost instance first, so the steps of a hierarchy come one
    after the other. ``id`` is the ``process_instance_id`` of its jobs, ``key`` its number for clients of Camunda 8.
    ``awaited``: a client of a gateway has started it and waits for its end.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    key = models.BigIntegerField(unique=True, null=True, blank=True)
    definition_id = NameField(max_length=255)
    definition_key = NameField(max_length=255)
    root_id = models.UUIDField()
    parent_execution_id = models.UUIDField(null=True, blank=True)
    business_key = NameField(max_length=255, blank=True, default="")
    tenant_id = NameField(max_length=64, blank=True, default="")
    state = models.CharField(max_length=16, choices=InstanceState, default=InstanceState.ACTIVE)
    start_time = models.DateTimeField()
    end_time = models.DateTimeField(null=True, blank=True)
    start_user = models.CharField(max_length=255, blank=True, default="")
    end_element = NameField(max_length=255, blank=True, default="")
    delete_reason = models.CharField(max_length=4000, blank=True, default="")
    final_variables = models.JSONField(null=True, blank=True, encoder=DjangoJSONEncoder)
    removal_time = models.DateTimeField(null=True, blank=True)
    awaited = models.BooleanField(default=False, db_default=False, editable=False)

    objects = ProcessInstanceQuerySet.as_manager()

    class Meta:
        verbose_name = _("process instance")
        verbose_name_plural = _("process instances")
        default_permissions = ("view", "delete")
        permissions: ClassVar = [
            ("start_processinstance", _("Can start process instances")),
            ("cancel_processinstance", _("Can cancel process instances")),
            ("change_variables", _("Can change the variables of process instances")),
            ("modify_processinstance", _("Can modify process instances")),
            ("restart_processinstance", _("Can restart process instances")),
            ("suspend_processinstance", _("Can suspend and activate process instances")),
        ]
        indexes = (
            models.Index(fields=["root_id"], name="jobexec_procinst_root"),
            models.Index(fields=["definition_id", "state"], name="jobexec_procinst_def"),
            models.Index(fields=["business_key", "state"], name="jobexec_procinst_bkey"),
            models.Index(fields=["definition_key", "start_time"], name="jobexec_procinst_start"),
            models.Index(fields=["removal_time"], name="jobexec_procinst_removal"),
        )

    def __str__(self) -> str:
        return f"{self.definition_key} {self.business_key or self.pk}"


class Execution(models.Model):
    """A token, which waits at an element (ACT_RU_EXECUTION). See ``engine.rows.Token`` for the columns.

    No index has a column that changes while a token moves, so PostgreSQL updates the row in place.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    root_id = models.UUIDField()
    instance_id = models.UUIDField()
    definition_id = NameField(max_length=255)
    parent_id = models.UUIDField()
    element_id = NameField(max_length=255)
    #: None for a token that no flow brought.
    flow_id: models.Field[str | None, str | None] = NameField(max_length=255, null=True, blank=True)  # type: ignore[misc,assignment]
    state = models.CharField(max_length=16)
    activity_id = models.UUIDField(null=True, blank=True)
    entered_at = models.DateTimeField(null=True, blank=True)
    job_id = models.UUIDField(null=True, blank=True)
    called_instance_id = models.UUIDField(null=True, blank=True)
    data = models.JSONField(default=dict, encoder=DjangoJSONEncoder)

    class Meta:
        verbose_name = _("execution")
        verbose_name_plural = _("executions")
        default_permissions = ("view",)
        indexes = (
            models.Index(fields=["root_id"], name="jobexec_execution_root"),
            models.Index(fields=["definition_id"], name="jobexec_execution_def"),
        )

    def __str__(self) -> str:
        return f"{self.element_id} of {self.instance_id}"


class Variable(models.Model):
    """A variable of an instance or of an execution, which is ``scope_id`` (ACT_RU_VARIABLE)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    root_id = models.UUIDField(db_index=True)
    instance_id = models.UUIDField()
    scope_id = models.UUIDField()
    name = NameField(max_length=255)
    value = models.JSONField(null=True, encoder=DjangoJSONEncoder)

    class Meta:
        verbose_name = _("variable")
        verbose_name_plural = _("variables")
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=["scope_id", "name"], name="jobexec_variable_name"),)

    def __str__(self) -> str:
        return self.name


class EventSubscription(models.Model):
    """Waits for a message or a signal (ACT_RU_EVENT_SUBSCR).

    ``owner_id`` is the execution or the instance that waits. A subscription without them belongs to a start event of
    the latest version of its definition.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=16)
    name = NameField(max_length=255)
    key = NameField(max_length=255, blank=True, default="")
    root_id = models.UUIDField(null=True, blank=True)
    instance_id = models.UUIDField(null=True, blank=True)
    owner_id = models.UUIDField(null=True, blank=True)
    element_id = NameField(max_length=255)
    activity_id = models.UUIDField(null=True, blank=True)
    definition_id = NameField(max_length=255)
    tenant_id = NameField(max_length=64, blank=True, default="")
    create_time = models.DateTimeField()
    #: Of an event that does not interrupt, once it has received a message: the ``numbers`` of messages that it would
    #: receive twice otherwise, and whether the job that waited for its first one has still to run (``waiting``).
    received = models.JSONField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("event subscription")
        verbose_name_plural = _("event subscriptions")
        default_permissions = ("view",)
        indexes = (
            models.Index(fields=["kind", "name", "key"], name="jobexec_subscription_event"),
            models.Index(fields=["root_id"], name="jobexec_subscription_root"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
