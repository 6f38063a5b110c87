"""How many jobs to ask for and how long to wait: selected by the setting WAITING, one file for each strategy."""

from __future__ import annotations

from datetime import timedelta

from jobexec.conf import EngineSettings

from .backoff import Backoff
from .base import Round, Strategy, Waiting
from .ladder import Ladder
from .polling import AdaptivePolling

__all__ = ["AdaptivePolling", "Backoff", "Ladder", "Round", "Strategy", "Waiting", "strategy_of"]


def strategy_of(engine: EngineSettings) -> Strategy:
    """The waiting strategy selected by an engine's settings.

    ``auto`` is Camunda's backoff if the settings select ``optimistic`` acquisition, where nodes collide. Otherwise it
    is the ladder.
    """
    seconds = timedelta.total_seconds
    waiting = engine.waiting
    if waiting == "auto":
        waiting = "backoff" if engine.acquisition == "optimistic" else "ladder"
    if waiting == "backoff":
        return Backoff(
            wait_time=seconds(engine.wait_time),
            factor=engine.wait_increase_factor,
            max_wait=seconds(engine.max_wait),
            backoff_time=seconds(engine.backoff_time),
            max_backoff=seconds(engine.max_backoff),
            decrease_threshold=engine.backoff_decrease_threshold,
        )
    if waiting == "polling":
        return AdaptivePolling(
            min_delay=seconds(engine.wait_time),
            max_delay=seconds(engine.max_wait),
            burst_delay=seconds(engine.burst_wait),
            deep_idle_delay=seconds(engine.deep_idle_wait),
            deep_idle_threshold=seconds(engine.deep_idle_threshold),
            idle_threshold=engine.idle_threshold,
        )
    return Ladder(
        wait_time=seconds(engine.wait_time),
        factor=engine.wait_increase_factor,
        max_wait=seconds(engine.max_wait),
        max_wait_when_listening=seconds(engine.max_wait_when_listening),
        backoff_time=seconds(engine.backoff_time),
        max_backoff=seconds(engine.max_backoff),
    )
