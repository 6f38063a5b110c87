"""Where acquisition goes on, so that a page does not walk again over what the last one could not take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from jobexec import clock

from ..values.acquired_job import AcquiredJob

#: Walks from the head of the order may take so much of the time: a tenth.
_SHARE = 10.0
#: Seconds: what takes less is no walk worth mentioning.
_DEAR = 0.02


class Position(NamedTuple):
    """A place in the order of acquisition: behind this rank and id."""

    rank: int
    id: UUID


class AcquisitionCursor:
    """The position of one loop in the order of acquisition.

    At the head of the order there may stand what nobody can take: the rows of deleted jobs, as long as a transaction
    held open elsewhere keeps them from being vacuumed, and the siblings that wait for a locked process instance. So
    after a full page the next one starts where that one ended, and at the head again as soon as the time since the last
    start there is ten times what that page took. After a page that was not full it starts at the head at once, unless
    the head is known to cost much. What comes to stand further in front meanwhile waits so long. Not to be shared
    between threads.
    """

    def __init__(self) -> None:
        self._position: Position | None = None
        self._head_at = self._head_cost = self._began = 0.0
        self._full = False
        self._at_head = True
        #: So many pages more are not even tried as plain ones.
        self.not_plain = 0
        #: So many jobs, with their siblings, filled the last page that had any, or were all of it for which their
        #: tenants had room; None otherwise.
        self.heads: int | None = None

    def begin(self) -> Position | None:
        """Where the next page starts; None is the head."""
        self._began = clock.monotonic()
        goes_on = self._full or self._head_cost >= _DEAR
        if not goes_on or self._began - self._head_at >= _SHARE * self._head_cost:
            self._position = None
        self._at_head = self._position is None
        return self._position

    def unseen(self) -> float | None:
        """After how many seconds to look at the head, if the last page came to the end and had not begun there.

        What came to stand in front meanwhile may have been announced before that page, and would not be again.
        """
        if self._full or self._at_head:
            return None
        if self._head_cost < _DEAR:
            return 0.0
        return max(0.0, self._head_at + _SHARE * self._head_cost - clock.monotonic())

    def ended(self, jobs: Sequence[AcquiredJob], *, full: bool) -> None:
        """These jobs, in order, were gone through; ``full``: more may follow them."""
        self._full = full
        if self._position is None:
            self._head_at = clock.monotonic()
            self._head_cost = self._head_at - self._began
        if jobs:
            self._position = Position(jobs[-1].rank, jobs[-1].id)
