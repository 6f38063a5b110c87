"""The jobs that do not run until an operator or a date activates them."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobexec import clock

from .base import AbstractJob, key_index, ordered_index, process_instance_index


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
            key_index("jobexec_suspendedjob_key"),
            ordered_index("jobexec_suspendedjob_waits", "waits_for_key", "waits_for", "tenant_id"),
        ]
