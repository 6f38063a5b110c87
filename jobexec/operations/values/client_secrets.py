"""Client secrets: generated here, shown once, stored as a digest."""

from __future__ import annotations

import hashlib
import secrets

#: Lets people and repository scanners recognise a secret.
PREFIX = "jxc_"


def new_secret() -> str:
    """Generate a secret of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """Return the SHA-256 of a secret in hexadecimal, by which its row is found.

    A slow hash protects passwords that people choose against guessing. 256 random bits cannot be guessed, so a fast
    hash is as safe; and the digest can be looked up directly, so nothing reveals whether a name exists. The hash has no
    key: a new SECRET_KEY must not lock out every worker.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
