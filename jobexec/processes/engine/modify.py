"""Operators' modifications: remove tokens, and create tokens that enter or leave elements (Camunda's rules)."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from ..definition import Kind, Node, Process, Trigger
from . import compensation, loops, scopes
from .arrivals import open_activity
from .cancel import cancel, end_instance
from .exceptions import BadChange
from .inputs import Change, Command, Modified
from .moves import Do, Moves
from .rows import Instance, InstanceState, Place, State, Token

#: Follows the id of a multi-instance whose body is meant, with all of its instances (Camunda 7).
BODY = "#multiInstanceBody"
_JOINS = frozenset({Kind.PARALLEL_GATEWAY, Kind.INCLUSIVE_GATEWAY})


def modify(moves: Moves, event: Modified) -> bool:
    """One after the other, then everything that was started moves; an instance without a token has ended."""
    instance = moves.rows.instances.get(event.instance)
    if instance is None or instance.state is not InstanceState.ACTIVE:
        return False
    apply(moves, instance, event.commands)
    if not moves.rows.active(instance):
        if instance.parent is not None:
            raise BadChange(
                event.commands[-1].element, "Nothing would be left of this instance, and another instance waits for it."
            )
        end_instance(moves, instance, InstanceState.CANCELLED, reason=event.reason)
    return True


def apply(moves: Moves, instance: Instance, commands: Iterable[Command]) -> None:
    """What is started is pushed onto the agenda, the first of it on top."""
    started = []
    for command in commands:
        process = moves.process(instance)
        node = process.find(command.element.removesuffix(BODY))
        if node is None:
            raise BadChange(command.element, "There is no such element in the process.")
        if command.change is Change.CANCEL:
            _cancel_all(moves, instance, node, command.activity)
            continue
        if reason := refusal(process, node, command.change):
            raise BadChange(node.id, reason)
        token = _one_more(moves, instance, node, command) or moves.new_token(
            _scope(moves, instance, node, command.activity), node.id
        )
        if command.change is Change.BEFORE and node.kind in _JOINS:
            token.flow = _free_flow(moves, token, node)
        moves.set_all(token, command.variables)
        started.append((Do.ENTER if command.change is Change.BEFORE else Do.DEPART, token))
    for what, token in reversed(started):
        moves.push(what, token)


def _one_more(moves: Moves, instance: Instance, node: Node, command: Command) -> Token | None:
    """One more instance of a multi-instance that runs, as in Camunda 7; None if none runs, or its body is meant."""
    if command.change is not Change.BEFORE or node.loop is None or command.element.endswith(BODY):
        return None
    bodies = [
        token
        for token in moves.rows.tokens.values()
        if token.instance == instance.id and token.element == node.id and token.is_body
        if command.activity in (None, instance.id) or _is_within(moves, token, command.activity)
    ]
    if len(bodies) > 1:
        raise BadChange(node.id, f"It runs {len(bodies)} times, so it is ambiguous which has one instance more.")
    if bodies and (node.loop.sequential or "batch" in bodies[0].data):
        how = "runs its instances one after the other" if node.loop.sequential else "runs as a batch"
        raise BadChange(node.id, f"It {how}; start before {node.id}{BODY} for a whole multi-instance.")
    return loops.one_more(moves, bodies[0], node.loop) if bodies else None


def _cancel_all(moves: Moves, instance: Instance, node: Node, activity: UUID | None) -> None:
    standing = [
        token
        for token in moves.rows.tokens.values()
        if token.instance == instance.id and token.element == node.id and token.state is not State.COMPENSABLE
        if activity is None or activity in (token.activity, token.id)
    ]
    if not standing:
        raise BadChange(node.id, "Nothing at this element can be cancelled.")
    for token in standing:
        if token.alive:  # the instances of a multi-instance go with its body
            _cancel_one(moves, token)


def _cancel_one(moves: Moves, token: Token) -> None:
    """A scope in which nothing is left is cancelled, too, and so on outward; the instance itself is not.

    A multi-instance has one instance less. A compensation event goes on with its next handler, and is cancelled with
    its last one (Camunda).
    """
    around, was_inner, thrower = moves.place_around(token), token.is_inner, token.data.get("thrower")
    cancel(moves, token)
    if thrower is not None:
        event = moves.rows.token(UUID(thrower))
        if event is not None and not compensation.is_skipped(moves, event):
            _cancel_one(moves, event)
    elif not isinstance(around, Token):
        return
    elif not moves.rows.active(around):
        _cancel_one(moves, around)
    elif was_inner:
        data = around.data
        around.data = {**data, "total": data["total"] - 1, "active": data["active"] - 1}
        moves.rows.touch(around)


def refusal(process: Process, node: Node, change: Change) -> str | None:
    """Why an element can never be started so, because only an event or a compensation begins it; None if it can."""
    around = process.find(node.parent)
    waits = node.is_event_sub_process or (
        around is not None and around.by_event and node.kind is Kind.START_EVENT and node.trigger is not None
    )
    if change is Change.BEFORE and (node.attached_to is not None or waits):
        return "It begins when its event happens and cannot be started."
    if node.for_compensation:
        return "It begins by a compensation, and cannot be started."
    if change is Change.AFTER and node.kind is Kind.EVENT_BASED_GATEWAY:
        return "It is left by the event that happens; start after that event."
    jumps = node.kind is Kind.THROW_EVENT and node.trigger is Trigger.LINK
    if change is Change.AFTER and not process.outgoing(node.id) and not jumps:
        return "No flow leaves it."
    return None


def _scope(moves: Moves, instance: Instance, node: Node, inside: UUID | None) -> Place:
    """Where a token of this element belongs: in the one scope that there is, or in a new one.

    ``inside`` is a scope that is meant, or one around it.
    """
    around = moves.process(instance).find(node.parent)
    if around is None:
        if inside not in (None, instance.id):
            raise BadChange(node.id, f"No scope around it runs as {inside}.")
        return instance
    found = [
        token
        for token in moves.rows.tokens.values()
        if token.instance == instance.id
        and token.element == around.id
        and token.state is State.SCOPE
        and not token.is_body
        and (inside in (None, instance.id) or _is_within(moves, token, inside))
    ]
    if len(found) > 1:
        raise BadChange(node.id, f"{around.id} runs {len(found)} times, so it is ambiguous where to start.")
    if found:
        return found[0]
    if around.loop is not None:
        raise BadChange(node.id, f"{around.id} does not run, and is a multi-instance; start before {around.id}.")
    if around.is_event_sub_process:
        raise BadChange(node.id, f"{around.id} does not run, and begins when its event happens.")
    token = moves.new_token(_scope(moves, instance, around, inside), around.id)
    open_activity(moves, token, around)
    scopes.open_scope(moves, token, around)
    return token


def _is_within(moves: Moves, place: Place, scope: UUID | None) -> bool:
    while isinstance(place, Token):
        if scope in (place.activity, place.id):
            return True
        place = moves.place_around(place)
    return False


def _free_flow(moves: Moves, token: Token, node: Node) -> str:
    """A token that is put before a join counts as one that came by a flow which has none."""
    flows = [flow.id for flow in moves.process(token).incoming(node.id)]
    around = moves.rows.active(moves.place_around(token))
    taken = {other.flow for other in around if other is not token and other.element == node.id}
    return next((flow for flow in flows if flow not in taken), flows[0])
