"""Results of tasks: calls, rows and runs as a ``TaskResult`` of django.tasks."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any
from uuid import UUID

from asgiref.sync import sync_to_async

from .compat import TaskError, TaskResult, TaskResultStatus
from .options import Delayed
from .task import rebuilt

if TYPE_CHECKING:
    from jobexec.operations.tasks.results import TaskSight

if TYPE_CHECKING:
    _TaskResult = TaskResult[..., Any]
else:
    _TaskResult = TaskResult

_FIELDS = frozenset(field.name for field in fields(TaskResult))


def enqueued(task: Any, alias: str, row: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The return value of ``enqueue`` for an inserted row."""
    if isinstance(task.run_after, Delayed):
        task = rebuilt(task, run_after=row.due_date)
    return TaskResult(
        task=task,
        id=str(row.pk),
        status=TaskResultStatus.READY,
        enqueued_at=row.create_time,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=args,
        kwargs=kwargs,
        backend=alias,
        errors=[],
        worker_ids=[],
    )


def of_sight(sight: TaskSight, task: Any) -> Any:
    """The result of a task according to the database; ``task`` is the declared task."""
    result: Any = TaskResult(**_values(sight, task))
    object.__setattr__(result, "_return_value", sight.return_value)
    return result


def _values(sight: TaskSight, task: Any) -> dict[str, Any]:
    return {
        "task": rebuilt(
            task,
            backend=sight.backend,
            queue_name=sight.queue_name,
            priority=sight.priority,
            run_after=sight.run_after,
        ),
        "id": str(sight.id),
        "status": TaskResultStatus(sight.status),
        "enqueued_at": sight.enqueued_at,
        "started_at": sight.started_at,
        "finished_at": sight.finished_at,
        "last_attempted_at": sight.last_attempted_at,
        "args": sight.args,
        "kwargs": sight.kwargs,
        "backend": sight.backend,
        "errors": [TaskError(**error) for error in sight.errors],
        "worker_ids": sight.worker_ids,
    }


class LiveTaskResult(_TaskResult):
    """The result of a task that runs or has just ended: known values are set, others are loaded at first use.

    Loaded from the engine ``using``, once, without changing ``known`` values. ``refresh()`` loads again, as ever.
    """

    __slots__ = ("_known", "_using")

    @classmethod
    def make(cls, using: str, **known: Any) -> LiveTaskResult:
        """A result with these known values; ``task`` and ``id`` at least."""
        result = object.__new__(cls)
        for name, value in {"_using": using, "_known": known, **known}.items():
            object.__setattr__(result, name, value)
        return result

    def __getattr__(self, name: str) -> Any:
        # Called for attributes that are not set: Python has looked for them already.
        if name not in _FIELDS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.load()
        return object.__getattribute__(self, name)

    def doubt_task(self) -> None:
        """Load ``task``, too, at its first use, if its backend is not known."""
        try:
            object.__getattribute__(self, "backend")
        except AttributeError:
            object.__delattr__(self, "task")

    def refresh(self) -> None:
        """Load all values again, by the backend of the task."""
        self._find_backend()
        super().refresh()

    async def arefresh(self) -> None:
        """:meth:`refresh` for async callers."""
        await sync_to_async(self._find_backend, thread_sensitive=True)()
        await super().arefresh()

    def _find_backend(self) -> None:
        self.worker_ids  # noqa: B018  # never known before the row is loaded, which says the backend of the task

    def load(self) -> None:
        """Load all values that are not known."""
        from jobexec.operations.tasks.results import find_task_result

        sight, task = find_task_result(UUID(self.id), self._using), self._known["task"]
        values: dict[str, Any] = _nothing(task) if sight is None else _values(sight, task)
        values["_return_value"] = None if sight is None else sight.return_value
        known = dict(self._known)
        if sight is not None:
            del known["task"]  # the row has more of its values
            if len(sight.worker_ids) == 1 and "last_attempted_at" in known:
                known["started_at"] = known["last_attempted_at"]
        for name, value in {**values, **known}.items():
            object.__setattr__(self, name, value)


def _nothing(task: Any) -> dict[str, Any]:
    """Values for a task whose row has been deleted meanwhile."""
    times = dict.fromkeys(("enqueued_at", "started_at", "finished_at", "last_attempted_at"))
    return {**times, "args": [], "kwargs": {}, "errors": [], "worker_ids": [], "backend": task.backend}
