"""Which backends are ours, and which task a path means: in what this process has imported, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from django.utils.module_loading import import_string

from .compat import Task, task_backends

if TYPE_CHECKING:
    from .backend import JobExecutorBackend


def our_backends() -> Iterator[JobExecutorBackend]:
    """The backends in TASKS that are of this class, in their order there; those of this thread."""
    for alias, params in task_backends.settings.items():
        if _is_ours(params["BACKEND"]):
            backend: Any = task_backends[alias]
            yield backend


@cache
def _is_ours(path: str) -> bool:
    """Whether this names our class or one of it; asked of the class, for others may connect to somewhere when made."""
    from .backend import JobExecutorBackend

    try:
        return issubclass(import_string(path), JobExecutorBackend)
    except ImportError:
        return False  # django.tasks says so whenever it is used


def backend_of(alias: str) -> JobExecutorBackend | None:
    """The backend of this alias, if it is one of ours."""
    return next((backend for backend in our_backends() if backend.alias == alias), None)


def backends_on(using: str) -> list[JobExecutorBackend]:
    """Those whose jobs are in this engine."""
    return [backend for backend in our_backends() if backend.database == using]


def imported_task(path: str) -> Any:
    """The task of this path in a module that has been imported; None if there is none.

    Nothing is imported because a row says so, and nothing is called: names are looked up as they stand.
    """
    parts = path.split(".")
    for end in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:end]))
        if module is not None:
            return _within(module, parts[end:], path)
    return None


def _within(module: Any, names: list[str], path: str) -> Any:
    found = module
    for name in names:
        found = getattr(found, "__dict__", {}).get(name)
        if isinstance(found, staticmethod):
            found = found.__func__
    # A task that was imported into another module has the path of its own.
    return found if isinstance(found, Task) and found.module_path == path else None
