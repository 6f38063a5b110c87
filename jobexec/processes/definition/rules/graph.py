"""Rules about names, nesting and flows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..flow import Flow
from ..node import Kind, Node
from ..parts import Trigger
from ..problem import Problem
from ..process import Process

# May not have conditions on their flows: a token leaves them by all flows, or by what happened.
_WITHOUT_CONDITIONS = frozenset(
    {
        Kind.PARALLEL_GATEWAY,
        Kind.EVENT_BASED_GATEWAY,
        Kind.START_EVENT,
        Kind.CATCH_EVENT,
        Kind.THROW_EVENT,
        Kind.BOUNDARY_EVENT,
    }
)


def ids_are_unique(process: Process) -> Iterator[Problem]:
    lines = {element.id: element.line for element in process.elements}
    for id, count in Counter(element.id for element in process.elements).items():
        if count > 1:
            yield Problem(id, f"{count} elements have this id.", lines[id])


def parents_exist(process: Process) -> Iterator[Problem]:
    for node in process.nodes:
        if node.parent is None:
            continue
        parent = process.find(node.parent)
        if parent is None or parent.kind is not Kind.SUB_PROCESS:
            yield Problem(node.id, f"Its parent {node.parent!r} is not a sub-process of this process.", node.line)
        elif _is_inside(process, parent, node):
            yield Problem(node.id, f"It is inside itself, by {node.parent!r}.", node.line)


def _is_inside(process: Process, node: Node | None, outer: Node) -> bool:
    seen: set[str] = set()
    while node is not None and node.id not in seen:
        if node.id == outer.id:
            return True
        seen.add(node.id)
        node = process.find(node.parent)
    return False


def flows_lead_somewhere(process: Process) -> Iterator[Problem]:
    for flow in process.flows:
        for name, id in (("source", flow.source), ("target", flow.target)):
            if process.find(id) is None:
                yield Problem(flow.id, f"Its {name} {id!r} does not exist in this process.", flow.line)


def defaults_are_flows(process: Process) -> Iterator[Problem]:
    for node in process.nodes:
        if node.default is not None and node.default not in {flow.id for flow in process.outgoing(node.id)}:
            yield Problem(node.id, f"Its default {node.default!r} is not a flow that leaves it.", node.line)


def flows_stay_in_their_scope(process: Process) -> Iterator[Problem]:
    for flow in process.flows:
        if process.node(flow.source).parent != process.node(flow.target).parent:
            yield Problem(flow.id, "It crosses the boundary of a sub-process.", flow.line)


def flows_begin_and_end_well(process: Process) -> Iterator[Problem]:
    for flow in process.flows:
        source, target = process.node(flow.source), process.node(flow.target)
        if reason := _cannot_leave(source):
            yield Problem(flow.id, f"No flow can leave {source.id!r}, which is {reason}.", flow.line)
        if reason := _cannot_reach(target):
            yield Problem(flow.id, f"No flow can lead to {target.id!r}, which is {reason}.", flow.line)


def _cannot_leave(node: Node) -> str | None:
    if node.kind is Kind.END_EVENT:
        return "an end event"
    if node.kind is Kind.THROW_EVENT and node.trigger is Trigger.LINK:
        return "a throwing link event"
    return _outside_the_flow(node)


def _cannot_reach(node: Node) -> str | None:
    if node.kind is Kind.START_EVENT:
        return "a start event"
    if node.kind is Kind.BOUNDARY_EVENT:
        return "a boundary event"
    if node.kind is Kind.CATCH_EVENT and node.trigger is Trigger.LINK:
        return "a catching link event"
    return _outside_the_flow(node)


def _outside_the_flow(node: Node) -> str | None:
    if node.is_event_sub_process:
        return "an event sub-process"
    return "for compensation" if node.for_compensation else None


def nodes_are_reached(process: Process) -> Iterator[Problem]:
    """By the specification a node without a flow to it starts with its scope; Camunda never runs it."""
    for node in process.nodes:
        if not process.incoming(node.id) and not _cannot_reach(node):
            yield Problem(node.id, "No flow leads to it.", node.line)


def conditions_are_at_decisions(process: Process) -> Iterator[Problem]:
    for flow in process.flows:
        source = process.node(flow.source)
        if flow.condition is not None and source.kind in _WITHOUT_CONDITIONS:
            yield Problem(flow.id, f"A flow out of the {source.kind} {source.id!r} cannot have a condition.", flow.line)


def defaults_have_no_condition(process: Process) -> Iterator[Problem]:
    for node in process.nodes:
        flow: Flow | None = process.flow(node.default) if node.default is not None else None
        if flow is not None and flow.condition is not None:
            yield Problem(flow.id, f"It is the default of {node.id!r} and has a condition, too.", flow.line)


NAMES = (ids_are_unique, parents_exist, flows_lead_somewhere, defaults_are_flows)
RULES = (
    flows_stay_in_their_scope,
    flows_begin_and_end_well,
    nodes_are_reached,
    conditions_are_at_decisions,
    defaults_have_no_condition,
)
