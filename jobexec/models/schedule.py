"""Recurring schedules."""

from __future__ import annotations

from typing import ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from jobexec import clock

from .fields import NameField


class Misfire(models.TextChoices):
    """How to handle times that passed while no node could fire them."""

    SKIP = "skip", pgettext_lazy("missed times of a schedule", "skip them")
    ONCE = "once", pgettext_lazy("missed times of a schedule", "one job for all of them")
    ALL = "all", pgettext_lazy("missed times of a schedule", "a job for each of them")


#: The prefix of the text of a declaration that the code has withdrawn.
WITHDRAWN = "-"


class Schedule(models.Model):
    """A job that is created at each of the times of ``expression``: cron, or an ISO 8601 cycle (R/PT1H).

    Declared in code (``@job(schedule=...)``) and written by executors when they start, or created by an operator.
    ``next_time`` is when it fires next, None if never again. ``declared`` is the code's last declaration, so that a new
    release changes the schedule and a restart does not undo an operator's changes.
    """

    name = NameField(max_length=255, unique=True)
    handler_type = NameField(max_length=255)
    handler_configuration = models.JSONField(default=dict, blank=True, encoder=DjangoJSONEncoder)
    options = models.JSONField(
        default=dict, blank=True, encoder=DjangoJSONEncoder, help_text=_("Options of its jobs, as accepted by using().")
    )
    expression = models.CharField(
        max_length=255, help_text=_("A cron expression such as 0 3 * * *, or an ISO 8601 cycle such as R/PT1H.")
    )
    timezone = models.CharField(
        max_length=64, help_text=_("The time zone of a cron expression, such as Europe/Berlin.")
    )
    misfire = models.CharField(
        max_length=8, choices=Misfire, default=Misfire.ONCE, help_text=_("What happens to missed times.")
    )
    enabled = models.BooleanField(default=True)
    declared = models.CharField(max_length=2000, blank=True, default="", editable=False)
    declared_time = models.DateTimeField(
        null=True, blank=True, editable=False, help_text=_("When an executor last reported that the code declares it.")
    )
    create_time = models.DateTimeField(default=clock.now)
    next_time = models.DateTimeField(null=True, blank=True, db_index=True)
    last_time = models.DateTimeField(null=True, blank=True, help_text=_("The latest time for which it fired."))
    fired = models.PositiveBigIntegerField(default=0, help_text=_("Jobs created so far."))

    class Meta:
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        ordering: ClassVar = ["name"]
        permissions: ClassVar = [("fire_schedule", "Can enable, disable and fire schedules")]

    def __str__(self) -> str:
        return self.name

    @property
    def from_code(self) -> bool:
        """Whether it was declared by a decorator rather than created by an operator."""
        return bool(self.declared)

    @property
    def withdrawn(self) -> bool:
        """Whether the code no longer declares it. It has no next time until the code declares it again."""
        return self.declared.startswith(WITHDRAWN)


class ScheduleFiring(models.Model):
    """One time of a schedule and the job that was created for it. Unique: no two nodes fire the same time."""

    schedule = models.ForeignKey(Schedule, models.CASCADE, related_name="firings", db_index=False)
    fire_time = models.DateTimeField()
    job_id = models.UUIDField(db_index=True)
    create_time = models.DateTimeField(default=clock.now, db_index=True)

    class Meta:
        verbose_name = _("firing of a schedule")
        verbose_name_plural = _("firings of schedules")
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["schedule", "fire_time"], name="jobexec_schedulefiring_time")
        ]

    def __str__(self) -> str:
        return f"{self.schedule_id} {self.fire_time:%Y-%m-%d %H:%M:%S}"
