"""Counts reported by nodes."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import NameField


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
