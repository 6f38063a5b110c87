"""The jobs that wait for an operator."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobexec import clock

from .base import AbstractJob, PartialIndex, batch_index, key_index, process_instance_index
from .fields import NameField


class DeadLetterJob(AbstractJob):
    """A job without retries left, or that can never run in its present form (Flowable: ACT_RU_DEADLETTER_JOB)."""

    state: ClassVar[str] = "dead letter"
    runnable: ClassVar[bool] = False
    dead: ClassVar[bool] = True

    died_at = models.DateTimeField(default=clock.now, db_index=True)
    fingerprint = models.CharField(
        max_length=32, blank=True, default="", db_default="", help_text=_("Identical for similar failures.")
    )

    lost_key = NameField(
        max_length=255,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text=_("Its unique key, if another job has taken the key since then."),
    )

    class Meta(AbstractJob.Meta):
        verbose_name = _("dead letter job")
        verbose_name_plural = _("dead letter jobs")
        indexes: ClassVar = [
            process_instance_index("jobexec_deadletterjob_instance"),
            batch_index("jobexec_deadletterjob_batch"),
            key_index("jobexec_deadletterjob_key"),
            PartialIndex(
                name="jobexec_deadletterjob_element",
                fields=["process_definition_id", "failed_activity_id"],
                where=~models.Q(process_definition_id=""),
            ),
            models.Index(fields=["fingerprint", "died_at"], name="jobexec_deadletterjob_alike"),
        ]
        permissions: ClassVar = [("requeue_deadletterjob", _("Can requeue dead letter jobs"))]
