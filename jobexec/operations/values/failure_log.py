"""Which lines about single jobs are logged: in a storm, one line a minute for each group."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from jobexec import clock

_EACH = 10
_SECONDS = 60.0
_GROUPS = 1_000


@dataclass(slots=True)
class _Minute:
    """The failures of a group in a minute, which ends at ``end`` by the monotonic clock."""

    end: float
    count: int
    #: Logs the last one that was left out, with the number of the others.
    last: Callable[[int], None] | None = None


class FailureLog:
    """Decides which failures are logged, by their group: ten in a minute one by one, further ones as a number.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[str, _Minute] = {}

    def skipped(self, group: str, last: Callable[[int], None] | None = None) -> int | None:
        """How many failures of the group were not logged since its last line; None not to log this one either.

        Then ``last`` is called if it remains the last one.
        """
        now = clock.monotonic()
        with self._lock:
            minute = self._groups.pop(group, None) or _Minute(0.0, 0)
            skipped = 0
            if now >= minute.end:
                skipped = max(minute.count - _EACH, 0)
                # While the storm lasts, its minute has one line.
                minute = _Minute(now + _SECONDS, _EACH - 1 if skipped else 0)
            if len(self._groups) >= _GROUPS:
                del self._groups[next(iter(self._groups))]
            self._groups[group] = minute
            minute.count += 1
            if minute.count <= _EACH:
                return skipped
            minute.last = last
            return None

    def log(self, logger: logging.Logger, level: int, group: str, text: str, *args: object, **more: Any) -> None:
        """Log a line of this group, at the level DEBUG if it is one too many; ``more`` is for ``Logger.log()``.

        The group consists of what happened and the handler type, or is the fingerprint of a failure.
        """

        if more.get("exc_info") is True:
            more["exc_info"] = sys.exception()  # it may be written later

        def write(skipped: int) -> None:
            left_out = f" ({skipped:,} more of this group not logged)" if skipped else ""
            logger.log(level, f"{text}%s", *args, left_out, stacklevel=3, **more)

        skipped = self.skipped(group, write)
        if skipped is None:
            logger.debug(f"{text}%s", *args, "", stacklevel=2, **more)
        else:
            write(skipped)

    def finish(self, *, now: bool = False) -> None:
        """Log the last failure of each group that left some out in a minute that is over, or with ``now`` in any.

        A storm that has ended would otherwise leave no trace of most of its failures. Until it has, this is the one
        line of each minute.
        """
        moment = clock.monotonic()
        with self._lock:
            over = [group for group, minute in self._groups.items() if now or minute.end <= moment]
            ended = {group: self._groups.pop(group) for group in over}
            for group, minute in ended.items():
                if minute.last is not None and not now:
                    self._groups[group] = _Minute(moment + _SECONDS, _EACH)
        for minute in ended.values():
            if minute.last is not None:
                with suppress(Exception):  # a project's logging filter
                    minute.last(minute.count - _EACH - 1)

    def forget(self) -> None:
        """Log the next failure of each group, as after a start."""
        with self._lock:
            self._groups.clear()


failure_log = FailureLog()
