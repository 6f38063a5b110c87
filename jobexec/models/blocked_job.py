"""The jobs that wait for a message or for their resource."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from .base import AbstractJob, SparseIndex, ordered_index, process_instance_index


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
            SparseIndex(name="jobexec_blockedjob_key", fields=["job_key"]),
        ]
