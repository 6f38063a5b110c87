"""What a task that takes its context gets."""

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
    """The context of django.tasks, and in ``job`` that of the job: progress, cancelled, deadline, check_lease().

    ``task_result`` is RUNNING; this attempt and the errors of earlier ones are in it. It asks the database only when
    somebody looks at what it does not know; ``attempt`` and ``job`` never do.
    """

    job: JobContext

    @property
    def attempt(self) -> int:
        """Which attempt this is; counts from 1."""
        return self.job.attempt
