"""What all meters have come to, for who asks again and again."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import datetime

from jobexec import clock

from ..sql.time_buckets import floor
from .meter_roll_up import KEPT_APART, SLOT
from .meters import totals


class MeterTotals:
    """Sums of all meters of one engine since the beginning. Of what is older than two hours each row is read once.

    That is possible because such rows are merged and never changed: no node writes any, and none moves out of its
    quarter of an hour but to the beginning.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._lock = threading.Lock()
        self._old: Counter[tuple[str, str]] = Counter()
        self._until: datetime | None = None

    def read(self) -> Counter[tuple[str, str]]:
        """By name and key of a meter; none is ever less than it was the last time."""
        until = floor(clock.now(self._using) - KEPT_APART, SLOT)
        with self._lock:
            if self._until is None or until > self._until:
                grown = totals(self._using, since=self._until, until=until)
                self._old, self._until = self._old + Counter(grown), until
            return self._old + Counter(totals(self._using, since=self._until))
