"""Which handler runs which ``handler_type``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jobexec.exceptions import DuplicateHandler, HandlerNotFound

from .base import AsyncJobHandler, JobHandler

if TYPE_CHECKING:
    from .history import HistoryHandler

_handlers: dict[str, JobHandler] = {}
#: Those of them that can run without a thread, by the same names.
_async_handlers: dict[str, AsyncJobHandler] = {}
_history_handlers: dict[str, HistoryHandler] = {}


def register(handler: JobHandler) -> None:
    """Make a handler known by its name and its aliases.

    Raises :class:`~jobexec.exceptions.DuplicateHandler` if another one has one of them: which of the two a row
    means must not depend on the order of imports.
    """
    for name in (handler.name, *handler.aliases):
        known = _handlers.get(name)
        if known is not None and known is not handler:
            raise DuplicateHandler(f"{name!r} is the name or an alias of two handlers: {known!r} and {handler!r}.")
    for name in (handler.name, *handler.aliases):
        _handlers[name] = handler
        if isinstance(handler, AsyncJobHandler) and handler.is_async:
            _async_handlers[name] = handler


def async_handlers() -> Mapping[str, AsyncJobHandler]:
    """The handlers that an event loop can run, by all their names; what is registered later is seen in it, too."""
    return MappingProxyType(_async_handlers)


def get_handler(name: str) -> JobHandler:
    """The handler of this name or alias. Raises :class:`~jobexec.exceptions.HandlerNotFound`."""
    try:
        return _handlers[name]
    except KeyError:
        raise HandlerNotFound(f"No handler {name!r} is registered in this process.") from None


def all_handlers() -> list[JobHandler]:
    """Every registered handler once, ordered by name."""
    return [_handlers[name] for name in sorted(_handlers) if _handlers[name].name == name]


def register_history(handler: HistoryHandler) -> None:
    """Make a history handler known. Raises :class:`~jobexec.exceptions.DuplicateHandler` if its name is taken."""
    known = _history_handlers.setdefault(handler.name, handler)
    if known is not handler:
        raise DuplicateHandler(f"{handler.name!r} is the name of two history handlers.")


def get_history_handler(name: str) -> HistoryHandler:
    """The history handler of this name. Raises :class:`~jobexec.exceptions.HandlerNotFound`."""
    try:
        return _history_handlers[name]
    except KeyError:
        raise HandlerNotFound(f"No history handler {name!r} is registered in this process.") from None


@contextmanager
def isolated(*, empty: bool = False) -> Iterator[None]:
    """Forget, at the end of the block, what was registered in it; for tests. ``empty``: begin without any handler."""
    tables: tuple[dict[str, Any], ...] = (_handlers, _async_handlers, _history_handlers)
    before = [dict(table) for table in tables]
    if empty:
        for table in tables:
            table.clear()
    try:
        yield
    finally:
        for table, content in zip(tables, before, strict=True):
            table.clear()
            table.update(content)
