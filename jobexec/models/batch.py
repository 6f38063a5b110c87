"""An operation on many jobs, done in pieces by its own jobs."""

from __future__ import annotations

from typing import ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils.translation import gettext_lazy as _

from jobexec import clock
from jobexec.identifiers import uuid7

from .fields import NameField


class BatchState(models.TextChoices):
    """The states of a batch."""

    SEEDING = "seeding", _("seeding")
    RUNNING = "running", _("running")
    COMPLETED = "completed", _("completed")
    CANCELLED = "cancelled", _("cancelled")


class Batch(models.Model):
    """One operation of ``jobexec.operations`` on a selection of jobs (ACT_RU_BATCH, and ACT_HI_BATCH once it is over).

    A seed job goes through the selection and creates one execution job for each piece of it; a monitor job completes
    the batch. All of them have the batch's id in ``batch_id``, and :attr:`process_instance_id`, by which they are
    suspended, activated and found.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    type = models.CharField(max_length=64, help_text=_("The operation."))
    arguments = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    selection = models.JSONField(default=dict, encoder=DjangoJSONEncoder, help_text=_("Which jobs are meant."))
    state = models.CharField(max_length=16, choices=BatchState, default=BatchState.SEEDING)
    tenant_id = NameField(max_length=64, blank=True, default="")
    create_user = models.CharField(max_length=255, blank=True, default="")
    create_time = models.DateTimeField(default=clock.now, db_index=True)
    end_time = models.DateTimeField(null=True, blank=True)
    cursor = models.CharField(max_length=64, blank=True, default="", help_text=_("How far seeding has come."))
    total = models.PositiveBigIntegerField(default=0, help_text=_("Jobs seeded so far."))
    parts = models.PositiveBigIntegerField(default=0, help_text=_("Execution jobs made so far."))
    changed = models.PositiveBigIntegerField(default=0, help_text=_("Jobs changed, once it is over."))
    skipped = models.PositiveBigIntegerField(default=0, help_text=_("Jobs left alone, once it is over."))

    class Meta:
        verbose_name = _("batch")
        verbose_name_plural = _("batches")
        default_permissions = ("view", "delete")
        permissions: ClassVar = [("manage_batch", _("Can suspend, activate and cancel batches"))]

    def __str__(self) -> str:
        return f"{self.type} {self.pk}"

    @property
    def process_instance_id(self) -> str:
        """The process instance of the batch's own jobs."""
        return f"batch:{self.pk}"

    @property
    def over(self) -> bool:
        """Whether the batch has ended."""
        return self.state in (BatchState.COMPLETED, BatchState.CANCELLED)


class BatchPart(models.Model):
    """One execution job of a batch and its result. The batch's progress is the sum over its parts.

    One row for each, and not counters in the batch: those would be one row that all threads wait for.
    """

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="+")
    job_id = models.UUIDField(unique=True)
    size = models.PositiveIntegerField()
    changed = models.PositiveIntegerField(default=0)
    skipped = models.PositiveIntegerField(default=0)
    end_time = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("part of a batch")
        verbose_name_plural = _("parts of batches")
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.job_id} of {self.batch_id}"


class BatchFailure(models.Model):
    """A job that a batch did not change, and the reason; about the first 10,000 of them."""

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="+")
    job_id = models.UUIDField()
    reason = models.CharField(max_length=1000)

    class Meta:
        verbose_name = _("failure in a batch")
        verbose_name_plural = _("failures in batches")
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.job_id}: {self.reason}"
