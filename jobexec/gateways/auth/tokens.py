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
from jobexec.operations.values.client_secrets import digest

_SALT = "jobexec.gateways.auth.tokens"


def _encode(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).rstrip(b"=").decode()


_HEADER = _encode({"alg": "HS256", "typ": "JWT"})


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says whose signature is right: which client, with which secret, until when (since the epoch)."""

    client: int
    secret: str
    until: int


def issue(row: GatewayClient | None, its_digest: str | None = None) -> tuple[str, int]:
    """A token for the client, and for how many seconds it is good. Without a row: for nobody, where nobody is asked.

    ``its_digest``: that of the secret which was shown, if the client may have two.
    """
    now = int(clock.now().timestamp())
    seconds = max(int(get_settings().gateway_token_ttl.total_seconds()), 1)
    key = _of_secret(its_digest or row.token_digest) if row else ""
    claims = {"sub": str(row.pk if row else 0), "key": key, "iat": now, "exp": now + seconds}
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


def digest_in(claims: Claims, row: GatewayClient) -> str | None:
    """The digest of the secret for which the token was given; None if the client has it no more."""
    for each in (row.token_digest, row.previous_token_digest):
        if each is not None and constant_time_compare(claims.secret, _of_secret(each)):
            return each
    return None


def _of_secret(its_digest: str | None) -> str:
    # Not the digest itself: what stands in a token can be read by everybody who has it. Not with SECRET_KEY: tokens
    # outlive a new one as long as the former is among SECRET_KEY_FALLBACKS.
    return digest(f"{_SALT}:{its_digest}")[:32]


def _signer() -> Signer:
    return Signer(sep=".", salt=_SALT)
