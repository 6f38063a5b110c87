"""The interface of waiting strategies: pure functions of the results of the last acquisition rounds."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one acquisition round; all that a strategy sees.

    ``requested`` jobs were asked for, ``found`` were there (including those that could not be locked), ``batches`` of
    them were submitted to the pool, ``lock_failures`` went to other nodes. ``requested`` 0 means that the pool had no
    room. ``woken``: a wake-up arrived meanwhile. ``listening``: notifications arrive, so polling is only the safety
    net. ``elapsed``: duration of the round in seconds. ``load``: the share of threads that are busy. ``jitter``: a
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
    """How many jobs to ask for, and how long to wait after a round. Stateless, and without a clock."""

    #: Whether the end of a batch counts as a wake-up.
    hinted_by_batches: ClassVar[bool]

    def start(self) -> Any:
        """The state before the first round."""
        ...

    def page(self, state: Any, base: int) -> int:
        """How many jobs to ask for, where ``base`` is MAX_JOBS_PER_ACQUISITION."""
        ...

    def step(self, state: Any, round: Round) -> tuple[Any, float]:
        """The state after a round, and the seconds to wait before the next."""
        ...


class Waiting:
    """A strategy in use by a loop: its state, and whether the loop was woken up since the last round."""

    def __init__(self, strategy: Strategy, jitter: Callable[[], float] = random.random) -> None:
        self._strategy, self.jitter = strategy, jitter
        self._state = strategy.start()
        self._woken = False

    @property
    def hinted_by_batches(self) -> bool:
        """Whether :meth:`batch_ended` has any effect."""
        return self._strategy.hinted_by_batches

    def wake(self) -> None:
        """There is work. Called from any thread."""
        self._woken = True

    def batch_ended(self) -> None:
        """A thread has finished a batch. Ends no wait, but may count in the next round."""
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
