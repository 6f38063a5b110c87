"""The position of acquisition, so that a page does not scan again what the last one could not take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from jobexec import clock

from ..values.acquired_job import AcquiredJob

#: Scans from the head of the order may take a tenth of the time.
_SHARE = 10.0
#: Seconds below which the cost of a scan is negligible.
_DEAR = 0.02
#: Seconds as which the first page of a loop counts at most.
_FIRST = 0.1


class Position(NamedTuple):
    """A position in the acquisition order: behind this rank and id."""

    rank: int
    id: UUID


class AcquisitionCursor:
    """The position of one loop in the acquisition order.

    The head of the order may contain rows that cannot be taken: those of deleted jobs, as long as a transaction open
    elsewhere keeps them from being vacuumed, and siblings that wait for a locked process instance. So after a full page
    the next one starts where that one ended, and at the head again once the time since the last start there is ten
    times what that page took. After a page that was not full the next one starts at the head at once, unless the head
    is known to be expensive. Jobs that are inserted further ahead wait until then. Not thread-safe.
    """

    def __init__(self) -> None:
        self._position: Position | None = None
        self._head_at = self._head_cost = self._began = 0.0
        self._last_cost = _FIRST
        #: Whether more jobs may follow the last page.
        self.full = False
        self._at_head = True
        #: The number of further pages for which the single statement is not tried.
        self.not_plain = 0
        #: The number of jobs that, with their siblings, filled the last page, or for which their tenants had room on
        #: it; None otherwise.
        self.heads: int | None = None

    def begin(self) -> Position | None:
        """Return the position at which the next page starts; None is the head."""
        self._began = clock.monotonic()
        goes_on = self.full or self._head_cost >= _DEAR
        if not goes_on or self._began - self._head_at >= _SHARE * self._head_cost:
            self._position = None
        self._at_head = self._position is None
        return self._position

    def unseen(self) -> float | None:
        """Return the seconds until the head must be checked, if the last page began behind it and reached the end.

        Jobs inserted ahead of that page may have been announced before it, and would not be announced again.
        """
        if self.full or self._at_head:
            return None
        if self._head_cost < _DEAR:
            return 0.0
        return max(0.0, self._head_at + _SHARE * self._head_cost - clock.monotonic())

    def ended(self, jobs: Sequence[AcquiredJob], *, full: bool) -> None:
        """Record that a page scanned these jobs, in order; ``full``: more may follow them."""
        self.full = full
        if self._position is None:
            self._head_at = clock.monotonic()
            cost = self._head_at - self._began
            self._head_cost, self._last_cost = min(cost, self._last_cost), cost
        if jobs:
            self._position = Position(jobs[-1].rank, jobs[-1].id)
