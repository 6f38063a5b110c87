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

from importlib import import_module
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

#: Where each name lives, and what it is called there. They are imported at first use, for most of them need the models.
_HOMES = {
    "BpmnError": ("engine.exceptions", "BpmnError"),
    "InvalidProcess": ("definition", "InvalidProcess"),
    "call": ("flows.calls", "call"),
    "cancel": ("operations.instances", "cancel"),
    "chain": ("flows.canvas", "chain"),
    "claim": ("operations.user_tasks", "claim"),
    "complete": ("operations.user_tasks", "complete"),
    "correlate": ("operations.events", "correlate"),
    "deploy": ("operations.deploy", "deploy"),
    "flow": ("flows.builder", "Flow"),
    "function": ("handlers.registry", "function"),
    "index": ("flows.terms", "index"),
    "item": ("flows.terms", "item"),
    "listener": ("handlers.registry", "listener"),
    "parallel": ("flows.canvas", "parallel"),
    "previous": ("flows.terms", "previous"),
    "release": ("operations.user_tasks", "release"),
    "service_task": ("handlers.registry", "service_task"),
    "set_variables": ("operations.instances", "set_variables"),
    "signal": ("operations.events", "signal"),
    "start": ("operations.start", "start"),
    "throw_error": ("operations.user_tasks", "throw_error"),
}

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
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(f".{module}", __name__), attribute)
