"""The public names of processes. Loaded when one of them is used, for most of them need the models."""

from __future__ import annotations

from .definition import InvalidProcess
from .engine.exceptions import BpmnError
from .flows.builder import Choice, Step, Wait
from .flows.builder import Flow as flow
from .flows.calls import call
from .flows.canvas import chain, parallel
from .flows.terms import Term, index, item, previous
from .handlers.registry import function, listener, service_task
from .operations.deploy import deploy
from .operations.events import correlate, signal
from .operations.instances import cancel, set_retries, set_variables
from .operations.many import cancel_all
from .operations.modify import modify, restart
from .operations.start import start
from .operations.suspend import activate, suspend
from .operations.user_tasks import claim, complete, release, throw_error

__all__ = [
    "BpmnError",
    "Choice",
    "InvalidProcess",
    "Step",
    "Term",
    "Wait",
    "activate",
    "call",
    "cancel",
    "cancel_all",
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
    "modify",
    "parallel",
    "previous",
    "release",
    "restart",
    "service_task",
    "set_retries",
    "set_variables",
    "signal",
    "start",
    "suspend",
    "throw_error",
]
