"""Extensions of the gateways by another app in its ``AppConfig.ready()``: calls, error codes, keys, awaited names.

Without that app a gateway has no such calls: REST answers 404, gRPC UNIMPLEMENTED.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from django.utils.module_loading import import_string

#: The gateways to which calls can be added.
GRPC, CAMUNDA_8, CAMUNDA_7 = "grpc", "camunda8", "camunda7"

#: Returns the keys of these process instances, by their ids; those that are not known are missing.
Keys = Callable[[str, Collection[str]], Mapping[str, int]]
#: Returns those of these names whose awaited event has come.
Awaited = Callable[[str, Collection[str]], set[str]]

_calls: dict[str, list[str]] = {}
_errors: dict[type[Exception], str] = {}
_keys: list[Keys] = []
_awaited: dict[str, Awaited] = {}


def add_calls(gateway: str, path: str) -> None:
    """Add calls to a gateway. ``path`` is imported when the gateway starts, so that its requirements may be missing.

    It names, for REST, a list of URL patterns; for gRPC, a function that takes the
    :class:`~jobexec.gateways.grpc.call_context.CallContext` and returns a
    :class:`~jobexec.gateways.grpc.service.Call` for each name of a method.
    """
    paths = _calls.setdefault(gateway, [])
    if path not in paths:
        paths.append(path)


def calls(gateway: str) -> list[Any]:
    """Return the calls that were added to a gateway, imported."""
    return [import_string(path) for path in _calls.get(gateway, ())]


def add_errors(codes: Mapping[type[Exception], str]) -> None:
    """Let all gateways answer these exceptions with codes of Camunda 8, such as NOT_FOUND."""
    _errors.update(codes)


def code_of(error: Exception) -> str | None:
    """The code of an added error; None for any other exception."""
    return next((code for kind, code in _errors.items() if isinstance(error, kind)), None)


def add_keys(keys: Keys) -> None:
    """Let the gateways show the keys of process instances whose ids are no numbers."""
    if keys not in _keys:
        _keys.append(keys)


def instance_keys(using: str, ids: Collection[str]) -> dict[str, int]:
    """The keys of these process instances, by their ids."""
    wanted = {id for id in ids if id}
    return {id: key for keys in _keys if wanted for id, key in keys(using, wanted).items()}


def add_awaited(prefix: str, come: Awaited) -> None:
    """Let requests of the hub wait for names that begin with this prefix, as they wait for types of jobs.

    ``come`` is called with all of them at once, as often as the hub looks for jobs. Code that lets such an event come
    calls :func:`~jobexec.operations.notify.wake_workers.wake_workers_on_commit` with its name.
    """
    _awaited[prefix] = come


def is_awaited(name: str) -> bool:
    """Whether the name stands for an awaited event, and not for a type of jobs."""
    return name.startswith(tuple(_awaited))


def come(using: str, names: Collection[str]) -> set[str]:
    """Those of these names whose awaited event has come."""
    found: set[str] = set()
    for prefix, ask in _awaited.items():
        if some := [name for name in names if name.startswith(prefix)]:
            found |= ask(using, some)
    return found
