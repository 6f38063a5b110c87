"""Tools for testing a project's jobs: :class:`ManualExecutor`, assertions, controlled time, failures on demand.

Everything here uses the real tables and operations; there is no second queue for tests. Importing it touches neither
models nor databases: the names are imported at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .assertions import assert_enqueued, refute_enqueued
    from .at_once import immediate
    from .captured import CapturedJobs, captured_jobs
    from .cases import JobsTestCase, JobsTransactionTestCase, JobTestMixin
    from .clocks import ControlledClock, advance, controlled_clock
    from .enqueued import EnqueuedJob
    from .executor import ManualExecutor
    from .faults import NodeKilled, OtherNode, conflict, database_away, fail, kill_node, lose_lock
    from .results import JobResult, JobsDoNotEnd

_HOMES = {
    "CapturedJobs": "captured",
    "ControlledClock": "clocks",
    "EnqueuedJob": "enqueued",
    "JobResult": "results",
    "JobTestMixin": "cases",
    "JobsDoNotEnd": "results",
    "JobsTestCase": "cases",
    "JobsTransactionTestCase": "cases",
    "ManualExecutor": "executor",
    "NodeKilled": "faults",
    "OtherNode": "faults",
    "advance": "clocks",
    "assert_enqueued": "assertions",
    "captured_jobs": "captured",
    "conflict": "faults",
    "controlled_clock": "clocks",
    "database_away": "faults",
    "fail": "faults",
    "immediate": "at_once",
    "kill_node": "faults",
    "lose_lock": "faults",
    "refute_enqueued": "assertions",
}

__all__ = [
    "CapturedJobs",
    "ControlledClock",
    "EnqueuedJob",
    "JobResult",
    "JobTestMixin",
    "JobsDoNotEnd",
    "JobsTestCase",
    "JobsTransactionTestCase",
    "ManualExecutor",
    "NodeKilled",
    "OtherNode",
    "advance",
    "assert_enqueued",
    "captured_jobs",
    "conflict",
    "controlled_clock",
    "database_away",
    "fail",
    "immediate",
    "kill_node",
    "lose_lock",
    "refute_enqueued",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
