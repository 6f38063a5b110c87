"""Suspensions, with their dates; a small table that acquisition reads for every page."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobexec import clock

from .fields import NameField

_SEPARATOR = "\x1f"


class SuspensionScope(models.TextChoices):
    """The scope of a suspension; the value is the name of the job column that it compares, or represents two of them.

    A single job that is suspended without dates needs no row: its own ``suspend_requested`` suffices.
    """

    JOB = "id", _("job")
    PROCESS_INSTANCE = "process_instance_id", _("process instance")
    PROCESS_DEFINITION_VERSION = "process_definition_id", _("process definition version")
    TENANT_PROCESS_DEFINITION = "tenant_process_definition", _("process definition of a tenant")
    PROCESS_DEFINITION = "process_definition_key", _("process definition")
    JOB_DEFINITION = "job_definition_id", _("job definition")
    CATEGORY = "category", _("category")
    TENANT = "tenant_id", _("tenant")


def columns_of(scope: str) -> tuple[str, ...]:
    """The columns of a job that a scope compares."""
    return ("tenant_id", "process_definition_key") if scope == SuspensionScope.TENANT_PROCESS_DEFINITION else (scope,)


def joined(*parts: str) -> str:
    """The value of a suspension for these values of its columns."""
    return _SEPARATOR.join(parts)


def value_of(scope: str, row: Any) -> str:
    """The value that a suspension of this scope must have to cover the job."""
    return joined(*(str(getattr(row, column)) for column in columns_of(scope)))


def parts_of(scope: str, value: str) -> dict[str, str]:
    """The columns of a scope with the values to compare; empty if the value or the scope is invalid."""
    if scope not in SuspensionScope.values:
        return {}
    columns = columns_of(scope)
    parts = value.split(_SEPARATOR, len(columns) - 1)
    return dict(zip(columns, parts, strict=True)) if len(parts) == len(columns) else {}


class Suspension(models.Model):
    """Jobs whose column ``scope`` equals ``value`` do not run, including those created later.

    In force from ``suspend_time`` until ``activate_time``, if these are set (Camunda: the execution date of suspending
    and activating by definition); the time alone decides, whether or not a sweep has run. ``swept`` means that the rows
    which existed when it came into force have been moved. Without ``include_jobs`` it covers only jobs created after it
    came into force (Camunda: suspending a definition without its jobs). A row that is not ``live`` is over for good,
    whatever the time, and is deleted when its jobs have been activated; meanwhile another for the same jobs may begin.
    Every node looks for suspensions that began or ended and completes their sweeps.
    """

    scope = models.CharField(max_length=32, choices=SuspensionScope)
    value = NameField(max_length=320)
    create_time = models.DateTimeField(default=clock.now)
    suspend_time = models.DateTimeField(null=True, blank=True, help_text=_("When the suspension begins."))
    activate_time = models.DateTimeField(null=True, blank=True, help_text=_("When the suspension ends."))
    include_jobs = models.BooleanField(
        default=True, db_default=True, help_text=_("Whether jobs that existed before it began are suspended, too.")
    )
    swept = models.BooleanField(default=True, help_text=_("Whether the existing jobs have been moved."))
    # NULL and not False: a unique constraint accepts any number of NULLs, on every database.
    live = models.BooleanField(
        null=True, default=True, help_text=_("Empty once it has ended and its jobs are being activated.")
    )

    class Meta:
        verbose_name = _("suspension")
        verbose_name_plural = _("suspensions")
        default_permissions = ("view",)
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["scope", "value", "live"], name="jobexec_suspension_live")
        ]

    def __str__(self) -> str:
        return f"{self.get_scope_display()} {self.shown_value}"

    @property
    def shown_value(self) -> str:
        """The value for display."""
        parts = parts_of(self.scope, self.value)
        if len(parts) < 2:
            return self.value
        return f"{parts['process_definition_key']} ({parts['tenant_id'] or '-'})"

    @property
    def audit_name(self) -> str:
        """Its name in the audit log: the jobs that it covers, because each suspension has a new row."""
        return "/".join(parts_of(self.scope, self.value).values()) or self.value

    def begun(self, now: datetime) -> bool:
        """Whether its start has been reached."""
        return self.suspend_time is None or self.suspend_time <= now

    def over(self, now: datetime) -> bool:
        """Whether it has ended, by its date or by an operation."""
        return not self.live or (self.activate_time is not None and self.activate_time <= now)

    def in_force(self, now: datetime) -> bool:
        """Whether it keeps jobs from running."""
        return self.begun(now) and not self.over(now)

    @property
    def since(self) -> datetime | None:
        """It covers the jobs created from then on; None: all."""
        return None if self.include_jobs else self.suspend_time or self.create_time
