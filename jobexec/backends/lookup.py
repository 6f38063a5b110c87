"""Which backends are ours, and the task of a path: only from modules that this process has imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from django.utils.module_loading import import_string

from jobexec.exceptions import InvalidSettings

from .compat import Task, task_backends

if TYPE_CHECKING:
    from .backend import JobExecutorBackend


def our_backends() -> Iterator[JobExecutorBackend]:
    """The backends in TASKS of this class, in their order there; this thread's instances."""
    for alias, params in task_backends.settings.items():
        if _is_ours(params["BACKEND"]):
            backend: Any = task_backends[alias]
            yield backend


@cache
def _is_ours(path: str) -> bool:
    """Whether the path names our class or a subclass; creating other backends might open connections."""
    from .backend import JobExecutorBackend

    try:
        return issubclass(import_string(path), JobExecutorBackend)
    except ImportError:
        return False  # django.tasks reports it whenever the alias is used


def backend_of(alias: str) -> JobExecutorBackend | None:
    """The backend of this alias, if it is one of ours."""
    return next((backend for backend in our_backends() if backend.alias == alias), None)


def backends_on(using: str) -> list[JobExecutorBackend]:
    """The backends whose jobs are in this engine."""
    return [backend for backend in our_backends() if backend.database == using]


def served_by(aliases: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """The engines and the categories that have the tasks of these backends; None for all categories.

    Tasks of other backends whose queues have the same categories are served, too. Raises InvalidSettings for an alias
    that is no backend of jobexec.
    """
    ours = {backend.alias: backend for backend in our_backends()}
    if unknown := [alias for alias in aliases if alias not in ours]:
        expected = f"one of {', '.join(map(repr, ours))}" if ours else "a backend of jobexec, of which TASKS has none"
        raise InvalidSettings(f"--backend: expected {expected}, got {unknown[0]!r}.")
    found = [ours[alias] for alias in aliases]
    every = any(not backend.queues for backend in found)  # an empty set of queues accepts any
    categories = dict.fromkeys(backend.config.category(queue) for backend in found for queue in sorted(backend.queues))
    return list(dict.fromkeys(backend.database for backend in found)), None if every else list(categories)


def imported_task(path: str) -> Any:
    """The task of this path in an imported module; None if there is none.

    Nothing is imported because a row names it, and nothing is called: names are looked up in ``__dict__``.
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
    # A task imported into another module still has its own path.
    return found if isinstance(found, Task) and found.module_path == path else None
