"""How long to wait after a round of acquisition: a pure function of what the last rounds brought."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Waiting:
    """Camunda's waiting: an idle ladder, and a back-off with jitter after lock failures.

    Waits are seconds. The idle ladder starts at ``wait_time`` and grows by ``factor`` up to ``max_wait`` with each
    round that found nothing; a full page means more is there and waits for nothing. Lock failures (another node was
    faster) start a back-off of their own, which one clean round ends: with SKIP LOCKED there are next to none.
    """

    wait_time: float
    factor: float
    max_wait: float
    backoff_time: float
    max_backoff: float
    jitter: Callable[[], float] = random.random
    idle_level: int = 0
    backoff_level: int = 0

    def after(self, *, found: int, requested: int, lock_failures: int = 0, max_wait: float | None = None) -> float:
        """Seconds to wait after a round that asked for ``requested`` jobs and found ``found``."""
        self.backoff_level = self.backoff_level + 1 if lock_failures else 0
        self.idle_level = 0 if found else self.idle_level + 1
        if lock_failures and self.backoff_time:
            wait = min(self.max_backoff, self._grown(self.backoff_time, self.backoff_level))
            return wait * (1 + self.jitter() / 2)
        if found >= requested:
            return 0.0
        return min(max_wait or self.max_wait, self._grown(self.wait_time, max(1, self.idle_level)))

    def reset(self) -> None:
        """Somebody said that there are jobs: the idle ladder starts again at its foot."""
        self.idle_level = 0

    def _grown(self, first: float, level: int) -> float:
        return float(first * self.factor ** min(level - 1, 60))
