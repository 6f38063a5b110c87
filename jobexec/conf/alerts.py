"""The targets in DEAD_LETTER_ALERTS: whom to tell of new dead letters, of which, and how often."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from . import values

#: The bodies of requests to webhooks.
FORMATS = ("jobexec", "slack")

_LOCAL = ("localhost", "127.0.0.1", "::1")
_SHORTEST_SECRET = 16


@dataclass(frozen=True, slots=True)
class AlertTarget:
    """A webhook or mail addresses, the dead letters to report to it, and the pause between two alerts about a group.

    Empty filters mean all. ``secret`` is the key of the signature, in bytes.
    """

    url: str = field(default="", repr=False)
    mail: tuple[str, ...] = ()
    format: str = FORMATS[0]
    secret: bytes = field(default=b"", repr=False)
    interval: timedelta = timedelta(hours=1)
    handlers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        """The host of its URL, for messages: the rest of a URL is often a secret."""
        return urlsplit(self.url).hostname or ""


def alerts(value: Any) -> dict[str, AlertTarget] | None:
    """A dict of names to targets."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError("a dict of names to dicts with 'url' or 'mail', or None")
    targets = {}
    for name, target in value.items():
        if not values.is_name(name):
            raise ValueError(f"a dict whose keys are names of at most {values.MAX_NAME_LENGTH} characters")
        try:
            targets[name] = _target(target)
        except ValueError as error:
            raise ValueError(f"a dict in which {name!r} is {error}") from None
    return targets


def _target(value: Any) -> AlertTarget:
    if not isinstance(value, Mapping) or ("url" in value) == ("mail" in value):
        raise ValueError("a dict with either 'url' or 'mail'")
    own = {}
    for key, given in value.items():
        if key not in _KEYS:
            raise ValueError(f"a dict with keys out of {', '.join(map(repr, _KEYS))}")
        try:
            own[key] = _KEYS[key](given)
        except ValueError as error:
            raise ValueError(f"a dict in which {key!r} is {error}") from None
    for key in ("secret", "format"):
        if key in own and "url" not in own:
            raise ValueError(f"a dict in which {key!r} comes with a 'url'")
    return AlertTarget(**own)


def _url(value: Any) -> str:
    expected = "an https URL without a user name or a fragment (http only to this machine)"
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError(expected)
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        raise ValueError(expected) from None
    safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL)
    if not safe or not parts.hostname or parts.username is not None or parts.fragment:
        raise ValueError(expected)
    return value


def _mail(value: Any) -> tuple[str, ...]:
    from django.core.exceptions import ValidationError
    from django.core.validators import validate_email

    addresses = values.words([value] if isinstance(value, str) else value)
    try:
        for address in addresses:
            validate_email(address)
    except ValidationError:
        addresses = ()
    if not addresses:
        raise ValueError("one or more mail addresses")
    return addresses


def _secret(value: Any) -> bytes:
    """A text, or ``whsec_`` and base64 as in Standard Webhooks."""
    expected = f"a string of at least {_SHORTEST_SECRET} characters, or 'whsec_' and base64"
    if not isinstance(value, str) or len(value) < _SHORTEST_SECRET:
        raise ValueError(expected)
    if not value.startswith("whsec_"):
        return value.encode()
    try:
        return base64.b64decode(value.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise ValueError(expected) from None


def _format(value: Any) -> str:
    if value not in FORMATS:
        raise ValueError(f"one of {', '.join(map(repr, FORMATS))}")
    return str(value)


def _tenants(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, (list, tuple, set, frozenset)):
        raise ValueError("a list of tenant ids ('' for jobs without one)")
    if not value or not all(isinstance(each, str) for each in value):
        raise ValueError("a list of tenant ids ('' for jobs without one)")
    return tuple(value)


_KEYS: Mapping[str, values.Parser] = {
    "url": _url,
    "mail": _mail,
    "format": _format,
    "secret": _secret,
    "interval": values.duration(zero=True),
    "handlers": values.words,
    "categories": values.words,
    "tenants": _tenants,
}


def site_url(value: Any) -> str | None:
    """Where the project's pages are, without a slash at the end."""
    if value is None:
        return None
    parts = urlsplit(value) if isinstance(value, str) else urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("a URL such as 'https://shop.example', or None")
    return str(value).rstrip("/")
