"""The jobs that are due and wait for their resource."""

from __future__ import annotations

from typing import ClassVar

from django.utils.translation import gettext_lazy as _

from .base import AbstractJob, SparseIndex, batch_index, ordered_index, process_instance_index


class BlockedJob(AbstractJob):
    """A due job whose resource has no permit for it yet (Solid Queue: blocked execution; Ratchet: resource permit).

    The promotion loop moves it to :class:`Job` or :class:`ExternalWorkerJob`, in the order of ranks, when its resource
    allows. A row there that names a resource is the permit: it exists until the run is settled or the job goes back to
    wait.
    """

    state: ClassVar[str] = "blocked"
    runnable: ClassVar[bool] = True
    dead: ClassVar[bool] = False

    class Meta(AbstractJob.Meta):
        verbose_name = _("blocked job")
        verbose_name_plural = _("blocked jobs")
        indexes: ClassVar = [
            ordered_index("jobexec_blockedjob_turn", "resource", "rank"),
            process_instance_index("jobexec_blockedjob_instance"),
            batch_index("jobexec_blockedjob_batch"),
            SparseIndex(name="jobexec_blockedjob_key", fields=["job_key"]),
        ]
