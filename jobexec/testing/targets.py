"""How a test names a handler: the function of a job, a task, or a name."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, runtime_checkable


@runtime_checkable
class HasModulePath(Protocol):
    """A task of django.tasks."""

    @property
    def module_path(self) -> str: ...


@runtime_checkable
class HasName(Protocol):
    """The function of a job."""

    @property
    def name(self) -> str: ...


Target: TypeAlias = str | HasModulePath | HasName


def handler_name(target: Target) -> str:
    """The name stored in rows. Raises TypeError if the target does not name a handler."""
    found: Any = target
    if not isinstance(target, str):
        # In this order: a task's ``name`` is that of its function alone.
        found = getattr(target, "module_path", None) or getattr(target, "name", None)
    if not isinstance(found, str) or not found:
        raise TypeError(f"Expected the function of a job, a task, or the name of a handler, got {target!r}.")
    return found
