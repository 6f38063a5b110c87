"""One arrival of a token at an element: from the flow that leads to it to the flows that leave it.

::

    enter ── asynchronous before? ──> begin ── behaviour, waits ──> complete ── asynchronous after? ──> depart

A multi-instance activity goes this way once with the token of its body, and once with that of each instance inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..definition import TERMINATES, Flow, Kind, Mapping, Node, Trigger, When
from . import boundary, calls, compensation, errors, gateways, joins, loops, scopes, tasks, triggers
from .cancel import BODY
from .events import arms
from .moves import Do, Moves, placed
from .rows import ActivityState, InstanceState, JobKind, State, Token

Behaviour = Callable[[Moves, Token, Node], None]


def enter(moves: Moves, token: Token) -> None:
    """A token comes to an element: now, or by a job."""
    if moves.options(token).before or moves.is_held(token):
        moves.wait_for_job(token, JobKind.CONTINUE, State.BEFORE, payload=tasks.call_ahead(moves, token))
    else:
        moves.push(Do.BEGIN, token)


def begin(moves: Moves, token: Token) -> None:
    """The element begins: its inputs, its boundary events, its listeners, and what it does."""
    node = moves.node(token)
    if node.loop is not None and not token.is_inner:
        loops.begin(moves, token, node)
        return
    open_activity(moves, token, node)
    behaviour_of(node)(moves, token, node)


def open_activity(moves: Moves, token: Token, node: Node) -> None:
    """The arrival, up to where the element itself would do something."""
    moves.arrive(token)
    for mapping in node.inputs:
        if mapping.target is not None:
            name, value = mapping.target, moves.value(token, mapping.source)
            if mapping.zeebe:
                name, value = placed(name, value, moves.rows.variables.get(token.id, {}))
            moves.rows.set_local(token, name, value)
    if not token.is_inner:
        boundary.arm_all(moves, token, node)
    moves.notify(When.START, token, node)


def complete(moves: Moves, token: Token) -> None:
    """The element is done: its outputs, its listeners, its row in the history, and what it leaves behind."""
    node = moves.node(token)
    _give_outputs(moves, token, node)
    moves.record(token, ActivityState.COMPLETED, BODY if token.is_body else None)
    moves.rows.disarm(token, stored=arms(moves.process(token), node))
    token = compensation.remember(moves, token, node)
    token.called = None
    if not token.is_inner:
        moves.rows.forget(token)
        token.data = {name: token.data[name] for name in ("thrower",) if name in token.data}
    if moves.options(token).after or moves.is_held(token):
        moves.wait_for_job(token, JobKind.CONTINUE, State.AFTER)
    else:
        moves.go(token, Do.DEPART)


def _give_outputs(moves: Moves, token: Token, node: Node) -> None:
    if token.is_body:
        if node.loop is not None:
            loops.give_results(moves, token, node.loop)
        return
    if node.kind is Kind.CALL_ACTIVITY:
        calls.give_back(moves, token, node)
    for mapping in node.outputs:
        if mapping.target is not None:
            _give_output(moves, token, node, mapping, moves.value(token, mapping.source))
    if token.is_inner and node.loop is not None:
        loops.keep_result(moves, token, node.loop)
    if node.kind is Kind.USER_TASK:
        moves.notify(When.COMPLETE, token, node)
    moves.notify(When.END, token, node)


def _give_output(moves: Moves, token: Token, node: Node, mapping: Mapping, value: Any) -> None:
    assert mapping.target is not None
    name = mapping.target
    if mapping.zeebe:
        name, value = placed(name, value, moves.rows.scope(token))
        moves.rows.set_local(token, name, value)  # the next one sees it
        if token.is_inner and node.loop is not None and name == node.loop.result_name:
            return  # the instance has this one for itself
    moves.rows.set(moves.place_around(token), name, value)


def depart(moves: Moves, token: Token) -> None:
    """The token leaves: to its multi-instance, to the event that threw a compensation, or by its flows."""
    node = moves.node(token)
    if token.is_inner and node.loop is not None:
        loops.one_is_over(moves, token, node.loop)
    elif "thrower" in token.data:
        compensation.is_undone(moves, token)
    elif node.kind is Kind.THROW_EVENT and node.trigger is Trigger.LINK:
        _jump(moves, token, node)
    else:
        _leave(moves, token, node)


def _jump(moves: Moves, token: Token, node: Node) -> None:
    target = moves.process(token).link_target(node.parent, node.event.name if node.event else None)
    assert target is not None, f"{node.id} has no target"
    token.element, token.flow = target.id, None
    moves.go(token, Do.ENTER)


def _leave(moves: Moves, token: Token, node: Node) -> None:
    flows = gateways.choose(moves, token, node)
    if flows:
        _take(moves, token, flows)
        return
    terminates = node.kind is Kind.END_EVENT and node.trigger is Trigger.TERMINATE
    reason = node.properties.get(TERMINATES)
    state = InstanceState.TERMINATED if terminates or reason else InstanceState.COMPLETED
    scopes.end(moves, token, node.id, state, reason)


def _take(moves: Moves, token: Token, flows: tuple[Flow, ...]) -> None:
    """The token takes the first flow, new ones take the others. What a listener throws is thrown before any moves."""
    for flow in flows:
        moves.count_flow(flow)
        moves.call_listeners(When.TAKE, flow.listeners, token, flow)
    scope = moves.place_around(token)
    tokens = [token, *(moves.new_token(scope, flow.target) for flow in flows[1:])]
    for moving, flow in zip(tokens, flows, strict=True):
        moving.element, moving.flow = flow.target, flow.id
    moves.push_all(Do.ENTER, tokens)


def _terminate(moves: Moves, token: Token, node: Node) -> None:
    scopes.terminate(moves, token)
    moves.push(Do.COMPLETE, token)


BEHAVIOURS: dict[Kind, Behaviour] = {
    Kind.SERVICE_TASK: tasks.work,
    Kind.SEND_TASK: tasks.work,
    Kind.SCRIPT_TASK: tasks.work,
    Kind.BUSINESS_RULE_TASK: tasks.work,
    Kind.USER_TASK: tasks.user_task,
    Kind.RECEIVE_TASK: tasks.receive,
    Kind.CALL_ACTIVITY: calls.begin,
    Kind.SUB_PROCESS: scopes.begin,
    Kind.PARALLEL_GATEWAY: joins.parallel,
    Kind.INCLUSIVE_GATEWAY: joins.inclusive,
    Kind.EVENT_BASED_GATEWAY: gateways.wait_for_first,
}
THROWN: dict[Trigger | None, Behaviour] = {
    Trigger.MESSAGE: tasks.work,
    Trigger.SIGNAL: triggers.throw_signal,
    Trigger.ERROR: errors.end_with_error,
    Trigger.ESCALATION: errors.throw_escalation,
    Trigger.COMPENSATION: compensation.throw,
    Trigger.TERMINATE: _terminate,
}


def behaviour_of(node: Node) -> Behaviour:
    """What an element does when it begins. Most events and plain tasks do nothing."""
    if node.kind in (Kind.THROW_EVENT, Kind.END_EVENT):
        return THROWN.get(node.trigger, tasks.nothing)
    if node.kind is Kind.CATCH_EVENT and node.trigger is not Trigger.LINK:
        return tasks.receive
    return BEHAVIOURS.get(node.kind, tasks.nothing)
