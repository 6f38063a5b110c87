"""Limits the number of jobs of each tenant that a node runs at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from jobexec.operations.values.acquired_job import AcquiredJob
from jobexec.operations.values.tenant_room import TenantRoom


class Tenants:
    """Computes before each page how much room tenants have, and wakes the acquisition when a full one has some again.

    Jobs in hand are counted each time, and the count is not kept: a wrong count would shut a tenant out, or let too
    many jobs in, for the life of the process.
    """

    def __init__(
        self,
        using: str,
        concurrency: Mapping[str, int],
        in_hand: Callable[[], Iterable[AcquiredJob]],
        wake: Callable[[], None],
    ) -> None:
        self._using, self._concurrency, self._in_hand, self._wake = using, concurrency, in_hand, wake
        self._full: frozenset[str] = frozenset()
        self._left: set[str] = set()

    def room(self) -> TenantRoom:
        """How much room each tenant has; called by the one acquiring thread."""
        self._left.clear()
        count = Counter(job.tenant_id for job in self._in_hand() if job.using == self._using)
        return TenantRoom(self._concurrency, count)

    def acquired(self, room: TenantRoom, jobs: Iterable[AcquiredJob]) -> None:
        """These jobs are in hand now, too; remember which tenants they fill."""
        count = Counter(room.in_hand)
        count.update(job.tenant_id for job in jobs)
        self._full = frozenset(TenantRoom(self._concurrency, count).full())
        # In this order: left() records its tenants first, and then checks the full ones. One of the two sees the other.
        if not self._full.isdisjoint(self._left.copy()):
            self._wake()

    def left(self, jobs: Iterable[AcquiredJob]) -> None:
        """These jobs are no longer in hand; called from any thread."""
        tenants = {job.tenant_id for job in jobs}
        self._left.update(tenants)
        if not self._full.isdisjoint(tenants):
            self._wake()
