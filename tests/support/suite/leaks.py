"""Check that no test leaves anything behind for other tests of its process.

A pytest plugin: after each test, when all its fixtures have ended, it compares the state of the process with that
before. A test that has changed it fails, and the state is restored, so that no other test fails. State that a process
may or may not have (caches, known clients) is cleared, without a failure.

It is loaded with ``pytest_plugins = ["tests.support.suite.leaks"]``, and costs a fraction of a millisecond a test.
"""

import gc
import importlib
import logging
import os
import signal
import sys
import threading
import time
import unittest
import weakref
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

#: Seconds to wait for threads that are about to end.
_PATIENCE = 5.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: The name prefixes of threads that libraries keep for the life of a process.
_OTHERS = ("asyncio_", "ThreadPoolExecutor", "Dummy", "pytest_timeout", "execnet")
_SETTINGS = ("JOBEXEC", "TASKS", "ROOT_URLCONF", "TIME_ZONE", "LANGUAGE_CODE", "USE_TZ", "MIDDLEWARE", "INSTALLED_APPS")
#: Environment variables that pytest sets, and that Playwright's thread needs as long as it runs.
_NOT_OURS = (b"PYTEST_CURRENT_TEST", b"DJANGO_ALLOW_ASYNC_UNSAFE")
_NOTHING = object()


class Watched(NamedTuple):
    """A piece of state that must be the same after a test as before."""

    name: str
    read: Callable[[], Any]
    put_back: Callable[[Any], object]


def _module(name: str) -> Any:
    """Return a module if it has been imported, otherwise None."""
    return sys.modules.get(name)


# State that is read and restored.


def _table(module: str, name: str) -> Watched:
    """Watch a list, set or dict of a module. It counts as empty before the module is imported."""

    def found() -> Any:
        return getattr(_module(module), name, None)

    def read() -> Any:
        table = found()
        return table.copy() if table else None

    def put_back(before: Any) -> None:
        table = found()
        table.clear()
        if before:
            (table.extend if isinstance(table, list) else table.update)(before)

    return Watched(f"{module}.{name}", read, put_back)


def _value(module: str, name: str, usual: Any = None) -> Watched:
    """Watch a variable of a module; ``usual`` is its value when the module is imported."""
    return Watched(
        f"{module}.{name}",
        lambda: getattr(_module(module), name, usual),
        lambda before: setattr(_module(module), name, before),
    )


def _handlers() -> dict[tuple[str, int], Any]:
    """Return the handlers without jobexec's own, which are registered when they are first needed."""
    from jobexec.handlers import registry

    tables = (registry._handlers, registry._async_handlers, registry._history_handlers, registry.schedules)
    found = {}
    for number, table in enumerate(tables):
        for name, handler in table.items():
            if not name.startswith(registry.OWN):
                found[name, number] = handler
    return found


def _put_handlers_back(before: dict[Any, Any]) -> None:
    from jobexec.handlers import registry

    tables = (registry._handlers, registry._async_handlers, registry._history_handlers, registry.schedules)
    for number, table in enumerate(tables):
        own = {name: handler for name, handler in table.items() if name.startswith(registry.OWN)}
        table.clear()
        table.update(own | {name: handler for (name, place), handler in before.items() if place == number})


def _environment() -> dict[Any, Any]:
    # Copying os.environ itself takes ten times as long.
    found: dict[Any, Any] = os.environ._data.copy()  # type: ignore[attr-defined]
    for name in _NOT_OURS:
        found.pop(name, None)
    return found


def _put_environment_back(before: dict[bytes, bytes]) -> None:
    for name in [name for name in os.environb if name not in before and name not in _NOT_OURS]:
        del os.environb[name]
    os.environb.update(before)


def _loggers() -> dict[str, Any]:
    """Return the state of our loggers, Django's and the root, where it differs from that of a new logger."""
    manager, found = logging.root.manager, {}
    for name, logger in [("", logging.root), *manager.loggerDict.items()]:
        if (name and not name.startswith(("jobexec", "django"))) or isinstance(logger, logging.PlaceHolder):
            continue
        own = [each for each in logger.handlers if not type(each).__module__.startswith("_pytest")]
        state = logger.level, logger.disabled, logger.propagate, own
        if state != (logging.NOTSET, False, True, []):
            found[name] = state
    return {"disabled": manager.disable, **found}


def _put_loggers_back(before: dict[str, Any]) -> None:
    logging.disable(before["disabled"])
    for name in _loggers().keys() - {"disabled"} | before.keys() - {"disabled"}:
        logger = logging.getLogger(name or None)
        level, logger.disabled, logger.propagate, handlers = before.get(name, (logging.NOTSET, False, True, []))
        logger.setLevel(level)
        logger.handlers[:] = [
            *(each for each in logger.handlers if type(each).__module__.startswith("_pytest")),
            *handlers,
        ]


def _language() -> tuple[Any, str]:
    """Return the language and the time zone of this thread. Activating Django's default is allowed: commands do it."""
    from django.utils import timezone, translation

    return translation.get_language(), timezone.get_current_timezone_name()


def _put_language_back(before: Any) -> None:
    """Do nothing: the active language and time zone are reset after each test."""


def _connections() -> dict[str, Any]:
    """Return the addresses and options of all databases, except the names of the test databases."""
    from django.db import connections

    return {alias: _address(settings) for alias, settings in connections.settings.items()}


def _address(settings: dict[str, Any]) -> dict[str, Any]:
    found = settings | {"OPTIONS": dict(settings.get("OPTIONS") or {})}
    for name in ("NAME", "TEST"):  # set by the test session
        found.pop(name, None)
    return found


def _put_connections_back(before: dict[str, Any]) -> None:
    from django.db import connections

    for alias in [alias for alias in connections.settings if alias not in before]:
        del connections.settings[alias]
    for alias, settings in before.items():
        connections.settings[alias].update(settings)


def _signal_handlers() -> list[Any]:
    return [signal.getsignal(number) for number in _SIGNALS]


def _django_settings() -> tuple[Any, ...]:
    from django.conf import settings

    return settings._wrapped, *(  # type: ignore[misc]
        getattr(settings, name, None) for name in _SETTINGS
    )


def _put_django_settings_back(before: Any) -> None:
    from django.conf import settings
    from django.core.signals import setting_changed

    settings._wrapped = before[0]
    for name, value in zip(_SETTINGS, before[1:], strict=True):
        if getattr(settings, name, None) != value:
            setattr(settings, name, value)
            setting_changed.send(type(settings), setting=name, value=value, enter=False)


def _supervisor() -> Any:
    link = _module("jobexec.executor.process.control_pipe")
    return link.supervisor() if link and link.supervisor.cache_info().currsize else None


def _otel() -> Any:
    context = _module("opentelemetry.context")
    return context.get_current() if context else {}


_WATCHED = (
    Watched("handlers", _handlers, _put_handlers_back),
    Watched("os.environ", _environment, _put_environment_back),
    Watched("the working directory", os.getcwd, os.chdir),
    Watched("sys.path", sys.path.copy, lambda before: sys.path.__setitem__(slice(None), before)),
    Watched("logging", _loggers, _put_loggers_back),
    Watched("the language or the time zone of the thread", _language, _put_language_back),
    Watched("the settings of a database", _connections, _put_connections_back),
    Watched("Django's settings", _django_settings, _put_django_settings_back),
    Watched("the garbage collector", gc.isenabled, lambda before: gc.enable() if before else gc.disable()),
    Watched(
        "the supervisor's line",
        _supervisor,
        lambda _: _module("jobexec.executor.process.control_pipe").supervisor.cache_clear(),
    ),
    Watched("OpenTelemetry's context", _otel, lambda before: _module("opentelemetry.context").attach(before)),
    _value("jobexec.clock", "_frozen"),
    _value("jobexec.gateways.worker_registry.writing", "_writing"),
    _table("jobexec.handlers.registry", "_resolvers"),
    _table("jobexec.operations.notify.wake", "_listeners"),
    _table("jobexec.operations.notify.wake_workers", "_listeners"),
    _table("jobexec.operations.notify.external_observers", "_listeners"),
    _table("jobexec.operations.notify.observers", "_watchers"),
    _table("jobexec.testing.faults", "_active"),
    _table("time_machine", "coordinates_stack"),
)


# Django signals, and modules: compared quickly, and in detail only if they have changed.


@cache
def _all_signals() -> list[tuple[str, Any]]:
    from django.core import signals as core
    from django.db.backends import signals as backends
    from django.db.models import signals as models
    from django.dispatch import Signal

    from jobexec import signals
    from jobexec.backends import compat
    from jobexec.operations.history import task_attempts

    modules = (signals, core, backends, models, compat, task_attempts)
    return [(name, value) for module in modules for name, value in vars(module).items() if isinstance(value, Signal)]


def _receivers() -> list[list[Any]]:
    return [signal.receivers[:] for _, signal in _all_signals()]


def _living(entry: Any) -> bool:
    """Whether a receiver is alive and not connected by Django or its packages, such as for a migration's models."""
    receiver = entry[1]() if isinstance(entry[1], weakref.ref) else entry[1]
    if receiver is None:
        return False
    owner = getattr(receiver, "__self__", None)
    module = getattr(receiver, "__module__", "") if owner is None else type(owner).__module__
    return not module.startswith("django")


def _new_receivers(before: list[list[Any]]) -> Iterator[str]:
    """Yield descriptions of new and missing receivers, and restore the former receivers."""
    for (name, signal_), old in zip(_all_signals(), before, strict=True):
        if signal_.receivers == old:
            continue
        # Django's test client disconnects its own receivers and connects them again: the same key in another tuple.
        known = {entry[0] for entry in old}
        new = [entry for entry in signal_.receivers if entry[0] not in known and _living(entry)]
        if new:
            gc.collect()  # a receiver that lives only in a reference cycle does not count
        for entry in filter(_living, new):
            yield f"a receiver of the signal {name}: {entry[1]!r}"
            with signal_.lock:
                signal_.receivers.remove(entry)
                signal_.sender_receivers_cache.clear()
        now = {entry[0] for entry in signal_.receivers}
        for entry in old:
            if entry[0] not in now and _living(entry):
                yield f"no receiver of the signal {name} any more: {entry[1]!r}"
                signal_.receivers.append(entry)
                signal_.sender_receivers_cache.clear()


def _examples() -> frozenset[str]:
    return frozenset(name for name in sys.modules if name.startswith("docs.examples."))


#: The examples that test modules import.
_examples_of_modules = cache(_examples)


def _new_examples() -> Iterator[str]:
    for name in sorted(_examples() - _examples_of_modules()):
        yield f"the module {name}"
        del sys.modules[name]


def _of_others(thread: threading.Thread) -> bool:
    """Whether a thread is kept longer: by a library, or as Django's live server for the whole session."""
    # gRPC's thread reads the events of all asyncio channels and servers.
    return (
        thread.name.startswith(_OTHERS)
        or thread.name.endswith("(_poll_wrapper)")
        or type(thread).__module__.startswith("django")
    )


def _new_threads(before: set[threading.Thread]) -> Iterator[str]:
    """Yield the new threads that still run after they have had time to end."""
    new = [each for each in threading.enumerate() if each not in before and not _of_others(each)]
    end = time.monotonic() + _PATIENCE
    for thread in new:
        thread.join(max(0.0, end - time.monotonic()))
        if thread.is_alive():
            yield f"the thread {thread.name!r}"


def _open_transactions(test: pytest.Item) -> Iterator[str]:
    from django.db import connections

    # The tests of a TestCase share a transaction.
    shared = issubclass(getattr(test, "cls", None) or object, unittest.TestCase)
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block and not shared:
            yield f"an open transaction on {connection.alias}"
            connection.in_atomic_block, connection.savepoint_ids, connection.needs_rollback = False, [], False
            connection.close()
        if connection.run_on_commit and not shared:
            yield f"callbacks that wait for a commit on {connection.alias}"
            connection.run_on_commit = []
        if connection.execute_wrappers:
            yield f"a wrapper around the statements on {connection.alias}"
            connection.execute_wrappers.clear()


# State that a process may or may not have.


def _forget() -> Iterator[str]:
    """Reset the process to the state of a new one. Yields what is still running."""
    from django.utils import timezone, translation

    from jobexec import clock, identifiers
    from jobexec.operations.history import keys
    from jobexec.runtime import connections

    timezone.deactivate()
    translation.deactivate()
    clock.forget()
    if identifiers._last_ms > time.time_ns() // 1_000_000 + 1000:  # a test was in the future
        identifiers._last_ms, identifiers._counter = 0, identifiers._COUNTER_MAX
    keys._store.left = {}  # a rolled back block will be taken again
    connections._thread.connections = None
    _forget_figures()
    if access := _module("jobexec.gateways.auth"):
        _forget_clients(access)
    if writing := _module("jobexec.gateways.worker_registry.writing"):
        writing.registry.clear()
    if publisher := _module("jobexec.broker.publisher"):
        publisher._publishers.clear()
    if (hub := _module("jobexec.gateways.long_polling.hub")) and hub._hubs:
        yield from [f"the hub of {name}, which still watches" for name, each in hub._hubs.items() if each._watch]
        hub.close_all()


def _forget_figures() -> None:
    if metrics := _module("jobexec.metrics"):
        metrics._registry.cache_clear()
    if failure_groups := _module("jobexec.operations.reports.failure_groups"):
        failure_groups.groups_by_text.clear()


def _forget_clients(access: Any) -> None:
    access.forget()
    _module("jobexec.gateways.auth.limits").buckets.clear()
    _module("jobexec.gateways.auth.users")._tries.clear()
    _module("jobexec.gateways.auth.startup_notice")._announced = False
    strangers = _module("jobexec.gateways.auth.rejected_log")
    strangers._guesses.clear()
    strangers.refused_client.__init__()
    access.rejections.__init__()


# The plugin.


class _Before(NamedTuple):
    threads: set[threading.Thread]
    watched: list[Any]
    receivers: list[list[Any]]
    modules: int
    handlers: list[Any]


_before = pytest.StashKey[_Before]()


def as_it_is() -> _Before:
    """Return the state of the process before a test."""
    importlib.import_module("jobexec.runtime.connections")  # its import connects a receiver
    _examples_of_modules()
    watched = [each.read() for each in _WATCHED]
    return _Before(set(threading.enumerate()), watched, _receivers(), len(sys.modules), _signal_handlers())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[_before] = as_it_is()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    try:
        result = yield
    finally:
        left = list(left_by(item, item.stash[_before]))
    if left:
        pytest.fail("The test has left behind:\n" + "\n".join(f"- {each}" for each in left), pytrace=False)
    return result


def left_by(test: pytest.Item, before: _Before) -> Iterator[str]:
    """Yield descriptions of what the test has left behind; all of it is restored or cleared."""
    yield from _new_threads(before.threads)
    for watched, old in zip(_WATCHED, before.watched, strict=True):
        new = watched.read()
        if new != old:
            yield f"{watched.name}: {_difference(old, new)}"
            watched.put_back(old)
    yield from _new_receivers(before.receivers)
    yield from _open_transactions(test)
    if len(sys.modules) != before.modules:
        yield from _new_examples()
    yield from _forget()
    # A command that is called in this process, and not in one of its own, leaves its signal handlers behind.
    for number, handler in zip(_SIGNALS, before.handlers, strict=True):
        signal.signal(number, handler)


def _difference(old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        names = [name for name in old.keys() | new.keys() if old.get(name, _NOTHING) != new.get(name, _NOTHING)]
        return ", ".join(f"{name!r}: {old.get(name)!r} → {new.get(name)!r}" for name in names)[:2000]
    return f"{old!r} → {new!r}"[:2000]
