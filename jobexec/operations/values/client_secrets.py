"""Secrets of clients: made here, shown once, kept as a digest."""

from __future__ import annotations

import hashlib
import secrets

#: So that people and scanners of repositories know one when they see it.
PREFIX = "jxc_"


def new_secret() -> str:
    """A secret of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """By which a secret is found in the table; SHA-256, in hexadecimal.

    A slow hash protects what people make up, against trying what they may have made up. Of 256 random bits nothing can
    be tried, so that a fast one is as safe; and it can be looked up, so that nothing tells whether a name exists. It
    has no key: a new SECRET_KEY must not lock out every worker.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
