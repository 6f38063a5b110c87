"""Access tokens: issued to a client for its secret, valid for a short time, and stored nowhere.

A token is a JSON Web Token because some clients decode it. Its header is constant and only compared: nothing in a token
decides how it is verified. Django's signer signs with SECRET_KEY and also accepts SECRET_KEY_FALLBACKS.
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
    """The contents of a token with a valid signature. ``until`` is the expiry in seconds since the epoch."""

    client: int
    secret: str
    until: int


def issue(row: GatewayClient | None, its_digest: str | None = None) -> tuple[str, int]:
    """Issue a token for the client; return it and its lifetime in seconds.

    Without a row the token names no client, for GATEWAY_AUTH "none". ``its_digest`` is the digest of the secret that
    the client sent, needed if it has two.
    """
    now = int(clock.now().timestamp())
    seconds = max(int(get_settings().gateway_token_ttl.total_seconds()), 1)
    key = _of_secret(its_digest or row.token_digest) if row else ""
    claims = {"sub": str(row.pk if row else 0), "key": key, "iat": now, "exp": now + seconds}
    return _signer().sign(f"{_HEADER}.{_encode(claims)}"), seconds


def looks_like_one(token: str) -> bool:
    """Return whether the text has the form of a token; the signature is not checked."""
    return token.startswith(f"{_HEADER}.")


def claims_of(token: str) -> Claims:
    """Verify and decode a token. Raises Unauthenticated if the signature is invalid or the token has expired."""
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
    """The digest of the secret for which the token was issued; None if the client no longer has this secret."""
    for each in (row.token_digest, row.previous_token_digest):
        if each is not None and constant_time_compare(claims.secret, _of_secret(each)):
            return each
    return None


def _of_secret(its_digest: str | None) -> str:
    # Not the digest itself, because the contents of a token can be read by anyone who has it. Not keyed with
    # SECRET_KEY, because tokens remain valid after a change of it as long as the old one is in SECRET_KEY_FALLBACKS.
    return digest(f"{_SALT}:{its_digest}")[:32]


def _signer() -> Signer:
    return Signer(sep=".", salt=_SALT)
