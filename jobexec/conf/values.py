"""The values that single settings accept. A parser takes the raw value and returns the stored one.

It raises ValueError with a text of what was expected; the caller adds the setting's name and the value given.
"""

from __future__ import annotations

import base64
import math
import re
import socket
from collections.abc import Callable, Mapping
from datetime import time, timedelta
from types import MappingProxyType
from typing import Any, TypeAlias

import isodate

Parser: TypeAlias = Callable[[Any], Any]

#: The length of the columns that store a name of a category, a node or a deployment.
MAX_NAME_LENGTH = 100

#: The lowest limit of the size of arguments, in bytes: those of fewer are not compared with the setting.
SMALLEST_LIMIT = 1_000

#: A category of this weight beside one of weight 1 leaves it one job in this many.
MAX_WEIGHT = 1_000

_LONGEST = timedelta(days=36525)
DURATION = "a timedelta, a number of seconds, or an ISO 8601 duration without months and years"


def duration(*, zero: bool = False, none: bool = False) -> Parser:
    """A duration, stored as a timedelta; 0 and None only if allowed."""
    expected = f"{DURATION}, {'at least 0' if zero else 'more than 0'}{', or None' if none else ''}"

    def parse(value: Any) -> timedelta | None:
        if value is None and none:
            return None
        result = to_timedelta(value)
        if result is not None and result > _LONGEST:
            raise ValueError(f"{expected} and at most {_LONGEST.days:,} days")
        if result is None or result < timedelta(0) or (not result and not zero):
            raise ValueError(expected)
        return result

    return parse


def to_timedelta(value: Any) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    try:
        if isinstance(value, str):
            parsed = isodate.parse_duration(value)
            return parsed if isinstance(parsed, timedelta) else None
        return timedelta(seconds=value) if is_number(value) else None
    except (ValueError, OverflowError):
        return None


def is_number(value: Any) -> bool:
    """An int or a finite float, and not a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def integer(minimum: int, maximum: int = 2**31 - 1, *, none: bool = False) -> Parser:
    """A whole number in this range; None only if allowed."""

    def parse(value: Any) -> int | None:
        if value is None and none:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise ValueError(f"a whole number from {minimum} to {maximum}{', or None' if none else ''}")
        return value

    return parse


def factor(value: Any) -> float:
    """A number from 1 to 1000: powers of a greater one would overflow."""
    if not is_number(value) or not 1 <= value <= 1000:
        raise ValueError("a number from 1 to 1000")
    return float(value)


def boolean(value: Any) -> bool:
    """True or False, and no other truthy or falsy value."""
    if not isinstance(value, bool):
        raise ValueError("True or False")
    return value


def broker_url(value: Any) -> str | None:
    """The address of a message broker, in kombu's format, or None."""
    if value is None:
        return None
    if not isinstance(value, str) or not _BROKER_URL.fullmatch(value):
        raise ValueError("an address such as 'amqp://user:password@host:5672//' or 'redis://host:6379/0', or None")
    return value


_BROKER_URL = re.compile(r"[a-z][a-z0-9+]*://\S*")


def queue_prefix(value: Any) -> str:
    """The prefix of the names of queues: letters, digits, '.', '-' and '_'."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_.-]{1,50}", value):
        raise ValueError("1 to 50 letters, digits, '.', '-' or '_'")
    return value


def choice(*names: str) -> Parser:
    """One of these texts."""

    def parse(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise ValueError("one of " + ", ".join(map(repr, names)))
        return value

    return parse


def is_name(value: Any) -> bool:
    """Whether a value fits into a column for names and into a line of a log."""
    return (
        isinstance(value, str) and 0 < len(value) <= MAX_NAME_LENGTH and value.isprintable() and value == value.strip()
    )


def names(value: Any) -> tuple[str, ...]:
    """A list of different names, at least one."""
    valid = isinstance(value, (list, tuple)) and bool(value) and all(map(is_name, value))
    if not valid or len(set(value)) != len(value):
        raise ValueError(
            f"a list of different names, at least one, each of 1 to {MAX_NAME_LENGTH} printable characters"
        )
    return tuple(value)


def words(value: Any) -> tuple[str, ...]:
    """A list of different texts, none of them empty; the list may be."""
    valid = isinstance(value, (list, tuple)) and all(isinstance(word, str) and word.strip() for word in value)
    if not valid or len(set(value)) != len(value):
        raise ValueError("a list of different strings, none of them empty")
    return tuple(value)


def categories(value: Any) -> dict[str, int]:
    """A list of different names, or a dict of names to weights; at least one. Stored as the latter."""
    weights = value if isinstance(value, Mapping) else {}
    whole = all(isinstance(weight, int) and not isinstance(weight, bool) for weight in weights.values())
    try:
        listed = names(list(value) if isinstance(value, Mapping) else value)
        if not whole or any(not 1 <= weight <= MAX_WEIGHT for weight in weights.values()):
            raise ValueError
    except ValueError:
        raise ValueError(
            f"a list of different names, or a dict of names to weights from 1 to {MAX_WEIGHT}, at least one, each name "
            f"of 1 to {MAX_NAME_LENGTH} printable characters"
        ) from None
    return {name: weights.get(name, 1) for name in listed}


def category(value: Any) -> str | None:
    """The name of a category (checked for existence elsewhere), or None."""
    if value is not None and not is_name(value):
        raise ValueError(f"a name of 1 to {MAX_NAME_LENGTH} printable characters, or None")
    return None if value is None else str(value)


def tenant_concurrency(value: Any) -> dict[str, int] | None:
    """How many jobs at once: a number for every tenant, or a dict of tenants to numbers, or None. Stored as a dict."""
    limits = {"*": value} if isinstance(value, int) else value
    if value is None:
        return None
    whole = isinstance(limits, Mapping) and all(
        isinstance(tenant, str) and tenant and isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1
        for tenant, limit in limits.items()
    )
    if not whole or isinstance(value, bool) or not limits:
        raise ValueError(
            "a whole number of at least 1 for every tenant, a dict of tenants to such numbers, with '*' for all "
            "others, or None"
        )
    return dict(limits)


def node_name(value: Any) -> str:
    """A name, or None for the host's name."""
    if value is None:
        return socket.gethostname()[:MAX_NAME_LENGTH] or "localhost"
    if not is_name(value):
        raise ValueError(f"a name of 1 to {MAX_NAME_LENGTH} printable characters, or None for the host's name")
    return str(value)


def deployment(value: Any) -> str | None:
    """A text of the form name:version, or None."""
    if value is None:
        return None
    if not is_name(value) or value.count(":") != 1 or not all(map(is_name, value.split(":"))):
        raise ValueError(f"a string of the form 'name:version' with at most {MAX_NAME_LENGTH} characters, or None")
    return str(value)


def database(value: Any) -> str | None:
    """The alias of a database (checked for existence elsewhere), or None."""
    if value is not None and not (isinstance(value, str) and value):
        raise ValueError("an alias of DATABASES, or None")
    return value


def alias(value: Any) -> str:
    """The alias of a database (checked for existence elsewhere)."""
    if not (isinstance(value, str) and value):
        raise ValueError("an alias of DATABASES")
    return value


def dotted_path(value: Any) -> str | None:
    """A dotted import path (checked for importability elsewhere), or None."""
    parts = value.split(".") if isinstance(value, str) else []
    if value is not None and (len(parts) < 2 or not all(part.isidentifier() for part in parts)):
        raise ValueError("a dotted path such as 'shop.admin.tenants_of', or None")
    return None if value is None else str(value)


def dotted_paths(value: Any) -> tuple[str, ...]:
    """A list of different dotted import paths."""
    try:
        found = tuple(filter(None, map(dotted_path, words(value))))
    except ValueError:
        raise ValueError("a list of different dotted paths such as 'shop.jobs.timed'") from None
    return found


def priority_range(value: Any) -> tuple[int | None, int | None]:
    """A pair of lowest and highest priority, each a whole number or None."""
    expected = "a pair (lowest, highest) of whole numbers or None, the lowest not above the highest"
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise ValueError(expected)
    low, high = value
    if not all(bound is None or (isinstance(bound, int) and not isinstance(bound, bool)) for bound in value):
        raise ValueError(expected)
    if low is not None and high is not None and low > high:
        raise ValueError(expected)
    return low, high


def time_window(value: Any) -> tuple[time, time] | None:
    """A pair of times of day, each a text such as ``"22:00"`` or a naive time, or None for all day."""
    if value is None:
        return None
    expected = "a pair (begin, end) of different times of the day such as ('22:00', '06:00'), or None"
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise ValueError(expected)
    try:
        begin, end = (each if isinstance(each, time) else time.fromisoformat(each) for each in value)
    except (TypeError, ValueError):
        raise ValueError(expected) from None
    if begin.tzinfo or end.tzinfo or begin == end:
        raise ValueError(expected)
    return begin, end


def token(value: Any) -> str | None:
    """A secret that is valid in an HTTP header, or None."""
    if value is not None and not (isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9._~+/=-]{16,}", value)):
        raise ValueError("a string of at least 16 letters, digits and characters of ._~+/=-, or None")
    return value


def encryption_keys(value: Any) -> Mapping[str, Any] | None:
    """A dict of names to keys, each 32 bytes in base64, a callable or a dotted path, or None."""
    if value is None:
        return None
    expected = "a dict of key ids to keys: 32 bytes in URL-safe base64, a callable, or the dotted path of one"
    if not isinstance(value, Mapping):
        raise ValueError(expected)
    for number, (id, key) in enumerate(value.items(), 1):  # by number: an id that is a key by mistake is not shown
        if not is_name(id) or decoded_key(id) is not None:
            raise ValueError(f"{expected}; id {number} is not a string of 1 to {MAX_NAME_LENGTH} printable characters")
        if not callable(key) and decoded_key(key) is None and not _is_dotted(key):
            raise ValueError(f"{expected}; key {number} is none of these")
    return MappingProxyType(dict(value))


def decoded_key(value: Any) -> bytes | None:
    """The 32 bytes of a key in URL-safe base64; None for anything else."""
    if not isinstance(value, str) or not _KEY.fullmatch(value):
        return None
    found = base64.urlsafe_b64decode(value.rstrip("=") + "=")
    return found if len(found) == 32 else None


_KEY = re.compile(r"[A-Za-z0-9_-]{43}=?")


def _is_dotted(value: Any) -> bool:
    try:
        return dotted_path(value) is not None
    except ValueError:
        return False


def retry_plan(value: Any) -> Any:
    """The value itself, a list made immutable: the system check jobexec.E006 reports whether it is a plan."""
    return tuple(value) if isinstance(value, list) else value
