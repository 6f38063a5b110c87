"""Who is not let in is written down, but not so often that the log is flooded with it."""

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

_EVERY = 10.0  # seconds between two lines
_EVERY_CLIENT = 600.0  # of the same client


def address_of(peer: str) -> str:
    """Where somebody is, from an address or from what gRPC calls a peer: without the port, and of IPv6 the network of
    64 bits, which one machine has for itself."""
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


class TurnedAway:
    """Tells of the first one at once, and of those after it together, at most one line in ten seconds.

    Safe for threads. A stranger chooses what stands in the line but for its length: it is written as in code.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next, self._silent = 0.0, 0

    def tell(self, whence: str, why: object) -> None:
        """Somebody from ``whence``, an address, was refused."""
        now = clock.monotonic()
        with self._lock:
            if now < self._next:
                self._silent += 1
                return
            self._next, others, self._silent = now + _EVERY, self._silent, 0
        more = f" ({others} more since the last time)" if others else ""
        logger.warning("Somebody at %r was turned away%s: %s", whence[:200], more, why)


turned_away = TurnedAway()


class RefusedClients:
    """Tells of a client that is disabled or has expired, once in ten minutes each."""

    def __init__(self) -> None:
        self._next: dict[int, float] = {}

    def tell(self, row: GatewayClient, why: str) -> None:
        now = clock.monotonic()
        if now >= self._next.get(row.pk, 0.0):
            self._next[row.pk] = now + _EVERY_CLIENT
            logger.warning("The client %r was refused: it %s.", row.name, why)


refused_client = RefusedClients()

#: Secrets that may be guessed from one address in a second: each costs a query.
GUESSES = 20
_guesses = Buckets()


@dataclass(frozen=True, slots=True)
class Guesses:
    """Those from an address; of None, where somebody is known, none is counted."""

    address: str | None

    def check(self) -> None:
        """Raises TooManyRequests while too many were wrong."""
        wait = 0.0 if self.address is None else _guesses.missing(self.address, GUESSES)
        if wait:
            raise TooManyRequests("Too many secrets are tried.", retry_after=wait)

    def count(self) -> None:
        """One was wrong."""
        if self.address is not None:
            _guesses.take(self.address, GUESSES)
