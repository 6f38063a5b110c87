"""Ratchet's adaptive polling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from .base import Round

_ABSOLUTE_MIN, _FLOOR = 0.05, 0.1
_WINDOW = 10
_SOON_DEEP = 30.0


class PollingState(NamedTuple):
    """The results of the last rounds. ``window`` holds the filled share of each page; ``idle_time`` is the total wait
    in seconds since the last job."""

    window: tuple[float, ...] = ()
    full_pages: int = 0
    empty_pages: int = 0
    idle_time: float = 0.0
    burst: bool = False


@dataclass(frozen=True, slots=True)
class AdaptivePolling:
    """Polls sooner the more jobs there are and the busier the threads are; with Ratchet's defaults, in seconds.

    - *Burst*: a wake-up sets the wait to ``burst_delay`` until ``idle_threshold`` rounds in a row were empty.
    - *Full pages*: a quarter of ``min_delay`` after three in a row, half of it after one.
    - *Rolling window*: half of ``min_delay`` while the last ten pages were more than 80 % full on average, twice
      ``min_delay`` below 20 %.
    - *Empty pages*: each doubles the wait, up to ``max_delay``; after half a minute without a job it triples it.
    - *Deep idle*: ``deep_idle_delay`` after ``deep_idle_threshold`` without a job, until the next wake-up or job.
    - *Load factor*: the wait is divided by 0.5 + 1.5 times the share of busy threads. (Ratchet's guide says that load
      slows polling down; its code speeds it up, and so does this one: busy threads will soon be free.)
    """

    min_delay: float = 2.0
    max_delay: float = 10.0
    burst_delay: float = 0.5
    deep_idle_delay: float = 30.0
    deep_idle_threshold: float = 60.0
    idle_threshold: int = 3

    hinted_by_batches: ClassVar[bool] = False

    def start(self) -> PollingState:
        return PollingState()

    def page(self, state: PollingState, base: int) -> int:
        return base

    def step(self, state: PollingState, round: Round) -> tuple[PollingState, float]:
        if not round.requested:
            return state, self.max_delay  # the pool wakes us when there is room
        state = self._next(state, round)
        wait = self._wait(state)
        return state._replace(idle_time=state.idle_time + wait if state.empty_pages else 0.0), self._loaded(wait, round)

    def _next(self, state: PollingState, round: Round) -> PollingState:
        window = (*state.window[1 - _WINDOW :], min(1.0, round.found / round.requested))
        burst = round.woken or state.burst
        if round.found:
            full = state.full_pages + 1 if round.found >= round.requested else 0
            return PollingState(window, full, 0, 0.0, burst)
        if round.woken:
            return PollingState(window, 0, 1, 0.0, True)
        empty = state.empty_pages + 1
        return PollingState(window, 0, empty, state.idle_time, burst and empty < self.idle_threshold)

    def _wait(self, state: PollingState) -> float:
        if state.burst:
            return self.burst_delay
        if state.empty_pages:
            return self._idle(state)
        if state.full_pages:
            return self.min_delay / (4 if state.full_pages >= 3 else 2)
        filled = sum(state.window) / len(state.window)
        if filled > 0.8:
            return self.min_delay / 2
        return min(self.max_delay, self.min_delay * 2) if filled < 0.2 else self.min_delay

    def _idle(self, state: PollingState) -> float:
        if state.idle_time >= self.deep_idle_threshold:
            return self.deep_idle_delay
        soon_deep = state.idle_time >= _SOON_DEEP and state.empty_pages >= self.idle_threshold / 2
        return float(min(self.max_delay, self.min_delay * (3 if soon_deep else 2) ** min(state.empty_pages, 30)))

    def _loaded(self, wait: float, round: Round) -> float:
        lowest = _ABSOLUTE_MIN if round.found >= round.requested else _FLOOR
        longest = max(wait, self.max_delay)  # idle threads must not stretch a wait that is already the longest
        return max(lowest, min(longest, wait / (0.5 + 1.5 * round.load)))
