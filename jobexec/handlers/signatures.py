"""What a function is registered with: its names, and the properties of its arguments that its signature tells."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from jobexec.exceptions import InvalidJob
from jobexec.json_values import check_storable, shown

#: The width of the column ``handler_type``.
LONGEST_NAME = 255


def check_name(what: str, name: Any) -> None:
    """Raise InvalidJob for what cannot be the name of a handler."""
    if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME:
        raise InvalidJob(f"{what}: expected a string of 1 to {LONGEST_NAME} characters, got {shown(name)}.")
    check_storable(what, name)


def checked_aliases(handler: str, aliases: Any) -> tuple[str, ...]:
    """The aliases. Raises InvalidJob: a single text would be as many aliases as it has letters."""
    if isinstance(aliases, str) or not isinstance(aliases, Sequence):
        raise InvalidJob(f"{handler}: aliases: expected a tuple of names, got {shown(aliases)}.")
    for alias in aliases:
        check_name(f"{handler}: aliases", alias)
    return tuple(aliases)


def check_runs(handler: str, function: Callable[..., Any]) -> None:
    """Raise InvalidJob for a generator function: a call makes a generator, and runs nothing of its body."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidJob(f"{handler}: expected a function that does its work when it is called, got a generator.")


def positions(signature: inspect.Signature) -> tuple[int, int]:
    """How many positional arguments a call needs and takes; (1, 0), that is none, if it takes others as well."""
    parameters = signature.parameters.values()
    if any(each.kind not in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters):
        return 1, 0
    return sum(each.default is each.empty for each in parameters), len(parameters)


def names_by_position(signature: inspect.Signature, count: int) -> list[str]:
    """The names of ``count`` positional arguments; those taken by ``*args`` have its name."""
    names: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [parameter.name] * (count - len(names))
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return (names + [""] * count)[:count]


def checked_names(handler: str, names: Sequence[str], signature: inspect.Signature) -> tuple[str, ...]:
    """Check that arguments of these names exist. Raises InvalidJob: a misspelt name would hide nothing."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InvalidJob(f"{handler}: sensitive: expected a tuple of names of arguments, got {names!r}.")
    takes_any = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
    unknown = [] if takes_any else [name for name in names if name not in signature.parameters]
    if unknown:
        known = ", ".join(signature.parameters) or "none"
        raise InvalidJob(f"{handler}: sensitive: {unknown[0]!r} is not an argument of the function (it has {known}).")
    return tuple(names)
