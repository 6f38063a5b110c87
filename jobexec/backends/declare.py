"""``jobexec.options``: the options of a job for a task, in all versions of Django."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from .compat import Task
from .task import JobExecutorTask, values_of

if TYPE_CHECKING:
    from .typed import TaskCallOptions, TaskOptions

P = ParamSpec("P")
R = TypeVar("R")


@overload
def options(task: Task[P, R], /, **options: Unpack[TaskCallOptions]) -> Task[P, R]: ...
@overload
def options(**options: Unpack[TaskOptions]) -> Callable[[Task[P, R]], Task[P, R]]: ...
def options(task: Any = None, /, **options: Any) -> Any:
    """Set the options of a job for a task.

    ``jobexec.options(send, retries="R5/PT5M")`` is a copy of the task for calls, as ``using`` makes one, with the same
    arguments. Above ``@task``, ``@jobexec.options(retries="R5/PT5M", sensitive=["card"])`` declares the task with
    them, as ``@task`` itself does from Django 6.1 on.

    The task may belong to another backend. Raises InvalidTask, which names the option.
    """
    if task is None:
        return lambda declared: _declared(declared, options)
    return _converted(task).using(**options)


def _converted(task: Any) -> Any:
    if not isinstance(task, Task):
        raise TypeError(f"jobexec.options: expected a task, got {task!r}.")
    return task if isinstance(task, JobExecutorTask) else JobExecutorTask(**values_of(task))


def _declared(task: Any, options: dict[str, Any]) -> Any:
    from .registration import register_task

    converted = _converted(task)
    declared = JobExecutorTask(**values_of(converted), options={**converted.options, **options})
    register_task(declared)
    return declared
