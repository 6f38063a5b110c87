"""What the broker has delivered and this node has not settled: between the thread that hears and the one that locks."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from jobexec import clock
from jobexec.broker.message import HIGH, LOW, NORMAL

#: So often a job that could not be had is tried again, after a pause that doubles; then it is left to the slow poll.
TRIES = 6
_PAUSE = 0.05  # seconds


@dataclass(eq=False)
class Delivery:
    """One message. It is acknowledged when each of its jobs is settled, and given back if one of them never was."""

    message: Any
    open: int
    #: Which connection it came by.
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
    """The jobs of the messages that were delivered, more important ones first, else in the order of their arrival."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, deque[Entry]] = {level: deque() for level in (HIGH, NORMAL, LOW)}
        self._later: list[Entry] = []
        self._settled: list[Delivery] = []
        self._unsettled = self._generation = 0
        #: When a full pool was first found while jobs waited here; None while there is room.
        self.stuck_since: float | None = None
        #: Jobs that were left to the slow poll.
        self.given_up = 0

    def __len__(self) -> int:
        """How many jobs wait to be locked, now or after a pause."""
        return sum(map(len, self._waiting.values())) + len(self._later)

    @property
    def ready(self) -> int:
        """How many can be tried now."""
        now = clock.monotonic()
        return sum(map(len, self._waiting.values())) + sum(each.not_before <= now for each in self._later)

    def pause(self) -> float | None:
        """After how many seconds something can be tried: 0 is now, None that nothing waits."""
        with self._lock:
            if any(self._waiting.values()):
                return 0.0
            first = min((each.not_before for each in self._later), default=None)
            return None if first is None else max(0.0, first - clock.monotonic())

    # The thread that hears.

    def add(self, message: Any, ids: Sequence[UUID], level: int) -> None:
        """A message was delivered; one without ids is settled at once."""
        with self._lock:
            delivery = Delivery(message, len(ids), self._generation)
            self._unsettled += 1
            self._waiting[level].extend(Entry(id, level, delivery) for id in ids)
            if not ids:
                self._settle(delivery)

    def settled(self) -> list[Delivery]:
        """The messages that are done with since this was last asked: to be acknowledged, or given back."""
        with self._lock:
            found, self._settled = self._settled, []
            return found

    @property
    def unsettled(self) -> int:
        """How many messages the broker has delivered and we have not said anything about."""
        return self._unsettled + len(self._settled)

    def give_back(self) -> None:
        """Let go of whatever is not just being locked; the broker gives it to others."""
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
        """The connection is gone, and with it the right to acknowledge; the broker will deliver all that anew."""
        with self._lock:
            for queue in (self._later, *self._waiting.values()):
                queue.clear()
            self._settled, self._unsettled, self.stuck_since = [], 0, None
            self._generation += 1

    # The thread that locks.

    def take(self, most: int) -> list[Entry]:
        """Up to so many jobs to be tried now; each comes back through :meth:`done` or :meth:`again`."""
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
        """These are locked, or not ours."""
        with self._lock:
            for entry in entries:
                self._close(entry)

    def again(self, entries: Collection[Entry], *, costs: bool) -> None:
        """These could not be had yet. What is tried too often is left to the slow poll; ``costs``: this was a try."""
        with self._lock:
            for entry in entries:
                entry.tries += costs
                if entry.tries >= TRIES:
                    self.given_up += 1
                    self._close(entry)
                elif costs:
                    entry.not_before = clock.monotonic() + _PAUSE * 2**entry.tries
                    self._later.append(entry)
                else:
                    self._waiting[entry.level].appendleft(entry)

    def stuck(self) -> None:
        """The pool has no room for what waits here."""
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
