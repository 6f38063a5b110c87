"""The backend for django.tasks: :class:`~jobexec.backends.backend.JobExecutorBackend`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from jobexec.exceptions import InvalidSettings

if TYPE_CHECKING:
    from .backend import JobExecutorBackend

__all__ = ["JobExecutorBackend"]


def installed() -> bool:
    """Whether a package of tasks is installed: Django's own, or the backport."""
    return any(find_spec(name) is not None for name in ("django.tasks", "django_tasks"))


def served_by(aliases: list[str]) -> tuple[list[str], list[str] | None]:
    """The engines and the categories that have the tasks of these backends; None for all categories.

    Tasks of other backends whose queues have the same categories are served, too. Raises InvalidSettings for an alias
    that is no backend of jobexec.
    """
    from .lookup import our_backends

    ours = {backend.alias: backend for backend in our_backends()} if installed() else {}
    if unknown := [alias for alias in aliases if alias not in ours]:
        expected = f"one of {', '.join(map(repr, ours))}" if ours else "none, as TASKS has no backend of jobexec"
        raise InvalidSettings(f"--backend: expected {expected}, got {unknown[0]!r}.")
    found = [ours[alias] for alias in aliases]
    every = any(not backend.queues for backend in found)  # an empty set of queues accepts any
    categories = {backend.config.category(queue): True for backend in found for queue in sorted(backend.queues)}
    return list({backend.database: True for backend in found}), None if every else list(categories)


def __getattr__(name: str) -> Any:
    """Import the backend at first use: the rest of jobexec must work without a package of tasks."""
    if name != "JobExecutorBackend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .backend import JobExecutorBackend

    return JobExecutorBackend
