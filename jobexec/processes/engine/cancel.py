"""Ends what is not finished: children first, then the token itself."""

from __future__ import annotations

from typing import Any

from ..definition import Kind, Trigger, When
from .events import arms, starts_by_event
from .moves import Moves
from .rows import ActivityState, Instance, InstanceState, Place, State, Token

BODY = "multiInstanceBody"


def cancel(moves: Moves, token: Token) -> None:
    """The token is gone, with everything under it; unless it went with another one already."""
    if token.alive:
        _stop(moves, token)
        moves.rows.remove(token)


def interrupt(moves: Moves, token: Token) -> None:
    """What the token does is over, with everything under it; the token itself lives, and can go elsewhere."""
    _stop(moves, token)
    moves.rows.disarm(token, stored=arms(moves.process(token), moves.node(token)))
    moves.rows.forget(token)
    if token.state is State.FAILED:
        moves.rows.changes.resolved.append(token.id)
    if not token.is_inner:
        token.data = {name: token.data[name] for name in ("thrower", "index") if name in token.data}
    token.called = None
    moves.wait(token, State.MOVING)


def begin_again(moves: Moves, token: Token) -> None:
    """What the token does is over; it can begin its element once more, with the variables that it came with."""
    found = _came_with(moves, token)
    interrupt(moves, token)
    for name, value in found.items():
        moves.rows.set_local(token, name, value)


def _came_with(moves: Moves, token: Token) -> dict[str, Any]:
    """The item of a multi-instance; of a compensation, the variables of what it undoes. Inputs are set anew."""
    variables = moves.rows.variables.get(token.id, {})
    if "thrower" in token.data:
        return dict(variables)
    loop = moves.node(token).loop
    name = loop.item if loop is not None and token.is_inner else None
    return {name: variables[name]} if name is not None and name in variables else {}


def cancel_children(moves: Moves, scope: Place) -> None:
    """All that moves or waits in a scope is gone. What is done and can be compensated, stays."""
    for child in moves.rows.active(scope):
        cancel(moves, child)


def end_instance(
    moves: Moves, instance: Instance, state: InstanceState, element: str | None = None, reason: str | None = None
) -> None:
    """The row of an instance says how it ended; all that it had is gone."""
    _clear(moves, instance)
    _close(moves, instance, state, element, reason)


def _close(
    moves: Moves, instance: Instance, state: InstanceState, element: str | None = None, reason: str | None = None
) -> None:
    moves.notify_process(When.END, instance, state is InstanceState.CANCELLED)
    instance.state, instance.end_element, instance.reason = state, element, reason
    instance.ended_at = moves.now
    instance.final_variables = dict(moves.rows.variables.get(instance.id, {}))
    moves.rows.disarm(instance, stored=bool(starts_by_event(moves.process(instance), None)))
    moves.rows.touch(instance)


def _stop(moves: Moves, token: Token) -> None:
    _clear(moves, token)
    _leave(moves, token)


def _clear(moves: Moves, place: Place) -> None:
    """All that a place has under it is gone, however deep: a process may call itself more often than Python does."""
    found: list[Place] = []
    open_ends = _under(moves, place)
    while open_ends:
        each = open_ends.pop()
        found.append(each)
        open_ends += _under(moves, each)
    for each in reversed(found):
        if isinstance(each, Instance):
            caller = moves.rows.token(each.parent) if each.parent is not None else None
            reason = f"{caller.element} was interrupted." if caller is not None else None
            _close(moves, each, InstanceState.CANCELLED, reason=reason)
        elif each.alive:  # a handler of a compensation is under its scope, and under what threw it
            _leave(moves, each)
            moves.rows.remove(each)


def _under(moves: Moves, place: Place) -> list[Place]:
    """The tokens in a scope, the instance that a token called, and the handlers that a compensation event runs."""
    found: list[Place] = [*moves.rows.children(place)]
    if not isinstance(place, Token):
        return found
    called = moves.rows.called_by(place)
    if called is not None and called.ended_at is None:
        found.append(called)
    if moves.node(place).trigger is Trigger.COMPENSATION:
        found += handlers_for(moves, place)
    return found


def handlers_for(moves: Moves, thrower: Place) -> list[Token]:
    """The compensation handlers that run for an event, or for an instance that is cancelled."""
    return [token for token in moves.rows.tokens.values() if token.data.get("thrower") == str(thrower.id)]


def _leave(moves: Moves, token: Token) -> None:
    """An arrival is over before it is done."""
    if token.activity is None:
        return
    node = moves.node(token)
    if not token.is_body and token.state is not State.JOINED and "ended" not in token.data:
        if node.kind is Kind.USER_TASK:
            moves.notify(When.DELETE, token, node, cancelled=True)
        moves.notify(When.END, token, node, cancelled=True)
    moves.record(token, ActivityState.CANCELLED, BODY if token.is_body else None)
