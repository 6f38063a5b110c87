"""Figures that nodes report: meters, groups of similar failures, and which of them were reported to alert targets."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import NameField

#: Of a message that stands for the name of an exception, as of an external worker.
_LONGEST_TITLE = 60


class FailureGroup(models.Model):
    """All failures of one fingerprint: the same handler, kind of exception and place in the code.

    Nodes count failures in memory and write them here together with their meters, so a storm of failures costs a few
    statements a minute and never a count of rows.
    """

    fingerprint = models.CharField(max_length=32, primary_key=True)
    handler_type = NameField(max_length=255)
    exception = models.CharField(max_length=255, blank=True, default="")
    message = models.CharField(
        max_length=1000, blank=True, default="", help_text=_("The message of the latest failure.")
    )
    job_id = models.UUIDField(null=True, help_text=_("The latest job with this failure."))
    first_time = models.DateTimeField()
    last_time = models.DateTimeField()
    count = models.PositiveBigIntegerField(default=0)
    assigned_to = NameField(
        max_length=150, blank=True, default="", db_default="", help_text=_("The user who deals with it.")
    )
    acknowledged_at = models.DateTimeField(
        null=True, blank=True, help_text=_("When it was acknowledged: it is quiet from then on.")
    )
    snoozed_until = models.DateTimeField(null=True, blank=True, help_text=_("It is quiet until this time."))
    snoozed_to_count = models.PositiveBigIntegerField(
        null=True, blank=True, help_text=_("It is quiet until there are more failures than this.")
    )

    class Meta:
        verbose_name = _("group of failures")
        verbose_name_plural = _("groups of failures")
        default_permissions = ("view",)
        permissions: ClassVar = [("manage_failuregroup", _("Can assign, acknowledge and snooze groups of failures"))]
        indexes: ClassVar = [models.Index(fields=["last_time"], name="jobexec_failuregroup_last")]

    def __str__(self) -> str:
        """The title of a group wherever it is named: ``charge_card: GatewayTimeout``, without modules, as in a call."""
        handler, exception = (name.rpartition(".")[2] or name for name in (self.handler_type, self.exception))
        what = exception or self.message.strip().partition("\n")[0][:_LONGEST_TITLE]
        return f"{handler}: {what}" if what else handler

    def snoozed(self, now: datetime) -> bool:
        """Whether it is snoozed: neither its date nor its number of failures has been reached."""
        if self.snoozed_until is None and self.snoozed_to_count is None:
            return False
        ended = self.snoozed_until is not None and self.snoozed_until <= now
        return not (ended or (self.snoozed_to_count is not None and self.count > self.snoozed_to_count))

    def quiet(self, now: datetime) -> bool:
        """Whether an operator has silenced it: then it is no problem on the dashboard, and no alert is sent."""
        return self.acknowledged_at is not None or self.snoozed(now)


class AlertedGroup(models.Model):
    """How far a target in DEAD_LETTER_ALERTS has been told of a group, or with the fingerprint ``*`` of all groups.

    Of incidents until ``told_until`` it needs no alert; the last one was enqueued at ``alert_time``.
    """

    target = NameField(max_length=64)
    fingerprint = models.CharField(max_length=32)
    told_until = models.DateTimeField()
    alert_time = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("alerted group of failures")
        verbose_name_plural = _("alerted groups of failures")
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["target", "fingerprint"], name="jobexec_alertedgroup_unique")
        ]

    def __str__(self) -> str:
        return f"{self.target}: {self.fingerprint}"


class MeterLog(models.Model):
    """How much a meter of one node grew until ``timestamp`` (ACT_RU_METER_LOG): deltas, flushed regularly.

    ``key`` subdivides the counts of one meter: a handler, a fingerprint, a bucket of a histogram. Old rows are rolled
    up into fewer, without a reporter; the sum over all rows of a meter never shrinks.
    """

    name = models.CharField(max_length=64)
    key = NameField(max_length=255, blank=True, default="")
    reporter = NameField(max_length=200, blank=True, default="")
    timestamp = models.DateTimeField()
    value = models.BigIntegerField()

    class Meta:
        verbose_name = _("meter log entry")
        verbose_name_plural = _("meter log")
        default_permissions = ("view",)
        indexes: ClassVar = [
            models.Index(fields=["name", "timestamp"], name="jobexec_meterlog_name"),
            # Finds the rows not rolled up yet, which have a reporter, among those that were.
            models.Index(fields=["reporter", "timestamp"], name="jobexec_meterlog_reporter"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.key}: {self.value}"
