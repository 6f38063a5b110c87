"""Read and check the members of a request's body. Unknown members are ignored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sized
from datetime import timedelta
from typing import Any, Final

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.http.request import RawPostDataException

from jobexec.gateways.asks import MOST_VALUES

from .problems import INVALID_ARGUMENT, TOO_LARGE, Refused, invalid

_INT32, _INT64 = 2**31 - 1, 2**63 - 1
_LONGEST = timedelta(days=36525)
_REQUIRED: Final[Any] = object()


class Body:
    """A JSON object from a client. Each method raises Refused (400), which names the member and what was expected."""

    def __init__(self, members: Mapping[str, Any], where: str = "") -> None:
        self._members, self._where = members, where

    def _get(self, name: str, default: Any) -> Any:
        value = self._members.get(name)
        if value is None and default is _REQUIRED:
            raise Refused(INVALID_ARGUMENT, f"{self._where}{name}: expected a value, got none.")
        return default if value is None else value

    def _refuse(self, name: str, expected: str) -> Refused:
        return invalid(self._where + name, expected, self._members.get(name))

    def has(self, name: str) -> bool:
        """Return whether the member is present and not null."""
        return self._members.get(name) is not None

    def text(self, name: str, default: Any = _REQUIRED, *, blank: bool = True) -> Any:
        value = self._get(name, default)
        if value is default:
            return value
        if not isinstance(value, str) or not (blank or value.strip()):
            raise self._refuse(name, "a text" if blank else "a text that is not blank")
        return value

    def integer(self, name: str, default: Any = _REQUIRED, *, least: int = -_INT64, most: int = _INT64) -> Any:
        value = self._get(name, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._refuse(name, f"a whole number from {least} to {most}")
        return value

    def retries(self, name: str, default: Any = _REQUIRED) -> Any:
        return self.integer(name, default, least=-_INT32, most=_INT32)

    def milliseconds(self, name: str, default: Any = _REQUIRED, *, least: int = 0) -> Any:
        """A duration."""
        value = self.integer(name, default, least=least)
        if value is default:
            return value
        # Cap the duration: clients send the largest possible number for "for ever".
        return min(timedelta(milliseconds=value), _LONGEST) if value < 10**15 else _LONGEST

    def flag(self, name: str) -> bool:
        value = self._get(name, False)
        if not isinstance(value, bool):
            raise self._refuse(name, "true or false")
        return value

    def texts(self, name: str) -> list[str]:
        value = self._get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self._refuse(name, "a list of texts")
        check_length(f"{self._where}{name}", value, MOST_VALUES)
        return value

    def mapping(self, name: str, default: Any = None) -> Any:
        """A JSON object, with unchecked members."""
        value = self._get(name, default)
        if value is not default and not isinstance(value, dict):
            raise self._refuse(name, "a JSON object")
        return value

    def part(self, name: str, *, required: bool = False) -> Body:
        """A JSON object whose members are checked too; empty if it is missing."""
        return Body(self.mapping(name, _REQUIRED if required else {}), f"{self._where}{name}.")

    def parts(self, name: str, most: int) -> list[Body]:
        """A list of at most ``most`` JSON objects."""
        value = self._get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self._refuse(name, "a list of JSON objects")
        check_length(f"{self._where}{name}", value, most)
        return [Body(each, f"{self._where}{name}[{place}].") for place, each in enumerate(value)]

    def items(self) -> list[tuple[str, Any]]:
        """All members that are not null."""
        return [(name, value) for name, value in self._members.items() if value is not None]


def check_length(field: str, values: Sized, most: int) -> None:
    """Raise Refused (400) if there are more than ``most``."""
    if len(values) > most:
        raise Refused(INVALID_ARGUMENT, f"{field}: expected at most {most:,} values, got {len(values):,}.")


def read(request: HttpRequest) -> Body:
    """The body of a request; an empty body counts as an empty object. Raises Refused if it is not a JSON object."""
    try:
        raw = request.body
    except RequestDataTooBig as error:
        raise Refused(TOO_LARGE, "The body is larger than DATA_UPLOAD_MAX_MEMORY_SIZE allows.") from error
    except RawPostDataException as error:  # earlier code, such as middleware, has read it as a form
        raise Refused(INVALID_ARGUMENT, "The body: expected a JSON object, got a form.") from error
    if not raw.strip():
        return Body({})
    try:
        members = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Refused(INVALID_ARGUMENT, f"The body: expected a JSON object, got invalid JSON: {error}.") from error
    if not isinstance(members, dict):
        raise invalid("The body", "a JSON object", members)
    return Body(members)
