"""Definitions as JSON and back, and the hash of a shape.

Fields that have their default are left out, so a field that is added later does not change the hash of definitions
that do not use it. Lines are left out, too. Expressions in values are ``{"$juel": text}`` or ``{"$feel": text}``, and
objects in values ``{"$map": {...}}``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from .process import Process
from .values import Expression, Language, Value

T = TypeVar("T")
_MARKS = {language: f"${language}" for language in Language}


def to_json(process: Process) -> dict[str, Any]:
    """A definition as plain JSON."""
    return _object(process)


def from_json(data: dict[str, Any]) -> Process:
    """The definition that ``to_json`` gave."""
    return _build(Process, data)


def shape(process: Process) -> str:
    """The hash of a definition: the same for two that run the same, in every process and release of Python."""
    text = json.dumps(to_json(process), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _object(part: Any) -> dict[str, Any]:
    found = {}
    for name, default in _defaults(type(part)):  # type: ignore[arg-type]
        value = getattr(part, name)
        if value is not default and value != default:
            found[name] = _encoded(value)
    return found


@cache
def _defaults(part: Any) -> list[tuple[str, Any]]:
    """The fields of a class and their defaults. They are needed for each part of a flow each time that one starts."""
    return [
        (field.name, field.default if field.default_factory is dataclasses.MISSING else field.default_factory())
        for field in dataclasses.fields(part)
        if field.compare
    ]


def _encoded(value: Any) -> Any:
    encode = _encoder(type(value))  # type: ignore[arg-type]
    return value if encode is None else encode(value)


@cache
def _encoder(kind: Any) -> Callable[[Any], Any] | None:
    """What encodes the values of a type; None if they are JSON."""
    if kind in (str, bool, int, float, types.NoneType):
        return None
    if issubclass(kind, tuple):
        return lambda value: [_encoded(item) for item in value]
    if issubclass(kind, Enum):
        return lambda value: value.value
    return _encoded_value if issubclass(kind, Expression) or not dataclasses.is_dataclass(kind) else _object


def _encoded_value(value: Value) -> Any:
    if isinstance(value, Expression):
        return {_MARKS[value.language]: value.text}
    if isinstance(value, dict):
        return {"$map": {key: _encoded_value(item) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        return [_encoded_value(item) for item in value]
    return value


def _decoded_value(data: Any) -> Value:
    if isinstance(data, list):
        return [_decoded_value(item) for item in data]
    if not isinstance(data, dict):
        return data
    ((mark, content),) = data.items()
    if mark == "$map":
        return {key: _decoded_value(item) for key, item in content.items()}
    return Expression(content, Language(mark[1:]))


@cache
def _types(part: Any) -> dict[str, Any]:
    hints = get_type_hints(part)
    return {field.name: hints[field.name] for field in dataclasses.fields(part) if field.compare}


def _build(part: type[T], data: dict[str, Any]) -> T:
    expected: dict[str, Any] = _types(part)  # type: ignore[arg-type]
    return part(**{name: _decoded(expected[name], value) for name, value in data.items()})


def _decoded(expected: Any, data: Any) -> Any:
    origin = get_origin(expected)
    if origin is tuple:
        return tuple(_decoded(get_args(expected)[0], item) for item in data)
    if origin in (Union, types.UnionType):
        return None if data is None else _decoded(get_args(expected)[0], data)
    if isinstance(expected, type) and expected is not Expression:
        if dataclasses.is_dataclass(expected):
            return _build(expected, data)
        if issubclass(expected, Enum):
            return expected(data)
    return _decoded_value(data)
