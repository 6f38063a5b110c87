"""How many requests a client may send: a bucket of tokens for each client, in the memory of each process."""

from __future__ import annotations

import threading

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import TooManyRequests

from .client import Client


class Buckets:
    """Buckets that fill with ``rate`` tokens a second and hold as many as come in one second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, key: str, rate: float) -> float:
        """Take one token: 0 if there was one, otherwise in how many seconds there will be."""
        now = clock.monotonic()
        with self._lock:
            level, at = self._levels.get(key, (rate, now))
            level = min(max(rate, 1.0), level + max(now - at, 0) * rate)
            wait = 0.0 if level > 0.999999 else (1 - level) / rate
            self._levels[key] = (level if wait else level - 1, now)
        return wait

    def clear(self) -> None:
        with self._lock:
            self._levels.clear()


buckets = Buckets()


def limit(client: Client) -> None:
    """Count a request of the client. Raises TooManyRequests if it has sent more than it may.

    Not asked for what finishes a job: that must get through.
    """
    rate = client.requests_per_second
    if rate is None:
        rate = get_settings().gateway_requests_per_second
    if not rate:
        return
    wait = buckets.take(client.key, rate)
    if wait:
        raise TooManyRequests(f"More than {rate} requests per second.", retry_after=wait)
