"""What an operator changes by hand: tokens that are gone, and others that begin or leave elements (Camunda's rules)."""

from __future__ import annotations

from collections.abc import Iterable

from ..definition import Kind, Node, Trigger
from . import scopes
from .arrivals import open_activity
from .cancel import cancel, end_instance
from .exceptions import BadChange
from .inputs import Change, Command, Modified
from .moves import Do, Moves
from .rows import Instance, InstanceState, State, Token
from .tokens import Place

_JOINS = frozenset({Kind.PARALLEL_GATEWAY, Kind.INCLUSIVE_GATEWAY})


def modify(moves: Moves, event: Modified) -> bool:
    """One after the other, then everything that was started moves; an instance without a token has ended."""
    instance = moves.rows.instances.get(event.instance)
    if instance is None or instance.state is not InstanceState.ACTIVE:
        return False
    apply(moves, instance, event.commands)
    if not moves.rows.active(instance):
        if instance.parent is not None:
            raise BadChange(event.commands[-1].element, "Nothing would be left of this instance, which was called.")
        end_instance(moves, instance, InstanceState.CANCELLED, reason=event.reason)
    return True


def apply(moves: Moves, instance: Instance, commands: Iterable[Command]) -> None:
    """What is started is pushed onto the agenda, the first of it on top."""
    started = []
    for command in commands:
        node = moves.process(instance).find(command.element)
        if node is None:
            raise BadChange(command.element, "There is no such element in the process.")
        if command.change is Change.CANCEL:
            _cancel_all(moves, instance, node)
            continue
        _check_start(moves, instance, node, command.change)
        token = moves.new_token(_scope(moves, instance, node), node.id)
        if command.change is Change.BEFORE and node.kind in _JOINS:
            token.flow = _free_flow(moves, token, node)
        moves.set_all(token, command.variables)
        started.append((Do.ENTER if command.change is Change.BEFORE else Do.DEPART, token))
    for what, token in reversed(started):
        moves.push(what, token)


def _cancel_all(moves: Moves, instance: Instance, node: Node) -> None:
    standing = [
        token
        for token in moves.rows.tokens.values()
        if token.instance == instance.id and token.element == node.id and token.state is not State.COMPENSABLE
    ]
    if not standing:
        raise BadChange(node.id, "Nothing stands at this element that could be cancelled.")
    for token in standing:
        if token.alive:  # the instances of a multi-instance go with its body
            around = moves.place_around(token)
            cancel(moves, token)
            _cancel_empty(moves, around)


def _cancel_empty(moves: Moves, place: Place) -> None:
    """A scope in which nothing is left is cancelled, too, and so on outward; the instance itself is not."""
    while isinstance(place, Token) and not moves.rows.active(place):
        around = moves.place_around(place)
        is_inner = place.is_inner
        cancel(moves, place)
        if is_inner and isinstance(around, Token) and moves.rows.active(around):
            data = around.data
            around.data = {**data, "total": data["total"] - 1, "active": data["active"] - 1}
            moves.rows.touch(around)
        place = around


def _check_start(moves: Moves, instance: Instance, node: Node, change: Change) -> None:
    """Refuse what only an event or a compensation can begin."""
    process = moves.process(instance)
    around = process.find(node.parent)
    waits = node.is_event_sub_process or (
        around is not None and around.by_event and node.kind is Kind.START_EVENT and node.trigger is not None
    )
    if change is Change.BEFORE and (node.attached_to is not None or waits):
        raise BadChange(node.id, "It begins when its event happens, and cannot be started.")
    if node.for_compensation:
        raise BadChange(node.id, "It begins by a compensation, and cannot be started.")
    if change is Change.AFTER and node.kind is Kind.EVENT_BASED_GATEWAY:
        raise BadChange(node.id, "It is left by the event that happens; start after that event.")
    jumps = node.kind is Kind.THROW_EVENT and node.trigger is Trigger.LINK
    if change is Change.AFTER and not process.outgoing(node.id) and not jumps:
        raise BadChange(node.id, "No flow leaves it.")


def _scope(moves: Moves, instance: Instance, node: Node) -> Place:
    """Where a token of this element belongs: in the one scope that there is, or in a new one."""
    around = moves.process(instance).find(node.parent)
    if around is None:
        return instance
    found = [
        token
        for token in moves.rows.tokens.values()
        if token.instance == instance.id
        and token.element == around.id
        and token.state is State.SCOPE
        and not token.is_body
    ]
    if len(found) > 1:
        raise BadChange(node.id, f"{around.id} runs {len(found)} times, so it is not clear in which of them to start.")
    if found:
        return found[0]
    if around.loop is not None:
        raise BadChange(node.id, f"{around.id} does not run, and is a multi-instance; start before {around.id}.")
    if around.is_event_sub_process:
        raise BadChange(node.id, f"{around.id} does not run, and begins when its event happens.")
    token = moves.new_token(_scope(moves, instance, around), around.id)
    open_activity(moves, token, around)
    scopes.open_scope(moves, token, around)
    return token


def _free_flow(moves: Moves, token: Token, node: Node) -> str:
    """A token that is put before a join counts as one that came by a flow which has none."""
    flows = [flow.id for flow in moves.process(token).incoming(node.id)]
    around = moves.rows.active(moves.place_around(token))
    taken = {other.flow for other in around if other is not token and other.element == node.id}
    return next((flow for flow in flows if flow not in taken), flows[0])
