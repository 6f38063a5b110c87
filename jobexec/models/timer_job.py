"""The jobs that wait for a time: due later, or waiting for a retry."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from .base import AbstractJob, SparseIndex, batch_index, process_instance_index


class TimerJob(AbstractJob):
    """A job whose ``due_date`` is in the future (Flowable: ACT_RU_TIMER_JOB).

    The timers loop moves it to :class:`Job` when it is due. ``attempts > 0`` distinguishes a retry from a timer.
    """

    state: ClassVar[str] = "timer"
    runnable: ClassVar[bool] = True
    dead: ClassVar[bool] = False

    class Meta(AbstractJob.Meta):
        verbose_name = _("timer job")
        verbose_name_plural = _("timer jobs")
        indexes: ClassVar = [
            models.Index(fields=["due_date"], name="jobexec_timerjob_due"),
            process_instance_index("jobexec_timerjob_instance"),
            batch_index("jobexec_timerjob_batch"),
            SparseIndex(name="jobexec_timerjob_key", fields=["job_key"]),
        ]
