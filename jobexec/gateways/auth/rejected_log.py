"""Log refused callers without flooding the log."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from urllib.parse import unquote

from jobexec import clock
from jobexec.exceptions import TooManyRequests
from jobexec.models import GatewayClient

from .audit import logger
from .limits import Buckets

_EVERY = 10.0  # seconds between two log lines
_EVERY_CLIENT = 600.0  # seconds between two log lines about the same client


def address_of(peer: str) -> str:
    """Normalise an address or a gRPC peer: without the port, and for IPv6 the /64 network, which one machine owns."""
    kind, colon, rest = peer.partition(":")
    text = unquote(rest).rpartition(":")[0].strip("[]") if colon and kind in ("ipv4", "ipv6") else peer
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return text[:200]
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped else f"{IPv6Address(int(address) >> 64 << 64)}/64"
    return str(address)


class RejectionSummary:
    """Logs the first refusal immediately and later ones in summary, at most one line every ten seconds.

    Thread-safe. The caller controls the text of the line except its length, so the text is logged with repr().
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next, self._silent = 0.0, 0

    def tell(self, whence: str, why: object) -> None:
        """Record the refusal of a caller at the address ``whence``."""
        now = clock.monotonic()
        with self._lock:
            if now < self._next:
                self._silent += 1
                return
            self._next, others, self._silent = now + _EVERY, self._silent, 0
        more = f" ({others} more since the last message)" if others else ""
        logger.warning("Rejected a request from %r%s: %s", whence[:200], more, why)


rejections = RejectionSummary()


class RefusedClients:
    """Logs disabled and expired clients, each at most once in ten minutes."""

    def __init__(self) -> None:
        self._next: dict[int, float] = {}

    def tell(self, row: GatewayClient, why: str) -> None:
        now = clock.monotonic()
        if now >= self._next.get(row.pk, 0.0):
            self._next[row.pk] = now + _EVERY_CLIENT
            logger.warning("Rejected a request of the client %r: it %s.", row.name, why)


refused_client = RefusedClients()

#: Wrong secrets per second that are accepted for checking from one address: each costs a query.
GUESSES = 20
_guesses = Buckets()


@dataclass(frozen=True, slots=True)
class FailedAttempts:
    """Guessed secrets from an address; for a known client the address is None and nothing is counted."""

    address: str | None

    def check(self) -> None:
        """Raise TooManyRequests while too many guesses were wrong."""
        wait = 0.0 if self.address is None else _guesses.missing(self.address, GUESSES)
        if wait:
            raise TooManyRequests("Too many wrong secrets were tried.", retry_after=wait)

    def count(self) -> None:
        """Count a wrong guess."""
        if self.address is not None:
            _guesses.take(self.address, GUESSES)
