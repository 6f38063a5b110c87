"""The registry of handlers by ``handler_type``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from jobexec.exceptions import DuplicateHandler, HandlerNotFound
from jobexec.identifiers import OWN as OWN

from .base import AsyncJobHandler, JobHandler

if TYPE_CHECKING:
    from .history import HistoryHandler
    from .schedules import Declaration

Resolver: TypeAlias = Callable[[str], JobHandler | None]

_handlers: dict[str, JobHandler] = {}
#: Those of them that can run without a thread, by the same names.
_async_handlers: dict[str, AsyncJobHandler] = {}
_history_handlers: dict[str, HistoryHandler] = {}
#: The declared schedules by the names of their handlers (:mod:`jobexec.handlers.schedules`).
schedules: dict[str, Declaration] = {}
#: Called in turn for an unregistered name.
_resolvers: list[Resolver] = []
_async_resolvers: list[Callable[[], bool]] = []


def register(handler: JobHandler, *, instead_of: JobHandler | None = None) -> None:
    """Register a handler under its name and its aliases; it replaces ``instead_of``, which is then forgotten.

    Raises :class:`~jobexec.exceptions.DuplicateHandler` if another handler has one of them: the order of imports must
    not decide which of the two a row means.
    """
    for name in (handler.name, *handler.aliases):
        known = _handlers.get(name)
        if known is not None and known is not handler and known is not instead_of:
            raise DuplicateHandler(f"{name!r} is the name or an alias of two handlers: {known!r} and {handler!r}.")
    for name in [name for name, known in _handlers.items() if known is instead_of]:
        # The replacement is written over it below: no thread must find the name without a handler.
        _async_handlers.pop(name, None)
        if name != handler.name and name not in handler.aliases:
            del _handlers[name]
    for name in (handler.name, *handler.aliases):
        _handlers[name] = handler
        if isinstance(handler, AsyncJobHandler) and handler.is_async:
            _async_handlers[name] = handler


def has_async_handlers() -> bool:
    """Whether an event loop can run any handler: one that is registered, or that a resolver makes."""
    return bool(_async_handlers) or any(has_async() for has_async in _async_resolvers)


def async_handler(name: str) -> AsyncJobHandler | None:
    """The handler of this name or alias, if an event loop can run it."""
    found = _async_handlers.get(name)
    if found is not None or name in _handlers:
        return found
    made = find_handler(name)
    if not getattr(made, "is_async", False):  # sooner than isinstance, for each step of a flow
        return None
    return made if isinstance(made, AsyncJobHandler) else None


def get_handler(name: str) -> JobHandler:
    """The handler of this name or alias. Raises :class:`~jobexec.exceptions.HandlerNotFound`."""
    found = _handlers.get(name) or find_handler(name)  # without a second call for each job
    if found is None:
        raise HandlerNotFound(f"No handler {name!r} is registered in this process.")
    return found


def find_handler(name: str) -> JobHandler | None:
    """The handler of this name or alias; None if this process has none."""
    found = _handlers.get(name)
    if found is not None:
        return found
    return next((found for found in (resolver(name) for resolver in _resolvers) if found is not None), None)


def registered(name: str) -> JobHandler | None:
    """The handler registered under this name or alias, without calling any resolver."""
    return _handlers.get(name)


def add_resolver(resolver: Resolver, has_async: Callable[[], bool] | None = None) -> None:
    """Call ``resolver`` for handlers whose names are not registered; it returns one, or None. It must import nothing.

    ``has_async``: whether some that it makes of other things than handlers can run on an event loop. Adding the same
    one again has no effect.
    """
    if resolver not in _resolvers:
        _resolvers.append(resolver)
        _async_resolvers.extend([has_async] if has_async is not None else [])


def all_handlers() -> list[JobHandler]:
    """Every registered handler once, ordered by name."""
    return [_handlers[name] for name in sorted(_handlers) if _handlers[name].name == name]


def known_names() -> frozenset[str]:
    """The names and aliases of all registered handlers."""
    return frozenset(_handlers)


def register_history(handler: HistoryHandler) -> None:
    """Register a history handler. Raises :class:`~jobexec.exceptions.DuplicateHandler` if its name is taken."""
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
    """Undo, at the end of the block, all registrations made in it; for tests. ``empty``: begin without any handler."""
    tables: tuple[dict[str, Any], ...] = (_handlers, _async_handlers, _history_handlers, schedules)
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
