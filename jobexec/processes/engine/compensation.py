"""Compensation: the memory of what is done, and undoing it backwards, one after the other."""

from __future__ import annotations

from uuid import UUID

from ..definition import Node, Trigger
from .cancel import cancel, end_instance, handlers_for
from .moves import Do, Moves
from .rows import Instance, InstanceState, Place, State, Token


def remember(moves: Moves, token: Token, node: Node) -> Token:
    """An activity is done. Returns the token that goes on: another, if this one stays as the memory of a scope."""
    if not moves.process(token).has_compensation:
        return token
    undone = _memories(moves, token)
    undone_from_within = token.is_body or (node.compensated_by is None and not node.for_compensation)
    if undone and undone_from_within:
        return _become_memory(moves, token)
    for inner in undone:
        _forget(moves, inner)
    if node.compensated_by is not None and not token.is_body:
        _remember_activity(moves, token)
    return token


def _remember_activity(moves: Moves, token: Token) -> None:
    memory = moves.new_token(
        moves.place_around(token),
        token.element,
        state=State.COMPENSABLE,
        data={**_index(token), "order": _next_order(moves, token)},
    )
    for name, value in moves.rows.variables.get(token.id, {}).items():
        moves.rows.set_local(memory, name, value)


def _become_memory(moves: Moves, token: Token) -> Token:
    """A scope stays with its variables and with what is done in it; a new token leaves it."""
    leaving = moves.new_token(moves.place_around(token), token.element, data=_counter(token))
    for name, value in moves.rows.variables.get(token.id, {}).items():
        moves.rows.set_local(leaving, name, value)
    token.data = {**token.data, "order": _next_order(moves, token)}
    moves.wait(token, State.COMPENSABLE)
    return leaving


def _counter(token: Token) -> dict[str, int]:
    return {"counter": token.data["counter"]} if token.is_inner else {}


def _index(token: Token) -> dict[str, int]:
    index = token.data.get("counter", token.data.get("index"))
    return {} if index is None else {"index": index}


def _next_order(moves: Moves, token: Token) -> int:
    orders = (
        other.data["order"]
        for other in moves.rows.tokens.values()
        if other.instance == token.instance and other.state is State.COMPENSABLE
    )
    return max(orders, default=0) + 1


def _memories(moves: Moves, scope: Place) -> list[Token]:
    return [token for token in moves.rows.children(scope) if token.state is State.COMPENSABLE]


def _forget(moves: Moves, memory: Token) -> None:
    for inner in moves.rows.children(memory):
        _forget(moves, inner)
    moves.rows.remove(memory)


def throw(moves: Moves, token: Token, node: Node) -> None:
    """A compensation event: it waits until all is undone that it means, which no other event then undoes (Camunda)."""
    for scope in _scopes_of(moves, token):
        for memory in _memories(moves, scope):
            if _is_meant(moves, memory, token):
                memory.data = {**memory.data, "for": str(token.id)}
                moves.rows.touch(memory)
    moves.wait(token)
    moves.push(Do.COMPENSATE, token)


def undo_all(moves: Moves, instance: Instance) -> None:
    """An instance is cancelled: all that is done is undone. Handlers that run already for its events carry on for it.

    Those of a scope that is not done go with this scope.
    """
    for token in moves.rows.tokens.values():
        if "thrower" in token.data and _done_in(moves, token) is instance:
            token.data = {**token.data, "thrower": str(instance.id)}
            moves.rows.touch(token)
    for child in moves.rows.active(instance):
        if "thrower" not in child.data:
            cancel(moves, child)
    moves.push(Do.COMPENSATE, instance)


def _done_in(moves: Moves, handler: Token) -> Place:
    """The scope around what is undone, and around the scopes that are done."""
    place = moves.place_around(handler)
    while isinstance(place, Token) and place.state is State.COMPENSABLE:
        place = moves.place_around(place)
    return place


def undo_next(moves: Moves, thrower: Place) -> None:
    """The latest activity that is not undone yet; if there is none, the event that threw the compensation continues."""
    if isinstance(thrower, Instance) and handlers_for(moves, thrower):
        return  # it had several events
    memory = _latest_of_all(moves, thrower)
    if memory is not None:
        _undo(moves, memory, thrower)
    elif isinstance(thrower, Instance):
        end_instance(moves, thrower, InstanceState.CANCELLED, reason=thrower.reason)
    else:
        moves.go(thrower, Do.COMPLETE)


def _latest_of_all(moves: Moves, thrower: Place) -> Token | None:
    for scope in [thrower] if isinstance(thrower, Instance) else _scopes_of(moves, thrower):
        if found := _latest(moves, scope, thrower):
            return found
    return None


def _is_meant(moves: Moves, memory: Token, thrower: Place) -> bool:
    """Whether this event undoes an activity, and no other event does that already."""
    if isinstance(thrower, Instance):
        return True
    other = moves.rows.tokens.get(UUID(memory.data["for"])) if "for" in memory.data else None
    if other not in (None, thrower) and moves.node(other).trigger is Trigger.COMPENSATION:
        return False
    event = moves.node(thrower).event
    return event is None or event.activity in (None, memory.element)


def _scopes_of(moves: Moves, token: Token) -> list[Place]:
    """The scope of the event; an event sub-process also undoes what was done in the scope around it."""
    scope = moves.place_around(token)
    if isinstance(scope, Token) and moves.node(scope).by_event:
        return [scope, moves.place_around(scope)]
    return [scope]


def _latest(moves: Moves, scope: Place, thrower: Place | None) -> Token | None:
    """A scope that is done is undone from within, whatever is in it (no ``thrower``): its latest activity."""
    while memories := [
        token for token in _memories(moves, scope) if thrower is None or _is_meant(moves, token, thrower)
    ]:
        memory = max(memories, key=lambda token: token.data["order"])
        if moves.node(memory).compensated_by is not None and not memory.is_body:
            return memory
        if found := _latest(moves, memory, None):
            return found
        if moves.rows.children(memory):
            return None
        moves.rows.remove(memory)
    return None


def _undo(moves: Moves, memory: Token, thrower: Place) -> None:
    handler = moves.node(memory).compensated_by
    assert handler is not None
    memory.element, memory.flow = handler, None
    memory.data = {"thrower": str(thrower.id), **_index(memory)}
    moves.go(memory, Do.ENTER)


def is_skipped(moves: Moves, thrower: Token) -> bool:
    """A handler was cancelled by an operator: run the next one. False if there is none."""
    left = _latest_of_all(moves, thrower) is not None
    if left:
        moves.push(Do.COMPENSATE, thrower)
    return left


def is_undone(moves: Moves, token: Token) -> None:
    """A compensation handler has ended: run the next one."""
    moves.rows.remove(token)
    moves.push(Do.COMPENSATE, moves.rows.place(UUID(token.data["thrower"])))
