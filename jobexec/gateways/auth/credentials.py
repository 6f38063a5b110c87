"""Parse the Authorization header."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from jobexec.exceptions import Unauthenticated

#: No valid credentials are longer; longer ones are not even hashed.
MAX_LENGTH = 8_000


@dataclass(frozen=True, slots=True)
class Basic:
    """Name and secret of HTTP basic authentication."""

    name: str
    secret: str


@dataclass(frozen=True, slots=True)
class Bearer:
    """A bearer token: the secret itself, or an access token issued for it."""

    token: str


def parse(authorization: str) -> Basic | Bearer:
    """The credentials in the header. Raises Unauthenticated if they are malformed or neither Basic nor Bearer."""
    if len(authorization) > MAX_LENGTH or not authorization.isascii():
        raise Unauthenticated
    scheme, _, value = authorization.strip().partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer" and value:
        return Bearer(value)
    if scheme.lower() == "basic":
        return _basic(value)
    raise Unauthenticated


def _basic(value: str) -> Basic:
    try:
        text = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        raise Unauthenticated from None
    name, colon, secret = text.partition(":")
    if not colon or "\0" in text:
        raise Unauthenticated
    return Basic(name, secret)
