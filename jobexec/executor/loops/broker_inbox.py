"""Jobs that the broker delivered and this node has not settled: from the receiving thread to the locking one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from jobexec import clock
from jobexec.broker.message import HIGH, LOW, NORMAL

#: How often a job that could not be locked is tried, with a pause that doubles; then it is left to the slow poll.
TRIES = 6
_PAUSE = 0.05  # seconds


@dataclass(eq=False)
class Delivery:
    """One message: acknowledged when each of its jobs is settled, and requeued if one of them never was."""

    message: Any
    open: int
    #: The connection that delivered it.
    generation: int
    given_back: bool = False


@dataclass(eq=False)
class Entry:
    """One job of a message."""

    id: UUID
    level: int
    delivery: Delivery
    tries: int = 0
    not_before: float = field(default=0.0)


class Inbox:
    """The jobs of the delivered messages, by descending importance and then in order of arrival."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, deque[Entry]] = {level: deque() for level in (HIGH, NORMAL, LOW)}
        self._later: list[Entry] = []
        self._settled: list[Delivery] = []
        self._unsettled = self._generation = 0
        #: When a full pool was first found while jobs waited here; None while there is room.
        self.stuck_since: float | None = None

    def __len__(self) -> int:
        """How many jobs wait to be locked, now or after a pause."""
        return sum(map(len, self._waiting.values())) + len(self._later)

    @property
    def ready(self) -> int:
        """How many can be tried now."""
        now = clock.monotonic()
        return sum(map(len, self._waiting.values())) + sum(each.not_before <= now for each in self._later)

    def pause(self) -> float | None:
        """Seconds until a job can be tried: 0 for now, None if none waits."""
        with self._lock:
            if any(self._waiting.values()):
                return 0.0
            first = min((each.not_before for each in self._later), default=None)
            return None if first is None else max(0.0, first - clock.monotonic())

    # Called by the receiving thread.

    def add(self, message: Any, ids: Sequence[UUID], level: int) -> None:
        """A message was delivered; one without ids is settled at once."""
        with self._lock:
            delivery = Delivery(message, len(ids), self._generation)
            self._unsettled += 1
            self._waiting[level].extend(Entry(id, level, delivery) for id in ids)
            if not ids:
                self._settle(delivery)

    def settled(self) -> list[Delivery]:
        """The messages settled since the last call, to be acknowledged or requeued."""
        with self._lock:
            found, self._settled = self._settled, []
            return found

    @property
    def unsettled(self) -> int:
        """How many delivered messages have been neither acknowledged nor requeued."""
        return self._unsettled + len(self._settled)

    def give_back(self) -> None:
        """Give up all jobs that are not just being locked, so that the broker delivers them to other nodes."""
        with self._lock:
            entries = [*self._later, *(entry for queue in self._waiting.values() for entry in queue)]
            self._later = []
            for queue in self._waiting.values():
                queue.clear()
            self.stuck_since = None
            for entry in entries:
                entry.delivery.given_back = True
                self._close(entry)

    def forget(self) -> None:
        """The connection is gone, and with it the right to acknowledge; the broker will deliver everything again."""
        with self._lock:
            for queue in (self._later, *self._waiting.values()):
                queue.clear()
            self._settled, self._unsettled, self.stuck_since = [], 0, None
            self._generation += 1

    # Called by the locking thread.

    def take(self, most: int) -> list[Entry]:
        """Up to ``most`` jobs to try now; each comes back through :meth:`done` or :meth:`again`."""
        now = clock.monotonic()
        with self._lock:
            for entry in [each for each in self._later if each.not_before <= now]:
                self._later.remove(entry)
                self._waiting[entry.level].append(entry)
            taken: list[Entry] = []
            for queue in self._waiting.values():
                while queue and len(taken) < most:
                    taken.append(queue.popleft())
            self.stuck_since = None
            return taken

    def done(self, entries: Iterable[Entry]) -> None:
        """These jobs are locked, or not for this node."""
        with self._lock:
            for entry in entries:
                self._close(entry)

    def again(self, entries: Collection[Entry], *, costs: bool) -> None:
        """These jobs could not be locked yet; after TRIES they are left to the slow poll. ``costs``: count this try."""
        with self._lock:
            for entry in entries:
                entry.tries += costs
                if entry.tries >= TRIES:
                    self._close(entry)
                elif costs:
                    entry.not_before = clock.monotonic() + _PAUSE * 2**entry.tries
                    self._later.append(entry)
                else:
                    self._waiting[entry.level].appendleft(entry)

    def stuck(self) -> None:
        """The pool has no room for the jobs that wait here."""
        if self.stuck_since is None:
            self.stuck_since = clock.monotonic()

    def _close(self, entry: Entry) -> None:
        entry.delivery.open -= 1
        if not entry.delivery.open:
            self._settle(entry.delivery)

    def _settle(self, delivery: Delivery) -> None:
        if delivery.generation == self._generation:
            self._unsettled -= 1
            self._settled.append(delivery)
