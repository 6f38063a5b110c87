"""Who is not let in is written down, but not so often that the log is flooded with it."""

from __future__ import annotations

import threading

from jobexec import clock

from .audit import logger

_EVERY = 10.0  # seconds between two lines


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
