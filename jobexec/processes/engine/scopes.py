"""Sub-processes and event sub-processes, and the end of a scope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..definition import Node
from .cancel import cancel, cancel_children, end_instance
from .events import AWAITED, arm, starts_by_event
from .moves import Do, Moves
from .rows import Instance, InstanceState, Place, State, Token


def begin(moves: Moves, token: Token, node: Node) -> None:
    """A sub-process, or an event sub-process whose event happened: its own are armed, and a token starts in it."""
    open_scope(moves, token, node)
    (start,) = moves.process(token).start_events(node.id)
    moves.push(Do.ENTER, moves.new_token(token, start.id))


def open_scope(moves: Moves, token: Token, node: Node) -> None:
    """From now on, the token can have others in it."""
    moves.wait(token, State.SCOPE)
    arm_event_sub_processes(moves, token, node.id)


def arm_event_sub_processes(moves: Moves, scope: Place, element: str | None) -> None:
    for start in starts_by_event(moves.process(scope), element):
        arm(moves, scope, start)


def start_event_sub_process(
    moves: Moves,
    scope: Place,
    start: Node,
    variables: Mapping[str, Any],
    local: Mapping[str, Any] | None = None,
) -> None:
    """The event of an event sub-process happened in the scope around it."""
    assert start.parent is not None
    if start.interrupting:
        cancel_children(moves, scope)
        for other in starts_by_event(moves.process(scope), scope.element if isinstance(scope, Token) else None):
            if other.trigger in AWAITED:
                moves.rows.disarm(scope, other.id)
    around = moves.new_token(scope, start.parent)
    for name, value in (local or {}).items():
        moves.rows.set_local(around, name, value)
    moves.bring(around, variables, start)
    moves.push(Do.BEGIN, around)


def end(moves: Moves, token: Token, element: str, state: InstanceState, reason: str | None = None) -> None:
    """A token has nowhere to go: it is gone, and perhaps its scope is over."""
    scope = moves.place_around(token)
    moves.rows.remove(token)
    if not moves.rows.is_empty(scope):
        return
    if isinstance(scope, Token):
        moves.go(scope, Do.COMPLETE)
    elif scope.state is InstanceState.ACTIVE:
        finish(moves, scope, element, state, reason)


def finish(moves: Moves, instance: Instance, element: str, state: InstanceState, reason: str | None = None) -> None:
    """An instance has ended by itself; its caller continues."""
    caller = moves.rows.token(instance.parent) if instance.parent is not None else None
    end_instance(moves, instance, state, element, reason)
    if caller is not None:
        moves.cross(caller)
        moves.go(caller, Do.COMPLETE)


def terminate(moves: Moves, token: Token) -> None:
    """All others in the scope of a token are gone."""
    for other in moves.rows.active(moves.place_around(token)):
        if other is not token:
            cancel(moves, other)
