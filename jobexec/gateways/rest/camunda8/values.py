"""Kinds of values in Camunda 8's format: how a client's value is checked and converted, and its schema in OpenAPI."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Collection, Sized
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from django.utils.dateparse import parse_datetime

from jobexec.gateways.asks import MOST_VALUES

from .problems import INVALID_ARGUMENT, Refused, invalid

Schema: TypeAlias = dict[str, Any]

INT32, _INT64 = 2**31 - 1, 2**63 - 1
_LONGEST = timedelta(days=36525)


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """What ``read`` accepts as the value of a named field; it raises Refused (400), which names the field.

    ``comparable`` converts the form in a response to that which ``read`` returns.
    """

    schema: Schema
    read: Callable[[str, Any], Any]
    comparable: Callable[[Any], Any] = lambda value: value


def described(kind: Kind, description: str) -> Kind:
    return replace(kind, schema={**kind.schema, "description": description})


def nullable(kind: Kind) -> Kind:
    schema = kind.schema
    return replace(kind, schema={**schema, "type": [schema["type"], "null"]}) if "type" in schema else kind


def enumerated(kind: Kind, *values: str) -> Kind:
    """The same with a schema that lists the values; what is read is not restricted to them."""
    return replace(kind, schema={**kind.schema, "enum": list(values)})


def _kind(schema: Schema, expected: str, parse: Callable[[Any], Any], **more: Any) -> Kind:
    """A kind by a function that raises ValueError for a value that is not of it."""

    def read(field: str, value: Any) -> Any:
        try:
            return parse(value)
        except ValueError:
            raise invalid(field, expected, value) from None

    return Kind(schema, read, **more)


def _instance_of(type: type) -> Callable[[Any], Any]:
    def parse(value: Any) -> Any:
        if not isinstance(value, type) or (type is int and isinstance(value, bool)):
            raise ValueError
        return value

    return parse


def _within(least: int, most: int, convert: Callable[[int], Any]) -> Callable[[Any], Any]:
    def parse(value: Any) -> Any:
        if not least <= _instance_of(int)(value) <= most:
            raise ValueError
        return convert(value)

    return parse


def integer(least: int = -_INT64, most: int = _INT64) -> Kind:
    schema: Schema = {"type": "integer", "format": "int32" if most <= INT32 else "int64"}
    if least > -INT32 - 1:
        schema["minimum"] = least
    return _kind(schema, f"a whole number from {least} to {most}", _within(least, most, int))


def milliseconds(least: int = 0) -> Kind:
    """A duration."""
    schema = {"type": "integer", "format": "int64", "minimum": least, "description": "Milliseconds."}
    return _kind(schema, f"a whole number from {least} to {_INT64}", _within(least, _INT64, _duration))


def _duration(value: int) -> timedelta:
    # Cap the duration: clients send the largest possible number for "for ever".
    return min(timedelta(milliseconds=value), _LONGEST) if value < 10**15 else _LONGEST


def choice(names: Collection[str], expected: str, convert: Callable[[str], str] = str) -> Kind:
    """One of these texts, after ``convert``."""

    def parse(value: Any) -> str:
        found = convert(_instance_of(str)(value))
        if found not in names:
            raise ValueError
        return found

    return _kind({"type": "string", "enum": list(names)}, expected, parse)


def _not_blank(value: Any) -> str:
    if not _instance_of(str)(value).strip():
        raise ValueError
    return str(value)


def _moment(value: Any) -> datetime:
    moment = parse_datetime(_instance_of(str)(value))
    if moment is None or moment.utcoffset() is None:
        raise ValueError
    return moment


def _key(value: Any) -> int:
    if not (isinstance(value, (str, int)) and re.fullmatch(r"-?[0-9]{1,25}", str(value))):
        raise ValueError
    return max(-_INT64 - 1, min(_INT64, int(value)))  # no row has a key outside of 64 bits, nor the last one


def _position(cursor: Any) -> int:
    position = int(base64.b64decode(_instance_of(str)(cursor), validate=True).decode())
    if position < 0:
        raise ValueError
    return position


def cursor(position: int) -> str:
    """The cursor of a position, which the kind ``CURSOR`` reads."""
    return base64.b64encode(str(position).encode()).decode()


def _texts(field: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise invalid(field, "a list of strings", value)
    check_length(field, value, MOST_VALUES)
    return value


def check_length(field: str, values: Sized, most: int) -> None:
    """Raise Refused (400) if there are more than ``most``."""
    if len(values) > most:
        raise Refused(INVALID_ARGUMENT, f"{field}: expected at most {most:,} values, got {len(values):,}.")


TEXT = _kind({"type": "string"}, "a string", _instance_of(str))
NOT_BLANK = _kind(TEXT.schema, "a string that is not blank", _not_blank)
TEXTS = Kind({"type": "array", "items": TEXT.schema}, _texts)
NUMBER = _kind({"type": "integer", "format": "int32"}, "a whole number", _instance_of(int))
FLAG = _kind({"type": "boolean"}, "true or false", _instance_of(bool))
ANYTHING = Kind({}, lambda field, value: value)
OBJECT = _kind({"type": "object", "additionalProperties": True}, "a JSON object", _instance_of(dict))
CURSOR = _kind(TEXT.schema, "a cursor of an earlier answer", _position)
KEY = _kind(
    {"type": "string", "pattern": "^-?[0-9]+$", "description": "A 64-bit number as a decimal string."},
    "a decimal number",
    _key,
    comparable=int,
)
TIME = _kind(
    {"type": "string", "format": "date-time"}, "a date-time with a time zone (ISO 8601)", _moment, comparable=_moment
)
#: In a URL an unencoded plus is decoded as a space.
TIME_IN_URL = replace(TIME, read=lambda field, value: TIME.read(field, value.replace(" ", "+")))


def ignored(kind: Kind) -> Kind:
    """A kind for members that clients send and that have no meaning here: their values are not checked."""
    return Kind({**kind.schema, "description": "Ignored."}, lambda field, value: None)
