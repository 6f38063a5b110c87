"""The backend for django.tasks: :class:`~jobexec.backends.backend.JobExecutorBackend`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backend import JobExecutorBackend

__all__ = ["JobExecutorBackend"]


def installed() -> bool:
    """Whether a package of tasks is installed: Django's own, or the backport."""
    return any(find_spec(name) is not None for name in ("django.tasks", "django_tasks"))


def __getattr__(name: str) -> Any:
    """Import the backend at first use: the rest of jobexec must work without a package of tasks."""
    if name != "JobExecutorBackend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .backend import JobExecutorBackend

    return JobExecutorBackend
