"""Decisions: the flows by which a token leaves an element; and the event-based gateway."""

from __future__ import annotations

from ..definition import Flow, Kind, Node
from .events import arm
from .exceptions import NoFlowTaken
from .moves import Moves
from .rows import Token


def choose(moves: Moves, token: Token, node: Node) -> tuple[Flow, ...]:
    """The flows that are taken; none if there are none. Raises NoFlowTaken."""
    flows = moves.process(token).outgoing(node.id)
    if node.kind is Kind.PARALLEL_GATEWAY or not flows:
        return flows
    taken = _open(moves, token, node, flows)
    if not taken:
        raise NoFlowTaken(node.id, "No condition of its outgoing flows holds, and it has no default.")
    return taken


def _open(moves: Moves, token: Token, node: Node, flows: tuple[Flow, ...]) -> tuple[Flow, ...]:
    first_only = node.kind is Kind.EXCLUSIVE_GATEWAY
    taken: list[Flow] = []
    for flow in flows:
        if flow.id != node.default and _holds(moves, token, flow):
            taken.append(flow)
            if first_only:
                break
    return tuple(taken) or tuple(flow for flow in flows if flow.id == node.default)


def _holds(moves: Moves, token: Token, flow: Flow) -> bool:
    return flow.condition is None or moves.holds(token, flow.condition, flow.id)


def wait_for_first(moves: Moves, token: Token, node: Node) -> None:
    """An event-based gateway: the first event that happens decides."""
    process = moves.process(token)
    for flow in process.outgoing(node.id):
        arm(moves, token, process.node(flow.target))
    moves.wait(token)
