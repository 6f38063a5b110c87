"""Access tokens: what a client gets for its secret, good for a short time, kept nowhere.

A token is a JSON Web Token, since some clients look into what they are given. Its header is always the same and only
compared: nothing in a token chooses how it is verified. Django's signer signs with SECRET_KEY and knows
SECRET_KEY_FALLBACKS.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from django.core.signing import BadSignature, Signer
from django.utils.crypto import constant_time_compare

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import Unauthenticated
from jobexec.models import GatewayClient
from jobexec.operations.gateway_secrets import digest

_SALT = "jobexec.gateways.access.tokens"


def _encode(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).rstrip(b"=").decode()


_HEADER = _encode({"alg": "HS256", "typ": "JWT"})


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says whose signature is right: which client, with which secret, until when (since the epoch)."""

    client: int
    secret: str
    until: int


def issue(row: GatewayClient | None) -> tuple[str, int]:
    """A token for the client, and for how many seconds it is good. Without a row: for nobody, where nobody is asked."""
    now = int(clock.now().timestamp())
    seconds = max(int(get_settings().gateway_token_ttl.total_seconds()), 1)
    claims = {"sub": str(row.pk if row else 0), "key": _of_secret(row), "iat": now, "exp": now + seconds}
    return _signer().sign(f"{_HEADER}.{_encode(claims)}"), seconds


def looks_like_one(token: str) -> bool:
    """Whether it has the form of a token, whatever its signature."""
    return token.startswith(f"{_HEADER}.")


def claims_of(token: str) -> Claims:
    """What the token says. Raises Unauthenticated unless it was signed here and its time is not over."""
    try:
        header, _, body = _signer().unsign(token).partition(".")
        if header != _HEADER:
            raise Unauthenticated
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        found = Claims(int(claims["sub"]), str(claims["key"]), int(claims["exp"]))
    except (BadSignature, ValueError, KeyError, TypeError):
        raise Unauthenticated from None
    if found.until <= clock.now().timestamp():
        raise Unauthenticated
    return found


def is_of_secret(claims: Claims, row: GatewayClient) -> bool:
    """Whether the token was given for the secret that the client has now, and not for one before."""
    return constant_time_compare(claims.secret, _of_secret(row))


def _of_secret(row: GatewayClient | None) -> str:
    # Not the digest itself: what stands in a token can be read by everybody who has it. Not with SECRET_KEY: tokens
    # outlive a new one as long as the former is among SECRET_KEY_FALLBACKS.
    return digest(f"{_SALT}:{row.token_digest}")[:32] if row else ""


def _signer() -> Signer:
    return Signer(sep=".", salt=_SALT)
