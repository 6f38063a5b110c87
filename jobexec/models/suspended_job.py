"""The jobs that do not run until an operator or a date activates them."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobexec import clock

from .base import AbstractJob, batch_index, key_index, process_instance_index


class SuspendedJob(AbstractJob):
    """A suspended job (Flowable: ACT_RU_SUSPENDED_JOB); ``due_date`` keeps the backoff of a waiting retry."""

    state: ClassVar[str] = "suspended"
    runnable: ClassVar[bool] = False
    dead: ClassVar[bool] = False

    suspended_at = models.DateTimeField(default=clock.now, db_index=True)

    class Meta(AbstractJob.Meta):
        verbose_name = _("suspended job")
        verbose_name_plural = _("suspended jobs")
        indexes: ClassVar = [
            process_instance_index("jobexec_suspendedjob_instance"),
            batch_index("jobexec_suspendedjob_batch"),
            key_index("jobexec_suspendedjob_key"),
        ]
