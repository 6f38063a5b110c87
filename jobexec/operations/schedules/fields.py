"""Validate the fields of a schedule before it is saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jobexec.exceptions import HandlerNotFound, InvalidJob, InvalidSchedule
from jobexec.json_values import check_json, check_storable, shown
from jobexec.models import JobDefinition, Misfire
from jobexec.recurrence import parse, zone_named

from .jobs import scheduled_jobs


def checked_values(
    *,
    handler_type: Any,
    expression: Any,
    timezone: Any,
    misfire: Any,
    args: Any,
    kwargs: Any,
    options: Any,
    enabled: Any,
) -> dict[str, Any]:
    """Validate a schedule's columns. Raises :class:`~jobexec.exceptions.InvalidSchedule`, which names the field."""
    zone = zone_named(timezone)
    parse(expression, zone)
    return {
        "handler_type": checked_text("handler_type", handler_type),
        "expression": expression.strip(),
        "timezone": zone,
        "misfire": checked_misfire(misfire),
        "handler_configuration": {"args": list(_sequence(args)), "kwargs": dict(_mapping("kwargs", kwargs))},
        "options": dict(_mapping("options", options)),
        "enabled": checked_boolean(enabled),
    }


def check_job(using: str, values: Mapping[str, Any]) -> None:
    """Raise InvalidSchedule if the handler rejects such jobs, or if neither this process nor a node knows it."""
    handler, configuration = values["handler_type"], values["handler_configuration"]
    checked = (
        ("args", "args", configuration["args"]),
        ("kwargs", "args", configuration["kwargs"]),
        ("args", "args", configuration),  # nested two levels deeper
        ("options", "options", values["options"]),
    )
    for name, field, value in checked:
        try:
            check_json(name, value)
        except InvalidJob as error:
            raise InvalidSchedule(str(error), field) from None
    try:
        scheduled_jobs().check(handler, configuration["args"], configuration["kwargs"], values["options"])
        if any(configuration.values()) and scheduled_jobs().encrypts(handler, values["options"]):
            text = f"args: expected none, as the jobs of {handler!r} are encrypted and a schedule keeps its arguments."
            raise InvalidSchedule(text, "args")
    except HandlerNotFound:
        if not JobDefinition.objects.using(using).filter(handler_type=handler).exists():
            text = (
                f"handler_type: there is no handler {handler!r}: this process has none, and no node has recorded one."
            )
            raise InvalidSchedule(text, "handler_type") from None


def checked_text(field: str, value: Any) -> str:
    """Validate a text for its column."""
    if not isinstance(value, str) or not 0 < len(value) <= 255:
        raise InvalidSchedule(f"{field}: expected a string of 1 to 255 characters, got {shown(value)}.", field)
    try:
        check_storable(field, value)
    except InvalidJob as error:
        raise InvalidSchedule(str(error), field) from None
    return value


def checked_misfire(value: Any) -> str:
    """Validate a misfire policy."""
    if value not in Misfire.values:
        expected = ", ".join(map(repr, Misfire.values))
        raise InvalidSchedule(f"misfire: expected one of {expected}, got {shown(value)}.", "misfire")
    return str(Misfire(value).value)


def _sequence(value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise InvalidSchedule(f"args: expected a list of arguments, got {shown(value)}.", "args")
    return value


def _mapping(field: str, value: Any) -> Mapping[str, Any]:
    value = {} if value is None else value
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        text = f"{field}: expected a mapping with strings as keys, got {shown(value)}."
        raise InvalidSchedule(text, "args" if field == "kwargs" else field)
    return value


def checked_boolean(value: Any) -> bool:
    """Validate a bool; other truthy or falsy values are refused."""
    if not isinstance(value, bool):
        raise InvalidSchedule(f"enabled: expected True or False, got {shown(value)}.", "enabled")
    return value
