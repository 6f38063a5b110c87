"""The totals of all meters, for frequent queries."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import datetime

from jobexec import clock

from ..sql.time_buckets import floor
from .meter_roll_up import KEPT_APART, SLOT
from .meters import totals


class MeterTotals:
    """Totals of all meters of an engine since the beginning. Rows older than two hours are read only once.

    This is possible because such rows are merged but never changed otherwise: no node writes more of them, and a row
    only ever moves out of its quarter of an hour to the beginning.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._lock = threading.Lock()
        self._old: Counter[tuple[str, str]] = Counter()
        self._until: datetime | None = None

    def read(self) -> Counter[tuple[str, str]]:
        """The totals by name and key; they never decrease between calls."""
        until = floor(clock.now(self._using) - KEPT_APART, SLOT)
        with self._lock:
            if self._until is None or until > self._until:
                grown = totals(self._using, since=self._until, until=until)
                self._old, self._until = self._old + Counter(grown), until
            return self._old + Counter(totals(self._using, since=self._until))
