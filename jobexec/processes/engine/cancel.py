"""Ends what is not finished: children first, then the token itself."""

from __future__ import annotations

from ..definition import Kind, When
from .events import arms, starts_by_event
from .moves import Moves
from .rows import ActivityState, Instance, InstanceState, State, Token
from .tokens import Place

BODY = "multiInstanceBody"


def cancel(moves: Moves, token: Token) -> None:
    """The token is gone, with everything under it."""
    _stop(moves, token)
    moves.rows.remove(token)


def interrupt(moves: Moves, token: Token) -> None:
    """What the token does is over, with everything under it; the token itself lives, and can go elsewhere."""
    _stop(moves, token)
    moves.rows.disarm(token, stored="batch" in token.data or arms(moves.process(token), moves.node(token)))
    moves.rows.forget(token)
    if token.state is State.FAILED:
        moves.rows.changes.resolved.append(token.id)
    if not token.is_inner:
        token.data = {name: value for name, value in token.data.items() if name == "thrower"}
    token.called = None
    moves.wait(token, State.MOVING)


def cancel_children(moves: Moves, scope: Place) -> None:
    """All that moves or waits in a scope is gone. What is done and can be compensated, stays."""
    for child in moves.rows.active(scope):
        cancel(moves, child)


def end_instance(
    moves: Moves, instance: Instance, state: InstanceState, element: str | None = None, reason: str | None = None
) -> None:
    """The row of an instance says how it ended; all that it had is gone."""
    for child in moves.rows.children(instance):
        cancel(moves, child)
    process = moves.process(instance)
    moves.call_listeners(When.END, process.listeners, instance, process, state is InstanceState.CANCELLED)
    instance.state, instance.end_element, instance.reason = state, element, reason
    instance.ended_at = moves.now
    instance.final_variables = dict(moves.rows.variables.get(instance.id, {}))
    moves.rows.disarm(instance, stored=bool(starts_by_event(process, None)))
    moves.rows.touch(instance)


def _stop(moves: Moves, token: Token) -> None:
    for child in moves.rows.children(token):
        cancel(moves, child)
    called = moves.rows.called_by(token)
    if called is not None and called.ended_at is None:
        end_instance(moves, called, InstanceState.CANCELLED, reason=f"{token.element} was interrupted.")
    if token.activity is None:
        return
    node = moves.node(token)
    if not token.is_body and token.state is not State.JOINED:
        if node.kind is Kind.USER_TASK:
            moves.notify(When.DELETE, token, node, cancelled=True)
        moves.notify(When.END, token, node, cancelled=True)
    moves.record(token, ActivityState.CANCELLED, BODY if token.is_body else None)
