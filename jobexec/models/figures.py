"""Figures that nodes report: meters, groups of similar failures, and who has been told of them."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import NameField


class FailureGroup(models.Model):
    """All failures of one fingerprint: the same handler, kind of exception and place in the code.

    Nodes count failures in memory and write them here together with their meters, so a storm of failures costs a few
    statements a minute and never a count of rows.
    """

    fingerprint = models.CharField(max_length=32, primary_key=True)
    handler_type = NameField(max_length=255)
    exception = models.CharField(max_length=255, blank=True, default="")
    message = models.CharField(max_length=1000, blank=True, default="", help_text=_("Of the latest of them."))
    job_id = models.UUIDField(null=True, help_text=_("The latest job that failed so."))
    first_time = models.DateTimeField()
    last_time = models.DateTimeField()
    count = models.PositiveBigIntegerField(default=0)

    class Meta:
        verbose_name = _("group of failures")
        verbose_name_plural = _("groups of failures")
        default_permissions = ("view",)
        indexes: ClassVar = [models.Index(fields=["last_time"], name="jobexec_failuregroup_last")]

    def __str__(self) -> str:
        return f"{self.handler_type}: {self.exception}"


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
