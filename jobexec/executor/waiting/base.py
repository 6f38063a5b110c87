"""What a waiting strategy is: pure functions of what the last rounds of acquisition brought."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol


@dataclass(frozen=True, slots=True)
class Round:
    """What one round of acquisition brought; all that a strategy sees.

    ``requested`` jobs were asked for, ``found`` were there (also those that could not be locked), ``batches`` of them
    were handed to the pool, ``lock_failures`` went to other nodes. ``requested`` 0 says that the pool had no room.
    ``woken``: somebody said meanwhile that there is work. ``listening``: notifications arrive, so polling is only the
    net below. ``elapsed``: seconds that the round took. ``load``: the share of threads that are busy. ``jitter``: a
    random number from 0 to 1.
    """

    requested: int
    found: int = 0
    batches: int = 0
    lock_failures: int = 0
    woken: bool = False
    listening: bool = False
    elapsed: float = 0.0
    load: float = 0.0
    jitter: float = 0.0


class Strategy(Protocol):
    """How many jobs to ask for, and how long to wait after a round. Has no state of its own and knows no clock."""

    #: Whether the end of a batch counts as word that there is work.
    hinted_by_batches: ClassVar[bool]

    def start(self) -> Any:
        """The state before the first round."""
        ...

    def page(self, state: Any, base: int) -> int:
        """How many jobs to ask for, where ``base`` is MAX_JOBS_PER_ACQUISITION."""
        ...

    def step(self, state: Any, round: Round) -> tuple[Any, float]:
        """The state after a round, and the seconds to wait for the next."""
        ...


class Waiting:
    """A strategy at work in a loop: its state, and whether somebody has woken the loop since the last round."""

    def __init__(self, strategy: Strategy, jitter: Callable[[], float] = random.random) -> None:
        self._strategy, self.jitter = strategy, jitter
        self._state = strategy.start()
        self._woken = False

    @property
    def hinted_by_batches(self) -> bool:
        """Whether :meth:`batch_ended` makes a difference."""
        return self._strategy.hinted_by_batches

    def wake(self) -> None:
        """Somebody says that there is work. Called by any thread."""
        self._woken = True

    def batch_ended(self) -> None:
        """A thread has run a batch to its end. Ends no wait, but may count in the next round."""
        if self._strategy.hinted_by_batches:
            self._woken = True

    def page(self, base: int) -> int:
        """How many jobs to ask for now."""
        return self._strategy.page(self._state, base)

    def after(self, round: Round) -> float:
        """Seconds to wait after this round."""
        woken, self._woken = self._woken, False
        self._state, seconds = self._strategy.step(self._state, replace(round, woken=woken, jitter=self.jitter()))
        return seconds
