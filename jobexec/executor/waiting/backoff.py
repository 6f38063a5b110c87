"""Camunda's BackoffJobAcquisitionStrategy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from .base import Round


class BackoffState(NamedTuple):
    """The idle level, the backoff level, and the number of clean rounds in a row."""

    idle: int = 0
    backoff: int = 0
    clean: int = 0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Idle ladder, backoff and page growth as in Camunda 7, with its defaults. All times are seconds.

    - *Idle*: a round that returned less than requested, counted in batches (plus lock failures), raises the idle level;
      any other round or a wake-up resets it to 0, and so does the end of a batch since the last round (otherwise a
      trickle of jobs would count as idleness, and each would wait longer than the one before). The wait is
      ``wait_time`` at level 1 and grows by ``factor`` up to ``max_wait``.
    - *Backoff*: a round with a lock failure raises the backoff level, up to the one that waits ``max_backoff``; after
      ``decrease_threshold`` clean rounds in a row it goes down by one. ``backoff_time`` 0, Camunda's default, disables
      it. A round that has just had a lock failure adds up to half of the wait at random.
    - *Pages* grow with the backoff level by ``factor``: a node that asks less often asks for more, so its page overlaps
      less with those of others.
    - Idle takes precedence over backoff, backoff over *saturation* (the pool had no room: ``saturation_wait``), and the
      duration of the round itself is subtracted: the wait is a period.

    Camunda reduces the next page by the number of rejected batches. That has no counterpart here: jobs for which the
    pool has no room are never locked.
    """

    wait_time: float = 5.0
    factor: float = 2.0
    max_wait: float = 60.0
    backoff_time: float = 0.0
    max_backoff: float = 0.0
    decrease_threshold: int = 100
    saturation_wait: float = 0.1

    hinted_by_batches: ClassVar[bool] = True

    def start(self) -> BackoffState:
        return BackoffState()

    def page(self, state: BackoffState, base: int) -> int:
        return int(base * self.factor**state.backoff)

    def step(self, state: BackoffState, round: Round) -> tuple[BackoffState, float]:
        state = self._next(state, round)
        return state, max(0.0, self._wait(state, round) - round.elapsed)

    def _next(self, state: BackoffState, round: Round) -> BackoffState:
        idle, backoff, clean = state
        if not round.woken and round.requested and round.batches + round.lock_failures < round.requested:
            idle = min(idle + 1, _levels(self.wait_time, self.max_wait, self.factor))
        else:
            idle = 0
        if round.lock_failures:
            return BackoffState(idle, min(backoff + 1, _levels(self.backoff_time, self.max_backoff, self.factor)), 0)
        clean += 1
        if backoff and clean >= self.decrease_threshold:
            return BackoffState(idle, backoff - 1, 0)
        return BackoffState(idle, backoff, clean)

    def _wait(self, state: BackoffState, round: Round) -> float:
        if state.idle:
            return _at_level(state.idle, self.wait_time, self.max_wait, self.factor)
        if state.backoff:
            wait = _at_level(state.backoff, self.backoff_time, self.max_backoff, self.factor)
            return wait * (1 + round.jitter / 2) if round.lock_failures else wait
        return 0.0 if round.requested else self.saturation_wait


def _levels(first: float, longest: float, factor: float) -> int:
    """The number of levels from the first wait to the longest (Camunda divides whole milliseconds)."""
    if not first or longest < first:
        return 0
    if factor <= 1:
        return 1
    # Floating point must not lose slightly more than a whole power: log2(8) may be 2.9999.
    return int(math.log(int(longest / first + 1e-9), factor) + 1e-9) + 2


def _at_level(level: int, first: float, longest: float, factor: float) -> float:
    if level >= _levels(first, longest, factor) and factor > 1:
        return longest
    return float(min(longest, first * factor ** (level - 1)))
