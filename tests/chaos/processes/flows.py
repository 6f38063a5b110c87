"""Flows that are written in Python, and the start of an instance of any kind."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from jobexec import processes
from jobexec.processes.flows.builder import Flow, Step

from .expected import BRANCHES
from .jobs import step

#: Names of messages, and who waits for them.
PAID, ANSWER, APPROVED = "chaos-paid", "chaos-answer", "chaos-approved"
MESSAGES = {"chaos-late": PAID, "chaos-gate": ANSWER, "chaos-flow": APPROVED}


def deploy(using: str) -> None:
    processes.deploy(Path(__file__).with_name("chaos.bpmn"), using=using)


def start(using: str, kind: str, name: str, given: dict[str, Any]) -> None:
    """Start an instance; its business key is its name."""
    if kind in _FLOWS:
        flow = Flow(kind, business_key=name)
        _FLOWS[kind](flow, name, given)
        flow.start(using=using)
    else:
        variables = given | {"patience": f"PT{given['patience']}S"}
        processes.start(kind, business_key=name, variables=variables, using=using)


def _step(flow: Flow, name: str, element: str, given: dict[str, Any], undo: bool = False, **how: Any) -> Step:
    seconds, dies = given["seconds"], given["dies"] == element
    undoing = step.s(name, f"undo.{element}", seconds, 0, False) if undo else None
    failures = given["failures"] if element == "b" else 0
    return flow.step(step, name, element, seconds, failures, dies, name=element, compensate=undoing, **how)


def _chain(flow: Flow, name: str, given: dict[str, Any]) -> None:
    """Three steps, one after the other."""
    first = _step(flow, name, "a", given)
    _step(flow, name, "c", given, after=_step(flow, name, "b", given, after=first))


def _order(flow: Flow, name: str, given: dict[str, Any]) -> None:
    """A fork and its join, then a wait; what is done is undone if the flow is cancelled."""
    first = _step(flow, name, "a", given, undo=True)
    second, third = (_step(flow, name, element, given, undo=True, after=first) for element in "bc")
    approved = flow.wait(
        APPROVED, name, timeout=timedelta(seconds=given["patience"]), after=[second, third], name="wait"
    )
    _step(flow, name, "d", given, after=approved)
    _step(flow, name, "e", given, after=approved.timed_out)


def _wide(flow: Flow, name: str, given: dict[str, Any]) -> None:
    """More branches than one node has threads, which end at about the same moment, and their join."""
    _step(flow, name, "c", given, after=[_step(flow, name, branch, given) for branch in BRANCHES])


_FLOWS = {"chaos-chain": _chain, "chaos-flow": _order, "chaos-wide": _wide}
