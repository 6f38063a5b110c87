"""Functions that models may name: service tasks, functions of expressions, and listeners."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from jobexec.exceptions import DuplicateHandler, HandlerNotFound
from jobexec.handlers.function import JobFunction
from jobexec.handlers.options import check_options
from jobexec.handlers.registry import registered
from jobexec.handlers.signatures import check_name, check_runs, checked_aliases

from ..engine.environment import Declared

F = TypeVar("F", bound=Callable[..., Any])

_services: dict[str, Callable[..., Any]] = {}
_declared: dict[str, Declared] = {}
_coroutines: set[str] = set()
_PLAIN, _BY_CALL = Declared(), Declared(by_call=True)
_functions: dict[str, Callable[..., Any]] = {}
_listeners: dict[str, Callable[..., Any]] = {}


def service_task(
    name: str,
    *,
    aliases: Sequence[str] = (),
    transaction: bool = True,
    timeout: float | timedelta | str | None = None,
) -> Callable[[F], F]:
    """Register the function of a service, send, script or business rule task, under the names that models use.

    Models refer to it with ``camunda:delegateExpression="${ship}"``, ``camunda:class="org.acme.Ship"`` (an alias), or
    the type of a ``zeebe:taskDefinition``. The function takes a
    :class:`~jobexec.processes.handlers.context.TaskContext`. It runs in the transaction of its step, or in autocommit
    if the task has ``jobexec:transaction="outside"``. If it returns a mapping, its items become variables.

    ``transaction=False``: whatever a file says, it never runs in a step, but in a job without a transaction and without
    a lock; ``timeout`` then limits its run, as for ``@job``. Raises ValueError or InvalidJob for an invalid option.
    """
    if not isinstance(transaction, bool):
        raise ValueError(f"transaction: expected True or False, got {transaction!r}.")
    if timeout is not None and transaction:
        raise ValueError("timeout: expected transaction=False; what runs in a step ends with its step.")
    options = {} if timeout is None else {"timeout": timeout}
    check_options(options)
    names = _names("@service_task", name, aliases)
    register = _registering(_services, "service task", names)

    def registering(function: F) -> F:
        found = register(function)
        if iscoroutinefunction(function):
            _coroutines.update(names)
        if not transaction:
            _declared.update(dict.fromkeys(names, Declared(True, options)))
        return found

    return registering


def has_coroutines() -> bool:
    """Whether the function of any service task is one."""
    return bool(_coroutines)


def declared(name: str) -> Declared:
    """What a service task, or a job function, says of itself."""
    found = _declared.get(name)
    if found is not None:
        return found
    function = registered(name)
    return _BY_CALL if isinstance(function, JobFunction) and callable(function.options.get("resource")) else _PLAIN


def function(name: str) -> Callable[[F], F]:
    """Register a function that expressions may call: ``${shop.price(order)}``. It takes and returns plain values."""
    return _registering(_functions, "function", _names("@function", name))


def listener(name: str, *, aliases: Sequence[str] = ()) -> Callable[[F], F]:
    """Register a function that the listeners in models refer to. It takes a ListenerContext."""
    return _registering(_listeners, "listener", _names("@listener", name, aliases))


def _names(decorator: str, name: Any, aliases: Any = ()) -> tuple[str, ...]:
    check_name(f"{decorator}: name", name)
    return name, *checked_aliases(f"{decorator}: {name}", aliases)


def _registering(table: dict[str, Callable[..., Any]], kind: str, names: Sequence[str]) -> Callable[[F], F]:
    def register(function: F) -> F:
        check_runs(names[0], function)
        for name in names:
            known = table.setdefault(name, function)
            if known is not function:
                raise DuplicateHandler(f"{name!r} is the name of two functions ({kind}): {known!r} and {function!r}.")
        return function

    return register


@contextmanager
def standing_in(services: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Within the block, these functions are the service tasks of their names, for tests."""
    before = dict(_services)
    _services.update(services)
    try:
        yield
    finally:
        for name in services:
            if name in before:
                _services[name] = before[name]
            else:
                _services.pop(name, None)


def find_service(name: str) -> Callable[..., Any] | JobFunction[..., Any]:
    """The function of this name, or the ``@job`` function, which flows name. Raises HandlerNotFound."""
    found = _services.get(name)
    if found is None:
        handler = registered(name)
        found = handler if isinstance(handler, JobFunction) else None
    if found is None:
        raise HandlerNotFound(f"No service task {name!r} is registered in this process.")
    return found


def find_listener(name: str) -> Callable[..., Any]:
    """The listener of this name. Raises HandlerNotFound."""
    try:
        return _listeners[name]
    except KeyError:
        raise HandlerNotFound(f"No listener {name!r} is registered in this process.") from None


def is_listener(name: str) -> bool:
    """Whether a model can name this listener."""
    return name in _listeners


def functions() -> dict[str, Callable[..., Any]]:
    """The functions that expressions may call, by name; includes later registrations."""
    return _functions


def service(name: str) -> Callable[..., Any] | None:
    """The function of ``@service_task`` with this name, which alone a file can name; None if there is none."""
    return _services.get(name)
