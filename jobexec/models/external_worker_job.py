"""The jobs of external workers, outside of Django."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobexec import clock

from .base import AbstractJob, SparseIndex, batch_index, ordered_index, process_instance_index


class ExternalWorkerJob(AbstractJob):
    """A job for workers in any language (Flowable: ACT_RU_EXTERNAL_JOB; Camunda 7: ACT_RU_EXT_TASK; Zeebe: job).

    ``handler_type`` is the type of job that workers ask for (Camunda 7: the topic), ``handler_configuration`` contains
    its variables and its callbacks, ``custom_headers`` go to the worker unchanged. ``lock_owner`` is the name of the
    worker that had it last, even after its deadline, ``lock_expiration_time``: until another worker fetches the job, it
    may still be completed. ``attempts`` counts how often it was fetched, ``lost_runs`` how often a deadline was
    missed.
    """

    state: ClassVar[str] = "external worker"
    runnable: ClassVar[bool] = True
    dead: ClassVar[bool] = False

    available_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text=_("When a worker may fetch it: after its deadline or its back-off. Empty: immediately."),
    )
    lease_token = models.CharField(
        max_length=64, blank=True, default="", help_text=_("The token that a worker must send if it asked for a lease.")
    )

    class Meta(AbstractJob.Meta):
        verbose_name = _("external worker job")
        verbose_name_plural = _("external worker jobs")
        indexes: ClassVar = [
            # New rows are in it in the order of their ranks, and locked ones and those that back off come after them.
            ordered_index("jobexec_external_available", "handler_type", "available_at", "rank"),
            models.Index(fields=["lock_owner"], name="jobexec_external_worker"),
            process_instance_index("jobexec_external_instance"),
            batch_index("jobexec_external_batch"),
            SparseIndex(name="jobexec_external_resource", fields=["resource"]),
        ]
        constraints: ClassVar = [models.UniqueConstraint(fields=["job_key"], name="jobexec_external_key")]

    @property
    def locked(self) -> bool:
        """Whether a worker holds the job and its deadline has not passed."""
        return bool(
            self.lock_owner is not None
            and self.lock_expiration_time is not None
            and self.lock_expiration_time > clock.now(self._state.db or "default")
        )


class KeyBlock(models.Model):
    """The numbers from which the keys of external jobs and their incidents are made: one row for 1024 keys.

    Clients of other systems identify jobs by a positive number of 64 bits; no database increments a column that is not
    the primary key, and a number made of time and chance would collide one day.
    """

    id = models.BigAutoField(primary_key=True)

    class Meta:
        verbose_name = _("key block")
        verbose_name_plural = _("key blocks")
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.pk)
