"""The strategies of acquisition that the cluster case compares, as settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The jobs in a page of Camunda's article; back-off makes it grow to 48.
_PAGE, _GROWN_PAGE = 3, 48

#: What stays the same for all of them, whatever the project's settings say.
_COMMON: Mapping[str, Any] = {
    "max_jobs_per_acquisition": _PAGE,
    "waiting": "auto",
    "wait_time": 0.1,
    "wait_increase_factor": 2.0,
    "max_wait": 5,
    "backoff_decrease_threshold": 100,
    "priority_ageing": None,
}

#: By name: the settings that differ. The back-off is that of Camunda's article on clusters, 30 to 150 ms.
STRATEGIES: Mapping[str, Mapping[str, Any]] = {
    "skip_locked": {"acquisition": "skip_locked"},
    "optimistic": {"acquisition": "optimistic", "backoff_time": 0.03, "max_backoff": 0.15},
    "optimistic-no-backoff": {"acquisition": "optimistic", "backoff_time": 0, "max_backoff": 0},
    # A node that has had the lock pauses, so its pages must last until its next turn (Flowable's default is 512).
    "global_lock": {"acquisition": "global_lock", "max_jobs_per_acquisition": _GROWN_PAGE},
}

ALL = "all"


def chosen(name: str) -> tuple[str, ...]:
    """The names that a ``--strategy`` stands for."""
    return tuple(STRATEGIES) if name == ALL else (name,)


def overrides_of(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a strategy (see :meth:`jobexec.conf.Settings.replace`), with what was ``given`` for all."""
    return {**_COMMON, **STRATEGIES[name], **{key: value for key, value in given.items() if value is not None}}
