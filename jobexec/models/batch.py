"""Batches: an operation on many jobs, done in pieces by its own jobs, or a project's own jobs, followed together."""

from __future__ import annotations

from typing import ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from jobexec import clock
from jobexec.identifiers import uuid7

from .fields import NameField

#: The jobs that carry a batch on: they have its ``batch_id``, too, and are not its children.
BATCH_HANDLERS = ("jobexec.batch_seed", "jobexec.batch_execution", "jobexec.batch_monitor")
#: The type of a batch of a project's own jobs; all other types are operations.
JOBS = "jobs"


class BatchState(models.TextChoices):
    """The states of a batch. A batch of jobs is open until it is sealed; it has failed if not all of them are done."""

    OPEN = "open", pgettext_lazy("batch", "open")
    SEEDING = "seeding", _("seeding")
    RUNNING = "running", _("running")
    COMPLETED = "completed", _("completed")
    FAILED = "failed", _("failed")
    CANCELLED = "cancelled", _("cancelled")


class Batch(models.Model):
    """One operation of ``jobexec.operations`` on a selection of jobs (ACT_RU_BATCH, and ACT_HI_BATCH once it is over).

    A seed job goes through the selection and creates one execution job for each piece of it; a monitor job completes
    the batch. All of them have the batch's id in ``batch_id``, and :attr:`process_instance_id`, by which they are
    suspended, activated and found.

    A batch of the type :data:`JOBS` is a group of a project's own jobs, its *children*: plain jobs with its id in
    ``batch_id``. Its ``arguments`` are what follows them. It has a monitor job, and no seed.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    type = models.CharField(max_length=64, help_text=_("The operation."))
    name = models.CharField(max_length=255, blank=True, default="", db_default="")
    arguments = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    selection = models.JSONField(default=dict, encoder=DjangoJSONEncoder, help_text=_("The selected jobs."))
    state = models.CharField(max_length=16, choices=BatchState, default=BatchState.SEEDING)
    tenant_id = NameField(max_length=64, blank=True, default="")
    create_user = models.CharField(max_length=255, blank=True, default="")
    create_time = models.DateTimeField(default=clock.now, db_index=True)
    end_time = models.DateTimeField(null=True, blank=True)
    deadline = models.DateTimeField(
        null=True, blank=True, help_text=_("A batch of jobs that has not ended by then fails.")
    )
    cursor = models.CharField(
        max_length=64, blank=True, default="", help_text=_("The position that seeding has reached.")
    )
    total = models.PositiveBigIntegerField(default=0, help_text=_("Jobs seeded or added so far."))
    parts = models.PositiveBigIntegerField(default=0, help_text=_("Execution jobs created so far."))
    changed = models.PositiveBigIntegerField(
        default=0, help_text=_("Jobs changed or completed; set when the batch ends.")
    )
    skipped = models.PositiveBigIntegerField(
        default=0, help_text=_("Jobs skipped or removed; set when the batch ends.")
    )
    failed = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text=_("Dead letters of a batch of jobs; set when the batch ends.")
    )

    class Meta:
        verbose_name = _("batch")
        verbose_name_plural = _("batches")
        default_permissions = ("view", "delete")
        permissions: ClassVar = [("manage_batch", _("Can suspend, activate and cancel batches"))]

    def __str__(self) -> str:
        return f"{self.title} {self.pk}"

    @property
    def title(self) -> str:
        """The display name: the name of a batch of jobs, or the operation."""
        return self.name or self.type

    @property
    def process_instance_id(self) -> str:
        """The process instance of the batch's own jobs."""
        return f"batch:{self.pk}"

    @property
    def over(self) -> bool:
        """Whether the batch has ended."""
        return self.state in (BatchState.COMPLETED, BatchState.FAILED, BatchState.CANCELLED)

    @property
    def of_jobs(self) -> bool:
        """Whether it is a batch of a project's own jobs."""
        return self.type == JOBS


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


class BatchTally(models.Model):
    """How many children of a batch of jobs were added or ended in one transaction; the monitor adds the rows up.

    One row for each group of outcomes, and not counters in the batch: those would be one row that all nodes wait for.
    No foreign key: checking it would lock the batch's row.
    """

    batch_id = models.UUIDField()
    added = models.IntegerField(default=0, db_default=0)
    completed = models.IntegerField(default=0, db_default=0)
    failed = models.IntegerField(default=0, db_default=0, help_text=_("Negative if dead letters were requeued."))
    cancelled = models.IntegerField(default=0, db_default=0)

    class Meta:
        verbose_name = _("tally of a batch")
        verbose_name_plural = _("tallies of batches")
        default_permissions = ()
        indexes: ClassVar = [models.Index(fields=["batch_id"], name="jobexec_batchtally_batch")]

    def __str__(self) -> str:
        return f"of {self.batch_id}"


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
