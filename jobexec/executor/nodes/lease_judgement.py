"""When a node may declare others dead: not if it was itself cut off from the database, as they perhaps were."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from jobexec import clock

#: A heartbeat is in time until this many intervals after the previous one.
_IN_TIME = 1.5


class LeaseJudgement:
    """Whether each heartbeat of a whole lease came in time.

    An expired lease means that its node is dead only if the node could have renewed it. After an outage of the database
    no node could, and the first one back must give the others the duration of a lease to come back. The same after a
    step of the database's clock, which makes valid leases look expired. So a node begins to judge when it has been well
    for the whole duration of a lease, and a heartbeat that fails, comes late (the statement may have waited for the
    database as long) or finds that the time has jumped restarts that period. Seconds, by the monotonic clock.
    """

    def __init__(self, lease_time: float, interval: float) -> None:
        self._lease_time = lease_time
        self._in_time = _IN_TIME * interval
        # A quarter: two steps within one interval leave a lease that was just renewed with half of its time.
        self._step = lease_time / 4
        self._since = math.inf
        self._last = -math.inf

    def allowed(self) -> bool:
        now = clock.monotonic()
        return now - self._since >= self._lease_time and now - self._last <= self._in_time

    def begin(self) -> None:
        """A boot begins: this is its first heartbeat."""
        self._since = self._last = clock.monotonic()

    def beat(self, step: float) -> None:
        """A heartbeat succeeded; ``step`` is the difference between the database's time and the expected one."""
        now = clock.monotonic()
        if self._since == math.inf or now - self._last > self._in_time or step > self._step:
            self._since = now
        self._last = now

    @contextmanager
    def unless_it_fails(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._since = math.inf
            raise
