"""Check results: which values may become variables, and how large the variables of an instance may be."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder

from jobexec.conf import get_settings
from jobexec.exceptions import DoNotRetry, InvalidJob
from jobexec.json_values import check_json, check_storable, encode_json, shown
from jobexec.sensitive import HIDDEN, is_sensitive, json_problem

from ..engine.exceptions import StepError
from ..engine.rows import Token
from ..engine.tokens import Changes, Together, Tokens
from ..expressions import ExpressionError

#: What is wrong with a result, or with the process that takes it, is wrong again after another run.
NOT_KEPT = (InvalidJob, StepError, ExpressionError)
#: The length of the column.
_LONGEST_NAME = 255


def checked(value: Any, handler: str) -> Any:
    """A handler's result that can be stored. Raises DoNotRetry if not: another run would only repeat its effects."""
    try:
        _check_value(f"result of {handler}", value)
    except InvalidJob as error:
        raise not_kept(error) from None
    return value


def not_kept(error: Exception) -> DoNotRetry:
    """The exception for a function that has run, but whose result cannot be stored, or stops the process."""
    if isinstance(error, InvalidJob):
        return DoNotRetry(f"It has run, but its result cannot be kept: {error}")
    return DoNotRetry(f"It has run, but the process cannot continue after it: {type(error).__name__}: {error}")


@contextmanager
def kept() -> Iterator[None]:
    """Raise DoNotRetry from a step that cannot take a result: another run would find the same."""
    try:
        yield
    except NOT_KEPT as error:
        raise not_kept(error) from error


def check_variables(variables: Mapping[str, Any]) -> None:
    """Raise InvalidJob, naming the variable, for a name or a value that cannot be stored, or that is too large."""
    for name, value in variables.items():
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
            raise InvalidJob(
                f"The name of a variable is a string of 1 to {_LONGEST_NAME} characters, not {shown(name)}."
            )
        if isinstance(value, Together):
            _check_parts(value)
        else:
            _check_value(name, value, names_it=True)


def _check_parts(parts: Mapping[str, Any]) -> None:
    """Raise InvalidJob, naming a part; what holds for all variables of an instance limits them."""
    most = get_settings().processes.max_variables_size
    if _is_short(parts, most):
        return
    for name, value in parts.items():
        _check_json(name, value)
    sizes = {name: _size(value) for name, value in parts.items()}
    total, largest = sum(sizes.values()), max(sizes, key=lambda name: sizes[name])
    if total > most:
        raise InvalidJob(
            f"{largest}: what the steps get is {total:,} bytes of JSON, of which this one gets {sizes[largest]:,}; "
            f"expected at most {most:,} (MAX_VARIABLES_SIZE)."
        )


def _check_value(name: str, value: Any, *, names_it: bool = False) -> None:
    """Raise InvalidJob; with ``names_it``, a sensitive name hides the value. Other names are those of handlers."""
    if _is_short(value, get_settings().processes.max_value_size):
        return
    _check_json(name, value, names_it=names_it)
    most, size = get_settings().processes.max_value_size, _size(value)
    if size > most:
        raise InvalidJob(f"{name}: expected at most {most:,} bytes of JSON, got {size:,} (MAX_VALUE_SIZE).")


def _check_json(name: str, value: Any, *, names_it: bool = False) -> None:
    try:
        check_json(name, value)
    except InvalidJob:
        raise InvalidJob(json_problem(name, HIDDEN if names_it and is_sensitive(name) else value)) from None


def check_text(name: str, value: Any, longest: int = _LONGEST_NAME) -> None:
    """Raise InvalidJob for a text that its column cannot store."""
    if not isinstance(value, str) or len(value) > longest:
        raise InvalidJob(f"{name}: expected a string of at most {longest} characters, got {shown(value)}.")
    check_storable(name, value)


def check_step(tokens: Tokens, changes: Changes) -> None:
    """Raise InvalidJob if what a step writes is no JSON or too large, or makes the variables of an instance too large.

    Every value comes by here, whoever it is from: a caller, a handler, a worker, a message, an expression.
    """
    for (scope, name), value in changes.variables.items():
        _check_written(tokens, scope, name, value)
    for instance in {_instance_of(tokens, scope) for scope, _ in changes.variables}:
        _check_all(tokens, instance)
    for row in (*changes.new_instances, *changes.changed_instances):
        if row.final_variables is not None:  # no other row has what the step that ends it has set
            for name in tokens.written(row.id) & row.final_variables.keys():
                _check_written(tokens, row.id, name, row.final_variables[name])
            _check_together(row.id, row.final_variables.items())


def _check_written(tokens: Tokens, scope: UUID, name: str, value: Any) -> None:
    if (scope, name) in tokens.together:
        _check_parts(value)
    else:
        check_variables({name: value})


def _check_all(tokens: Tokens, instance: UUID) -> None:
    """Of a hierarchy with many tokens, most variables are not at hand, and need not be if they are short."""
    most = get_settings().processes.max_variables_size - tokens.size_of_others(instance)
    if not _is_short(list(_all(tokens, instance)), most):
        tokens.complete()
        _check_together(instance, _all(tokens, instance))


def _check_together(instance: UUID, variables: Iterable[tuple[str, Any]]) -> None:
    most, variables = get_settings().processes.max_variables_size, list(variables)
    if _is_short(variables, most):
        return
    sizes = {name: _size(value) for name, value in variables}
    total = sum(sizes.values())
    if total > most:
        largest = max(sizes, key=lambda name: sizes[name])
        raise InvalidJob(
            f"{largest}: the variables of the process instance {instance} are {total:,} bytes of JSON, of which this "
            f"one is {sizes[largest]:,}; expected at most {most:,} (MAX_VARIABLES_SIZE)."
        )


def _instance_of(tokens: Tokens, scope: UUID) -> UUID:
    place = tokens.find(scope)
    return place.instance if isinstance(place, Token) else scope


def _all(tokens: Tokens, instance: UUID) -> Iterable[tuple[str, Any]]:
    """The variables of an instance in all of its scopes; those of one name are measured together."""
    found: dict[str, list[Any]] = {}
    for scope, variables in tokens.variables.items():
        if _instance_of(tokens, scope) == instance:
            for name, value in variables.items():
                found.setdefault(name, []).append(value)
    return ((name, values[0] if len(values) == 1 else values) for name, values in found.items())


def _is_short(value: Any, most: int) -> bool:
    """Whether a value is certainly JSON, and not larger: in one pass, with escapes that are longer than the bytes."""
    text = encode_json(value)
    return text is not None and len(text) <= most


def _size(value: Any) -> int:
    return len(json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False).encode())
