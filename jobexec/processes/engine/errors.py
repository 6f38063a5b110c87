"""Errors, failures and escalations, and the events that catch them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..definition import Kind, Node, Trigger, When
from . import boundary, calls, scopes
from .events import starts_by_event
from .exceptions import BpmnError, UncaughtError
from .moves import Do, Moves
from .rows import ActivityState, Place, State, Token

Catchers = tuple[Node, ...]
Choice = Callable[[Catchers], Node | None]


def throw_error(moves: Moves, token: Token, error: BpmnError, during: Do = Do.BEGIN) -> None:
    """The nearest catcher gets it. If there is none, the token waits for an operator, who lets it try again."""

    def choice(catchers: Catchers) -> Node | None:
        return _by_code(catchers, Trigger.ERROR, error.code) or _by_code(catchers, Trigger.FAILURE, None)

    found = _catcher(moves, token, choice)
    if found is not None:
        _leave_behind(moves, token)
        _give_back(moves, token, found[0])
        _catch(moves, *found, code=error.code, text=error.message, variables=error.variables)
    elif _is_not_tried_again(moves, token, during):
        raise UncaughtError(token.element, error.uncaught)
    else:
        token.data = {**token.data, "again": _again(moves, token, during).name}
        moves.report(token, "unhandledError", error.uncaught)


def _is_not_tried_again(moves: Moves, token: Token, during: Do) -> bool:
    """Who completes a user's task hears of the error. Of a called instance that has ended, nothing is left later."""
    if moves.node(token).kind is Kind.USER_TASK:
        return token.activity is not None
    return during is Do.COMPLETE and "ended" not in token.data and moves.rows.called_by(token) is not None


def _again(moves: Moves, token: Token, during: Do) -> Do:
    """What an operator lets it do again. An event behind a gateway has happened; it is not waited for once more."""
    if during is not Do.DECIDE:
        return during
    return Do.COMPLETE if moves.node(token).kind is Kind.CATCH_EVENT else Do.BEGIN


def _leave_behind(moves: Moves, token: Token) -> None:
    """An end event has done what it had to do, unless the error is that of a listener to its end."""
    node = moves.node(token)
    if node.kind is Kind.END_EVENT and token.activity is not None and "ended" not in token.data:
        moves.notify(When.END, token, node)
        moves.record(token, ActivityState.COMPLETED)


def fail(moves: Moves, token: Token) -> bool:
    """The job of a token failed for good. Returns whether an event catches that."""
    found = _catcher(moves, token, lambda catchers: _by_code(catchers, Trigger.FAILURE, None))
    if found is not None:
        token.job, token.ran = None, token.job
        _give_back(moves, token, found[0])
        _catch(moves, *found, code=None, text=None, variables={})
    return found is not None


def escalate(moves: Moves, token: Token, code: str, variables: dict[str, Any]) -> None:
    """The nearest catcher gets it. Without one it only takes the variables of called instances to their callers."""
    found = _catcher(moves, token, lambda catchers: _by_code(catchers, Trigger.ESCALATION, code))
    _give_back(moves, token, None if found is None else found[0])
    if found is not None:
        _catch(moves, *found, code=code, text=None, variables=variables)


def end_with_error(moves: Moves, token: Token, node: Node) -> None:
    assert node.event is not None
    raise BpmnError(str(moves.value(token, node.event.code)), str(moves.value(token, node.event.text) or ""))


def throw_escalation(moves: Moves, token: Token, node: Node) -> None:
    """Who throws it goes on, unless it is interrupted."""
    assert node.event is not None
    moves.push(Do.COMPLETE, token)
    escalate(moves, token, str(moves.value(token, node.event.code)), {})


def _catcher(moves: Moves, token: Token, choice: Choice) -> tuple[Place, Node] | None:
    for place, catchers in _places(moves, token):
        if (event := choice(catchers)) is not None:
            if moves.rows.instance(place).id != token.instance:
                moves.cross(place)
            return place, event
    return None


def _give_back(moves: Moves, token: Token, upto: Place | None) -> None:
    """What leaves called instances on its way to who catches it, or to the outermost, takes their variables along.

    The source is Camunda 7, which maps them also then; in Zeebe they stay.
    """
    last = None if upto is None else moves.rows.instance(upto)
    instance = moves.rows.instance(token)
    while instance is not last and instance.parent is not None:
        caller = moves.rows.place(instance.parent)
        assert isinstance(caller, Token)
        calls.give_back(moves, caller, moves.node(caller), thrown=True)
        instance = moves.rows.instance(caller)


def _places(moves: Moves, token: Token) -> Iterator[tuple[Place, Catchers]]:
    """From a token outward, across calls: the events that may catch in each place.

    An event sub-process does not catch what is thrown in itself.
    """
    place: Place | None = token
    came_from: str | None = None
    while place is not None:
        if not isinstance(place, Token):
            yield place, _in_scope(moves, place, None, came_from)
            place = moves.rows.token(place.parent) if place.parent is not None else None
            continue
        if place.state is State.SCOPE and not place.is_body:
            yield place, _in_scope(moves, place, place.element, came_from)
        if _has_begun(place):
            yield place, moves.process(place).boundary_events(place.element)
        came_from = place.element
        place = moves.place_around(place)


def _has_begun(token: Token) -> bool:
    """Its boundary events can catch; those of a multi-instance are at its body."""
    return not token.is_inner and (token.activity is not None or token.state is State.BEFORE)


def _in_scope(moves: Moves, scope: Place, element: str | None, came_from: str | None) -> Catchers:
    return tuple(start for start in starts_by_event(moves.process(scope), element) if start.parent != came_from)


def _by_code(catchers: Catchers, trigger: Trigger, code: str | None) -> Node | None:
    """The one with the code before the one for all."""
    events = [(node, node.event) for node in catchers if node.event is not None and node.trigger is trigger]
    for node, event in events:
        if event.code is not None and str(event.code) == code:
            return node
    return next((node for node, event in events if event.code is None), None)


def _catch(
    moves: Moves, place: Place, node: Node, code: str | None, text: str | None, variables: dict[str, Any]
) -> None:
    assert node.event is not None
    told = {
        name: value
        for name, value in ((node.event.code_variable, code), (node.event.text_variable, text))
        if name is not None
    }
    if node.kind is Kind.BOUNDARY_EVENT:
        assert isinstance(place, Token)
        boundary.fire(moves, place, node, {**variables, **told})
    else:
        scopes.start_event_sub_process(moves, place, node, variables, told)
