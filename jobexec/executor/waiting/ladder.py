"""The default: no wait while there is work, and longer and longer waits while there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from .base import Round


class LadderState(NamedTuple):
    """How many rounds in a row found nothing, and how many lost a row to another node."""

    idle: int = 0
    backoff: int = 0


@dataclass(frozen=True, slots=True)
class Ladder:
    """An idle ladder, and a backoff with jitter after lock failures. All values but ``factor`` are seconds.

    The ladder starts at ``wait_time`` and grows by ``factor`` up to ``max_wait`` (``max_wait_when_listening`` where
    notifications arrive) with each round that found nothing; a full page means that there is more, and does not wait.
    Lock failures start a separate backoff, which one clean round ends: with SKIP LOCKED there are almost none.
    """

    wait_time: float = 0.1
    factor: float = 2.0
    max_wait: float = 5.0
    max_wait_when_listening: float = 30.0
    backoff_time: float = 0.03
    max_backoff: float = 0.5

    hinted_by_batches: ClassVar[bool] = False

    def start(self) -> LadderState:
        return LadderState()

    def page(self, state: LadderState, base: int) -> int:
        return base

    def step(self, state: LadderState, round: Round) -> tuple[LadderState, float]:
        if not round.requested:
            return state, self._longest(round)  # the pool wakes us when there is room
        idle = 0 if round.woken else state.idle
        state = LadderState(0 if round.found else idle + 1, state.backoff + 1 if round.lock_failures else 0)
        if round.lock_failures and self.backoff_time:
            return state, min(self.max_backoff, self._grown(self.backoff_time, state.backoff)) * (1 + round.jitter / 2)
        if round.found >= round.requested:
            return state, 0.0
        return state, min(self._longest(round), self._grown(self.wait_time, max(1, state.idle)))

    def _longest(self, round: Round) -> float:
        return self.max_wait_when_listening if round.listening else self.max_wait

    def _grown(self, first: float, level: int) -> float:
        return float(first * self.factor ** min(level - 1, 60))
