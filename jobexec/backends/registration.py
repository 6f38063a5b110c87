"""Registers tasks as handlers: when they are declared, or otherwise when a job of one is found."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

from django.core.signals import setting_changed

from jobexec.exceptions import InvalidJob
from jobexec.handlers import registry

from . import events
from .compat import InvalidTask
from .function import TaskFunction
from .lookup import backend_of, imported_task, our_backends

if TYPE_CHECKING:
    from .backend import JobExecutorBackend


_lock = Lock()


def register_task(task: Any, backend: JobExecutorBackend | None = None) -> None:
    """Register a task as the handler of its path, replacing an earlier one. Raises InvalidTask.

    ``backend``: by default the task's own. If that is not one of ours, nothing happens: tasks of other backends are
    registered when a job of one is found.
    """
    backend = backend or own_backend(task)
    if backend is None:
        return
    function = handler_of(task, backend)
    with _lock:
        registry.register(function, instead_of=registered(task.module_path))


def handler_of(task: Any, backend: JobExecutorBackend) -> TaskFunction:
    """The function of a task with all its options. Raises InvalidTask if they are not compatible."""
    try:
        return TaskFunction(task, backend.alias, backend.config)
    except InvalidJob as error:
        raise InvalidTask(f"{task.module_path}: {error}") from error


def registered(path: str) -> TaskFunction | None:
    """The task handler that is already registered for this path."""
    handler = registry.registered(path)
    return handler if isinstance(handler, TaskFunction) else None


def registered_tasks() -> list[TaskFunction]:
    """The handlers of all known tasks, ordered by path."""
    return [handler for handler in registry.all_handlers() if isinstance(handler, TaskFunction)]


def own_backend(task: Any) -> JobExecutorBackend | None:
    """The backend that a task was declared for, if it is one of ours."""
    return backend_of(task.backend)


def find_task(path: str) -> Any:
    """The declared task of a path; None if this process does not know it."""
    task = imported_task(path)
    handler = registered(path)
    return handler.task if task is None and handler is not None else task


def resolve(name: str) -> TaskFunction | None:
    """A resolver: the handler of a task that was declared for another backend, and enqueued by one of ours."""
    task = imported_task(name)
    if task is None:
        return None
    backend = own_backend(task) or next(our_backends(), None)
    if backend is None:
        return None
    register_task(task, backend)
    return registered(name)


def register_as_they_stand() -> None:
    """Register tasks as their modules define them now: ``send = jobexec.options(send, ...)``, changed settings."""
    for handler in registered_tasks():
        task = imported_task(handler.name)
        if task is not None and task.func is handler.function:
            register_task(task, own_backend(task) or backend_of(handler.alias))


def _on_setting_changed(*, setting: str, **kwargs: Any) -> None:
    if setting == "TASKS":
        register_as_they_stand()


def connect() -> None:
    """Register the resolver, and receivers for changed settings and for tasks that end without a run.

    May be called more than once.
    """
    from jobexec.operations.history.task_attempts import task_ended

    registry.add_resolver(resolve)
    task_ended.connect(events.ended, dispatch_uid="jobexec.backends")
    setting_changed.connect(_on_setting_changed, dispatch_uid="jobexec.backends")
