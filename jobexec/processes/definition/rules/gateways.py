"""Rules about gateways."""

from __future__ import annotations

from collections.abc import Iterator

from ..node import Kind, Node
from ..parts import Trigger
from ..problem import Problem
from ..process import Process

_AWAITED = frozenset({Trigger.TIMER, Trigger.MESSAGE, Trigger.SIGNAL})


def exclusive_gateways_decide(process: Process) -> Iterator[Problem]:
    """One flow without a condition is as good as a default, if it is the only one."""
    for node in process.nodes:
        if node.kind is not Kind.EXCLUSIVE_GATEWAY:
            continue
        flows = process.outgoing(node.id)
        bare = [flow for flow in flows if flow.condition is None and flow.id != node.default]
        if not flows:
            yield Problem(node.id, "An exclusive gateway needs a flow that leaves it.", node.line)
        elif len(flows) > 1 and len(bare) > (0 if node.default else 1):
            for flow in bare:
                yield Problem(flow.id, f"It has no condition and is not the default of {node.id!r}.", flow.line)


def event_gateways_wait(process: Process) -> Iterator[Problem]:
    for node in process.nodes:
        if node.kind is not Kind.EVENT_BASED_GATEWAY:
            continue
        flows = process.outgoing(node.id)
        if len(flows) < 2:
            yield Problem(node.id, "An event-based gateway needs at least two flows.", node.line)
        for flow in flows:
            target = process.node(flow.target)
            if not _is_awaited(process, target):
                instead = "; use one in place of the receive task" if target.kind is Kind.RECEIVE_TASK else ""
                yield Problem(
                    flow.id,
                    "After an event-based gateway comes an intermediate event that waits for a timer, a message or a "
                    f"signal, and to which no other flow leads{instead}.",
                    flow.line,
                )


def _is_awaited(process: Process, target: Node) -> bool:
    waits = target.kind is Kind.CATCH_EVENT and target.trigger in _AWAITED
    return waits and len(process.incoming(target.id)) == 1 and not target.jobs.before


RULES = (exclusive_gateways_decide, event_gateways_wait)
