"""The public names of processes. Loaded when one of them is used, for most of them need the models."""

from __future__ import annotations

from asgiref.sync import sync_to_async

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

# For async callers, whose transactions these calls cannot be part of.
aactivate = sync_to_async(activate, thread_sensitive=True)
acancel = sync_to_async(cancel, thread_sensitive=True)
acancel_all = sync_to_async(cancel_all, thread_sensitive=True)
aclaim = sync_to_async(claim, thread_sensitive=True)
acomplete = sync_to_async(complete, thread_sensitive=True)
acorrelate = sync_to_async(correlate, thread_sensitive=True)
adeploy = sync_to_async(deploy, thread_sensitive=True)
arelease = sync_to_async(release, thread_sensitive=True)
arestart = sync_to_async(restart, thread_sensitive=True)
aset_retries = sync_to_async(set_retries, thread_sensitive=True)
aset_variables = sync_to_async(set_variables, thread_sensitive=True)
asignal = sync_to_async(signal, thread_sensitive=True)
astart = sync_to_async(start, thread_sensitive=True)
asuspend = sync_to_async(suspend, thread_sensitive=True)
athrow_error = sync_to_async(throw_error, thread_sensitive=True)

__all__ = [
    "BpmnError",
    "Choice",
    "InvalidProcess",
    "Step",
    "Term",
    "Wait",
    "aactivate",
    "acancel",
    "acancel_all",
    "aclaim",
    "acomplete",
    "acorrelate",
    "activate",
    "adeploy",
    "arelease",
    "arestart",
    "aset_retries",
    "aset_variables",
    "asignal",
    "astart",
    "asuspend",
    "athrow_error",
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
