"""Cache of verified credentials, so that a worker's thousand requests per second do not cost a query each.

A client that is disabled, deleted or changed keeps its old access for :data:`SECONDS`. Refused credentials stay refused
for the same time.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime

from jobexec import clock

from .client import Client

#: How long the result of a verification is used, in seconds.
SECONDS = 5.0

#: Longer headers are refused before they reach the cache.
MAX_LENGTH = 8_001

_MOST = 10_000
_ACQUAINTED = 3600.0  # seconds
_SALT = secrets.token_bytes(32)
_lock = threading.Lock()
_clients: dict[tuple[str, ...], tuple[Client, float]] = {}
#: Refused credentials and until when they stay refused; separate, so that they displace no verified client.
_refused: dict[tuple[str, ...], float] = {}
_asked: dict[tuple[str, ...], Future[Client]] = {}


def disguised(text: str) -> str:
    """Hash a secret or a password: memory must hold neither the text nor a hash that can be attacked by guessing."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32, key=_SALT).hexdigest()


def recall(key: tuple[str, ...]) -> Client | None:
    """The client with these credentials, if it was verified within the last :data:`SECONDS`."""
    found = _clients.get(key)
    return found[0] if found and clock.monotonic() < found[1] else None


def was_known(key: tuple[str, ...]) -> bool:
    """Return whether a client with these credentials was verified within the last hour."""
    found = _clients.get(key)
    return found is not None and clock.monotonic() < found[1] + _ACQUAINTED


def remember(key: tuple[str, ...], client: Client, until: datetime | None) -> None:
    """Cache the client for :data:`SECONDS`, but no longer than ``until``, when the credentials expire."""
    seconds = SECONDS if until is None else min(SECONDS, (until - clock.now()).total_seconds())
    now = clock.monotonic()
    with _lock:
        if len(_clients) >= _MOST:
            for old in [old for old, (_, end) in _clients.items() if end <= now] or list(_clients):
                del _clients[old]
        _clients[key] = (client, now + seconds)


def is_refused(key: tuple[str, ...]) -> bool:
    """Return whether these credentials were refused within the last :data:`SECONDS`."""
    return clock.monotonic() < _refused.get(key, 0.0)


def refuse(key: tuple[str, ...]) -> None:
    """Refuse these credentials for :data:`SECONDS` without a query, and forget that they were ever valid."""
    with _lock:
        _clients.pop(key, None)
        if len(_refused) >= _MOST:
            _refused.clear()
        _refused[key] = clock.monotonic() + SECONDS


def single_flight(key: tuple[str, ...], ask: Callable[[], Client]) -> Client:
    """Call ``ask`` once per key at a time: concurrent callers wait for the first one's result or exception."""
    with _lock:
        asked = _asked.get(key)
        future = asked or _asked.setdefault(key, Future())
    try:
        if asked is None:
            _answer(key, future, ask)
        return future.result()
    finally:
        del asked, future  # the traceback of an error refers to this frame: avoid a reference cycle


def _answer(key: tuple[str, ...], future: Future[Client], ask: Callable[[], Client]) -> None:
    try:
        client = ask()
    except BaseException as error:
        del _asked[key]
        future.set_exception(error)
    else:
        del _asked[key]
        future.set_result(client)


def forget() -> None:
    """Clear the cache."""
    with _lock:
        _clients.clear()
        _refused.clear()
