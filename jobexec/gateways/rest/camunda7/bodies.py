"""Read the JSON bodies of requests, member by member; errors name the member."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sized
from datetime import timedelta
from typing import Any, Never

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest

from jobexec.gateways.asks import MOST_VALUES

from .errors import EngineError, invalid

#: The maximum duration in milliseconds, about 100 years.
MAX_MILLISECONDS = 100 * 366 * 24 * 3600 * 1000
_NUMBER = re.compile("[+-]?[0-9]{1,40}")


class Body:
    """A JSON object: the body of a request or a nested object. A member that is null counts as missing."""

    def __init__(self, members: Mapping[str, Any], path: str = "") -> None:
        self._members, self._path = members, path

    def text(self, name: str, default: str | None = None) -> str | None:
        """A text; numbers are converted, because the id of a worker may be one."""
        value = self._members.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            self._expected(name, "a string", value)
        return str(value)

    def needed_text(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise invalid(f"{self._path}{name}: expected a string, got {'an empty string' if value == '' else 'null'}.")
        return value

    def integer(self, name: str, default: int | None = None, *, least: int | None = None) -> int | None:
        value = self._members.get(name)
        if value is None:
            return default
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
            self._expected(name, "an integer" if least is None else f"an integer of at least {least}", value)
        return int(value)

    def milliseconds(self, name: str, *, least: int = 0) -> timedelta:
        """A required duration."""
        value = self.integer(name, least=least)
        if value is None:
            raise invalid(f"{self._path}{name}: expected a number of milliseconds, got null.")
        return timedelta(milliseconds=min(value, MAX_MILLISECONDS))

    def flag(self, name: str) -> bool:
        value = self._members.get(name)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if value is not None and not isinstance(value, bool):
            self._expected(name, "true or false", value)
        return bool(value)

    def texts(self, name: str, most: int = MOST_VALUES) -> list[str] | None:
        """A list of at most ``most`` texts; None if it is missing."""
        value = self._members.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self._expected(name, "a list of strings", value)
        self._check_length(name, value, most)
        return list(value)

    def mapping(self, name: str, most: int | None = None) -> dict[str, Any]:
        """An object, with at most ``most`` members; empty if it is missing."""
        value = self._members.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._expected(name, "an object", value)
        if most is not None:
            self._check_length(name, value, most)
        return dict(value)

    def objects(self, name: str, most: int) -> list[Body]:
        """A list of at most ``most`` objects; empty if it is missing."""
        value = self._members.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self._expected(name, "a list of objects", value)
        self._check_length(name, value, most)
        return [Body(each, f"{self._path}{name}[{number}].") for number, each in enumerate(value)]

    def has(self, name: str) -> bool:
        """Return whether the member is present and not null."""
        return self._members.get(name) is not None

    @property
    def members(self) -> Mapping[str, Any]:
        return self._members

    def _check_length(self, name: str, values: Sized, most: int) -> None:
        if len(values) > most:
            raise invalid(f"{self._path}{name}: expected at most {most}, got {len(values)}.")

    def _expected(self, name: str, expected: str, value: Any) -> Never:
        raise invalid(f"{self._path}{name}: expected {expected}, got {_short(value)}.")


def body_of(request: HttpRequest) -> Body:
    """The object in the body. An empty body counts as an empty object; the content type is ignored."""
    try:
        content = request.body
        value = json.loads(content) if content.strip() else {}
    except RequestDataTooBig as error:
        raise EngineError(413, "RestException", f"{error} (setting DATA_UPLOAD_MAX_MEMORY_SIZE)") from error
    except (ValueError, RecursionError) as error:
        raise invalid(f"The body of the request is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise invalid(f"The body of the request: expected a JSON object, got {_short(value)}.")
    return Body(value)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:80]}…"
