"""Validate the arguments of a query: each function takes a value and returns it in the form for comparison."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from jobexec.conf.messages import check_moment
from jobexec.exceptions import InvalidJob, InvalidQuery
from jobexec.identifiers import as_id
from jobexec.json_values import check_storable

from ..values.ranking import check_priority

Check: TypeAlias = Callable[[str, Any], Any]

MAX_KEY = 2**63 - 1


def text(name: str, value: Any) -> str:
    """A non-empty text: an empty text would match jobs without a value, for which there are other conditions."""
    if not isinstance(value, str) or not value:
        raise InvalidQuery(f"{name}: expected a string that is not empty, got {value!r}.")
    try:
        check_storable(name, value)
    except InvalidJob as error:
        raise InvalidQuery(str(error)) from None
    return value


def texts(name: str, value: Any) -> tuple[str, ...]:
    """At least one such text."""
    return tuple(text(name, each) for each in _several(name, value))


def word(*allowed: str) -> Check:
    """One of the allowed words."""

    def check(name: str, value: Any) -> str:
        if value not in allowed:
            raise InvalidQuery(f"{name}: expected one of {', '.join(allowed)}, got {value!r}.")
        return str(value)

    return check


def words(allowed: Collection[str]) -> Check:
    """At least one of these words."""
    check = word(*allowed)
    return lambda name, value: tuple(check(name, each) for each in _several(name, value))


def yes_no(name: str, value: Any) -> bool:
    """True or False; other truthy or falsy values are refused."""
    if not isinstance(value, bool):
        raise InvalidQuery(f"{name}: expected True or False, got {value!r}.")
    return value


def uuid(name: str, value: Any) -> UUID:
    """A UUID or its text form."""
    found = as_id(value) if isinstance(value, str | UUID) else None
    if found is None:
        raise InvalidQuery(f"{name}: expected a UUID, got {value!r}.")
    return found


def uuids(name: str, value: Any) -> tuple[UUID, ...]:
    """UUIDs without duplicates; an empty list matches no job."""
    return tuple(dict.fromkeys(uuid(name, each) for each in _several(name, value, least=0)))


def priority(name: str, value: Any) -> int:
    """A valid priority."""
    try:
        check_priority(value)
    except InvalidJob as error:
        raise InvalidQuery(f"{name}{str(error).removeprefix('priority')}") from None
    return int(value)


def key(name: str, value: Any) -> int:
    """A key of an external job."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= MAX_KEY:
        raise InvalidQuery(f"{name}: expected a whole number from 1 to {MAX_KEY}, got {value!r}.")
    return value


def as_key(text: str) -> int | None:
    """The key of an external job from a text; None if it is not a valid key."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_KEY))):
        return None
    number = int(text)
    return number if 0 < number <= MAX_KEY else None


def moment(name: str, value: Any) -> datetime:
    """An aware datetime."""
    try:
        found = check_moment(name, value)
    except InvalidJob as error:
        raise InvalidQuery(str(error)) from None
    assert found is not None
    return found


def _several(name: str, value: Any, least: int = 1) -> list[Any]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidQuery(f"{name}: expected a list, got {value!r}.")
    found = list(value)
    if len(found) < least:
        raise InvalidQuery(f"{name}: expected at least {least}, got an empty list.")
    return found
