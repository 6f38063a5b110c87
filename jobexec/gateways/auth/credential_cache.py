"""Who was verified a moment ago: so that a worker's thousand requests per second do not cost a query each.

A client that is disabled, deleted or changed may go on as it was for so long. What was refused is refused for so long,
too.
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

#: How long a client that was verified is not verified again.
SECONDS = 5.0

#: Longer headers are refused before anything is remembered.
MAX_LENGTH = 8_001

_MOST = 10_000
_ACQUAINTED = 3600.0  # seconds
_SALT = secrets.token_bytes(32)
_lock = threading.Lock()
_clients: dict[tuple[str, ...], tuple[Client, float]] = {}
#: Credentials that were refused, and until when they are not looked at again; apart, so that they displace nobody.
_refused: dict[tuple[str, ...], float] = {}
_asked: dict[tuple[str, ...], Future[Client]] = {}


def disguised(text: str) -> str:
    """What stands for a secret or a password here: neither must lie about in memory, nor what could be tried."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32, key=_SALT).hexdigest()


def recall(key: tuple[str, ...]) -> Client | None:
    """The client with these credentials, if it was verified a moment ago."""
    found = _clients.get(key)
    return found[0] if found and clock.monotonic() < found[1] else None


def was_known(key: tuple[str, ...]) -> bool:
    """Whether a client with these credentials was verified within the last hour."""
    found = _clients.get(key)
    return found is not None and clock.monotonic() < found[1] + _ACQUAINTED


def remember(key: tuple[str, ...], client: Client, until: datetime | None) -> None:
    """For :data:`SECONDS`, and not longer than ``until``, when the credentials expire."""
    seconds = SECONDS if until is None else min(SECONDS, (until - clock.now()).total_seconds())
    now = clock.monotonic()
    with _lock:
        if len(_clients) >= _MOST:
            for old in [old for old, (_, end) in _clients.items() if end <= now] or list(_clients):
                del _clients[old]
        _clients[key] = (client, now + seconds)


def is_refused(key: tuple[str, ...]) -> bool:
    """Whether these credentials were refused a moment ago."""
    return clock.monotonic() < _refused.get(key, 0.0)


def refuse(key: tuple[str, ...]) -> None:
    """Refuse them for :data:`SECONDS` without looking; they are those of no acquaintance any more."""
    with _lock:
        _clients.pop(key, None)
        if len(_refused) >= _MOST:
            _refused.clear()
        _refused[key] = clock.monotonic() + SECONDS


def single_flight(key: tuple[str, ...], ask: Callable[[], Client]) -> Client:
    """What ``ask`` returns or raises: while one thread asks with this key, others wait for its answer."""
    with _lock:
        asked = _asked.get(key)
        future = asked or _asked.setdefault(key, Future())
    try:
        if asked is None:
            _answer(key, future, ask)
        return future.result()
    finally:
        del asked, future  # an error holds this frame


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
    """Everybody."""
    with _lock:
        _clients.clear()
        _refused.clear()
