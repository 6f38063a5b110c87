"""Something that was waited for happens: a timer, a message or a signal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ..definition import Flow, Kind, Node, When
from . import boundary, scopes
from .events import name_of
from .moves import Do, Moves
from .rows import ActivityState, Instance, InstanceState, Place, Signal, State, Subscription, SubscriptionKind, Token


def trigger(moves: Moves, owner: UUID, element: str, activity: UUID | None, variables: Mapping[str, Any]) -> bool:
    """Returns false if nothing waits for this there any more."""
    place = moves.rows.find(owner)
    node = moves.process(place).find(element) if place is not None else None
    if place is None or node is None:
        return False
    if isinstance(place, Instance):
        return place.state is InstanceState.ACTIVE and _in_scope(moves, place, None, node, variables)
    if place.activity is None or activity not in (None, place.activity):
        return False
    return _at_token(moves, place, node, variables)


def _at_token(moves: Moves, token: Token, node: Node, variables: Mapping[str, Any]) -> bool:
    if node.attached_to is not None:
        return _at_boundary(moves, token, node, variables)
    if node.id == token.element:
        return _here(moves, token, node, variables)
    if moves.node(token).kind is Kind.EVENT_BASED_GATEWAY:
        return _after_gateway(moves, token, node, variables)
    return _in_scope(moves, token, token.element, node, variables)


def _at_boundary(moves: Moves, token: Token, node: Node, variables: Mapping[str, Any]) -> bool:
    if node.attached_to != token.element or token.is_inner:
        return False
    boundary.fire(moves, token, node, variables)
    return True


def _here(moves: Moves, token: Token, node: Node, variables: Mapping[str, Any]) -> bool:
    if token.state is not State.WAITING or node.kind not in (Kind.CATCH_EVENT, Kind.RECEIVE_TASK):
        return False
    moves.bring(token, variables)
    moves.go(token, Do.COMPLETE)
    return True


def _after_gateway(moves: Moves, token: Token, node: Node, variables: Mapping[str, Any]) -> bool:
    flow = next((flow for flow in moves.process(token).outgoing(token.element) if flow.target == node.id), None)
    if flow is None or token.state is not State.WAITING:
        return False
    moves.wait(token, State.MOVING)
    moves.push(Do.DECIDE, token, (flow, variables))
    return True


def decide(moves: Moves, token: Token, flow: Flow, variables: Mapping[str, Any]) -> None:
    """An event-based gateway is left by the flow to the event that happened, which is then over, too."""
    moves.notify(When.END, token, moves.node(token))
    moves.record(token, ActivityState.COMPLETED)
    moves.rows.disarm(token)
    moves.count_flow(flow)
    token.element, token.flow = flow.target, flow.id
    moves.arrive(token)
    moves.bring(token, variables)
    moves.call_listeners(When.TAKE, flow.listeners, token, flow)
    moves.notify(When.START, token, moves.node(token))
    moves.push(Do.COMPLETE, token)


def _in_scope(moves: Moves, scope: Place, element: str | None, start: Node, variables: Mapping[str, Any]) -> bool:
    """The start event of an event sub-process in this scope."""
    around = moves.process(scope).find(start.parent)
    if around is None or not around.by_event or around.parent != element or start.kind is not Kind.START_EVENT:
        return False
    if isinstance(scope, Token) and (scope.state is not State.SCOPE or scope.is_body):
        return False
    if _is_interrupted(moves, scope):
        return False
    scopes.start_event_sub_process(moves, scope, start, variables)
    return True


def _is_interrupted(moves: Moves, scope: Place) -> bool:
    """An event sub-process has interrupted the scope. A timer that was disarmed then may still be on its way."""
    process = moves.process(scope)
    elements = {child.element for child in moves.rows.active(scope)}
    return any(start.interrupting for id in elements if process.node(id).by_event for start in process.start_events(id))


def throw_signal(moves: Moves, token: Token, node: Node) -> None:
    """All that wait for it in this hierarchy get it in this step; the others later."""
    assert node.event is not None
    name = name_of(moves, token, node, node.event)
    variables = _payload(moves, token, node)
    moves.rows.changes.signals.append(Signal(name, variables))
    moves.push(Do.COMPLETE, token)
    for subscription in reversed(list(moves.rows.subscriptions.values())):
        if subscription.kind is SubscriptionKind.SIGNAL and subscription.name == name:
            receiver = moves.rows.find(subscription.owner)
            if receiver is not None:
                if subscription.instance != token.instance:
                    moves.cross(receiver)
                moves.push(Do.TRIGGER, receiver, (subscription, variables))


def _payload(moves: Moves, token: Token, node: Node) -> dict[str, Any]:
    assert node.event is not None
    found: dict[str, Any] = {}
    for mapping in node.event.inputs:
        found |= moves.passed(mapping, token)
    return found


def deliver(moves: Moves, argument: tuple[Subscription, dict[str, Any]]) -> None:
    """A signal comes to one that waited for it, if it still does."""
    subscription, variables = argument
    if subscription.id in moves.rows.subscriptions:
        trigger(moves, subscription.owner, subscription.element, subscription.activity, variables)
