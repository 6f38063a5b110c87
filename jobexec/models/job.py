"""The executable jobs: due by definition; a small, frequently changed table."""

from __future__ import annotations

from typing import ClassVar

from django.utils.translation import gettext_lazy as _

from .base import AbstractJob, SparseIndex, batch_index, ordered_index, process_instance_index


class Job(AbstractJob):
    """A job that may run now (Camunda: ACT_RU_JOB; Flowable: the executable jobs of ACT_RU_JOB).

    A row that names a ``resource`` holds a permit of it. Success deletes the row. One index serves acquisition, in
    acquisition order; no index contains a lock column, so that locking a row writes no index (a HOT update on
    PostgreSQL, see the fillfactor in the migration).
    """

    state: ClassVar[str] = "executable"
    runnable: ClassVar[bool] = True
    dead: ClassVar[bool] = False

    class Meta(AbstractJob.Meta):
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        indexes: ClassVar = [
            ordered_index("jobexec_job_acquisition", "category", "deployment_id", "rank"),
            process_instance_index("jobexec_job_instance"),
            batch_index("jobexec_job_batch"),
            SparseIndex(name="jobexec_job_resource", fields=["resource"]),
        ]
        permissions: ClassVar = [
            ("enqueue_job", _("Can enqueue jobs, including copies with other arguments")),
            ("retry_job", _("Can set retries and retry jobs now")),
            ("cancel_job", _("Can cancel jobs")),
            ("suspend_job", _("Can suspend jobs")),
            ("activate_job", _("Can activate jobs")),
            ("reschedule_job", _("Can change due dates of jobs")),
            ("prioritize_job", _("Can change priorities of jobs")),
            ("unlock_job", _("Can unlock jobs")),
            ("execute_job", _("Can execute jobs in the process of the admin")),
            ("bury_job", _("Can move jobs to the dead letters")),
            ("reencrypt_job", _("Can encrypt jobs with the newest key")),
            ("reveal_job", _("Can view the arguments of encrypted jobs")),
        ]
