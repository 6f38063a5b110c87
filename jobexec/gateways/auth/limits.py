"""Rate limits: a token bucket for each client, in the memory of each process."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import TooManyRequests

from .client import Client

_MOST = 10_000
_FULL = 1.0  # seconds after which every bucket is full again and can be forgotten


class Buckets:
    """Token buckets that gain ``rate`` tokens per second and hold as many as arrive in one second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, key: str, rate: float) -> float:
        """Take one token. Returns 0 if there was one, otherwise the seconds until there is one."""
        now = clock.monotonic()
        with self._lock:
            level, wait = self._level(key, rate, now)
            if len(self._levels) >= _MOST and key not in self._levels:
                self._levels = {each: found for each, found in self._levels.items() if now - found[1] < _FULL}
            self._levels[key] = (level if wait else level - 1, now)
        return wait

    def missing(self, key: str, rate: float) -> float:
        """The seconds until there is a token, 0 if there is one already; takes none."""
        with self._lock:
            return self._level(key, rate, clock.monotonic())[1]

    def _level(self, key: str, rate: float, now: float) -> tuple[float, float]:
        level, at = self._levels.get(key, (rate, now))
        level = min(max(rate, 1.0), level + max(now - at, 0) * rate)
        return level, 0.0 if level > 0.999999 else (1 - level) / rate

    def give_back(self, key: str, rate: float) -> None:
        """Return a token; a bucket never exceeds its capacity."""
        with self._lock:
            if key in self._levels:
                level, at = self._levels[key]
                self._levels[key] = (min(max(rate, 1.0), level + 1), at)

    def clear(self) -> None:
        with self._lock:
            self._levels.clear()


buckets = Buckets()


@dataclass(frozen=True, slots=True)
class Allowance:
    """A rate limit: ``times`` the client's request limit, but at least ``least`` per second.

    Each allowance has its own buckets. If ``refunded`` is true, successful requests do not count in the end.
    """

    name: str
    times: int = 1
    least: int = 0
    refunded: bool = False

    def rate(self, client: Client) -> int:
        """The limit per second; 0 means no limit."""
        rate = client.requests_per_second
        if rate is None:
            rate = get_settings().gateway_requests_per_second
        return max(self.times * rate, self.least) if rate else 0

    def key(self, client: Client) -> str:
        return f"{self.name}:{client.key}"


REQUESTS = Allowance("requests")
#: A worker's reports about its jobs. A single request may have brought it a thousand of them.
REPORTS = Allowance("reports", times=10, least=100)
#: Reports that end a job: each job can end only once, so only refused reports have to be limited.
RESULTS = replace(REPORTS, refunded=True)


def limit(client: Client, counts: Allowance = REQUESTS) -> None:
    """Count a request of the client. Raises TooManyRequests if the client exceeds its limit."""
    rate = counts.rate(client)
    wait = buckets.take(counts.key(client), rate) if rate else 0
    if wait:
        raise TooManyRequests(f"More than {rate} {counts.name} per second.", retry_after=wait)


def succeeded(client: Client, counts: Allowance) -> None:
    """Refund a request that was counted by :func:`limit` and has succeeded, if the allowance is refunded."""
    if counts.refunded and (rate := counts.rate(client)):
        buckets.give_back(counts.key(client), rate)
