"""Which lines about single jobs are logged: in a storm, one line a minute for each group."""

from __future__ import annotations

import logging
import threading
from typing import Any

from jobexec import clock

_EACH = 10
_SECONDS = 60.0
_GROUPS = 1_000


class FailureLog:
    """Decides which failures are logged, by their group: ten in a minute one by one, further ones as a number.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: For each group the end of its minute, and how many failures it had in it.
        self._groups: dict[str, tuple[float, int]] = {}

    def skipped(self, group: str) -> int | None:
        """How many failures of the group were not logged since its last line; None not to log this one either."""
        now = clock.monotonic()
        with self._lock:
            end, count = self._groups.pop(group, (0.0, 0))
            skipped = 0
            if now >= end:
                skipped, end = max(count - _EACH, 0), now + _SECONDS
                count = _EACH - 1 if skipped else 0  # while the storm lasts, its minute has one line
            if len(self._groups) >= _GROUPS:
                del self._groups[next(iter(self._groups))]
            self._groups[group] = end, count + 1
            return skipped if count < _EACH else None

    def log(self, logger: logging.Logger, level: int, group: str, text: str, *args: object, **more: Any) -> None:
        """Log a line of this group, at the level DEBUG if it is one too many; ``more`` is for ``Logger.log()``.

        The group consists of what happened and the handler type, or is the fingerprint of a failure.
        """
        skipped = self.skipped(group)
        left_out = f" ({skipped:,} more of this group not logged)" if skipped else ""
        found = logging.DEBUG if skipped is None else level
        logger.log(found, f"{text}%s", *args, left_out, stacklevel=2, **more)

    def forget(self) -> None:
        """Log the next failure of each group, as after a start."""
        with self._lock:
            self._groups.clear()


failure_log = FailureLog()
