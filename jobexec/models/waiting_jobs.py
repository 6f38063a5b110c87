"""The jobs that wait: for a time, for a message or their resource, or until they are activated."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobexec import clock

from .base import AbstractJob, SparseIndex, batch_index, key_index, ordered_index, process_instance_index


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


class BlockedJob(AbstractJob):
    """A job that waits for something other than its date.

    For a message, as long as it names one in ``waits_for`` (Zeebe: message subscription). It is looked at when
    ``next_look`` comes: at once, because its message may have come before it, and when its wait ends.

    Otherwise it is due, and its resource has no permit for it yet (Solid Queue: blocked execution; Ratchet: resource
    permit). The promotion loop moves it to :class:`Job` or :class:`ExternalWorkerJob`, in the order of ranks, when its
    resource allows. A row there that names a resource is the permit: it exists until the run is settled or the job goes
    back to wait.
    """

    state: ClassVar[str] = "blocked"
    runnable: ClassVar[bool] = True
    dead: ClassVar[bool] = False

    next_look = models.DateTimeField(null=True, blank=True)

    class Meta(AbstractJob.Meta):
        verbose_name = _("blocked job")
        verbose_name_plural = _("blocked jobs")
        indexes: ClassVar = [
            ordered_index("jobexec_blockedjob_turn", "resource", "waits_for", "rank"),
            ordered_index("jobexec_blockedjob_waits", "waits_for_key", "waits_for", "tenant_id"),
            SparseIndex(name="jobexec_blockedjob_look", fields=["next_look"]),
            process_instance_index("jobexec_blockedjob_instance"),
            batch_index("jobexec_blockedjob_batch"),
            SparseIndex(name="jobexec_blockedjob_key", fields=["job_key"]),
        ]


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
            ordered_index("jobexec_suspendedjob_waits", "waits_for_key", "waits_for", "tenant_id"),
        ]
