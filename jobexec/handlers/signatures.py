"""Properties of a job's arguments, derived from its function's signature."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from jobexec.exceptions import InvalidJob


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
