"""Processes: BPMN files and flows written in Python, run by one engine whose activities are jobs.

An app of its own: add ``"jobexec.processes"`` to INSTALLED_APPS, after ``"jobexec"``. Then the names below describe,
deploy, start and drive processes::

    from jobexec.processes import chain, flow, parallel

    chain(charge.s(order.pk), parallel(pack.s(order.pk), invoice.s(order.pk)), ship.s(order.pk)).start()

From bottom to top: ``definition`` describes a process and ``engine`` moves its tokens; ``expressions`` and ``xml`` read
what models contain. These four are pure Python: they know neither Django nor the rest of jobexec. ``models`` are the
tables, ``store`` is the SQL of a step, ``handlers`` has what a process calls and the jobs that carry it on,
``operations`` the verbs, and ``flows`` the door for Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .definition import InvalidProcess
    from .engine.exceptions import BpmnError
    from .flows.builder import Flow as flow
    from .flows.calls import call
    from .flows.canvas import chain, parallel
    from .flows.terms import index, item, previous
    from .handlers.registry import function, listener, service_task
    from .operations.deploy import deploy
    from .operations.events import correlate, signal
    from .operations.instances import cancel, set_variables
    from .operations.start import start
    from .operations.user_tasks import claim, complete, release, throw_error

__all__ = [
    "BpmnError",
    "InvalidProcess",
    "call",
    "cancel",
    "chain",
    "claim",
    "complete",
    "correlate",
    "deploy",
    "flow",
    "function",
    "index",
    "item",
    "listener",
    "parallel",
    "previous",
    "release",
    "service_task",
    "set_variables",
    "signal",
    "start",
    "throw_error",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import api

    return getattr(api, name)
