"""The context passed to a task that takes one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobexec.handlers.context import JobContext

from .compat import TaskContext

if TYPE_CHECKING:
    _TaskContext = TaskContext[Any, Any]
else:
    _TaskContext = TaskContext


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExecutorTaskContext(_TaskContext):  # type: ignore[misc]  # the stubs do not say that it is frozen, too
    """The context of django.tasks, with that of the job in ``job``: progress, cancelled, deadline, check_lease().

    ``task_result`` is RUNNING and includes this attempt and the errors of earlier ones. It queries the database only
    for values that it does not know; ``attempt`` and ``job`` never do.
    """

    job: JobContext

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.job.attempt
