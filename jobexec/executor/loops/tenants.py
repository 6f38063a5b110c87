"""Keeps a node to so many jobs of each tenant at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from jobexec.operations.values.acquired_job import AcquiredJob
from jobexec.operations.values.tenant_room import TenantRoom


class Tenants:
    """Says before each page how much room tenants have, and wakes the acquisition when one that was full has some.

    What is in hand is counted anew each time, and not kept: a count that has once gone wrong would shut a tenant out,
    or let too much in, for the life of the process.
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
        """How much room there is; asked by the one thread that acquires."""
        self._left.clear()
        count = Counter(job.tenant_id for job in self._in_hand() if job.using == self._using)
        return TenantRoom(self._concurrency, count)

    def acquired(self, room: TenantRoom, jobs: Iterable[AcquiredJob]) -> None:
        """These are in hand now, too; whose last job was that?"""
        count = Counter(room.in_hand)
        count.update(job.tenant_id for job in jobs)
        self._full = frozenset(TenantRoom(self._concurrency, count).full())
        # In this order: who leaves says so first, and then looks who is full. One of the two sees the other.
        if not self._full.isdisjoint(self._left.copy()):
            self._wake()

    def left(self, jobs: Iterable[AcquiredJob]) -> None:
        """These are no longer in hand; any thread may say so."""
        tenants = {job.tenant_id for job in jobs}
        self._left.update(tenants)
        if not self._full.isdisjoint(tenants):
            self._wake()
