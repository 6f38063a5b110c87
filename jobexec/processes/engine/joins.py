"""Joins: the parallel one counts flows, the inclusive one checks which tokens can still arrive."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..definition import Kind, Node, Process
from .moves import Do, Moves
from .rows import Place, State, Token


def parallel(moves: Moves, token: Token, node: Node) -> None:
    """Goes on when each incoming flow has a token; takes one from each. Surplus tokens stay."""
    incoming = moves.process(token).incoming(node.id)
    if len(incoming) < 2:
        moves.push(Do.COMPLETE, token)
        return
    moves.wait(token, State.JOINED)
    scope = moves.place_around(token)
    # Looking at all tokens for each that arrives would make a fork of n branches cost n².
    known = moves.missing.get((scope.id, node.id))
    missing = len(incoming) - moves.rows.count_joined(scope, node.id) if known is None else known - 1
    moves.missing[scope.id, node.id] = missing
    if missing > 0:
        return
    del moves.missing[scope.id, node.id]
    arrived = _by_flow(_joined(moves, scope, node))
    if len(arrived) >= len(incoming):
        _merge(moves, arrived.values())


def inclusive(moves: Moves, token: Token, node: Node) -> None:
    """Waits; whether it goes on is asked when nothing else moves."""
    if len(moves.process(token).incoming(node.id)) < 2:
        moves.push(Do.COMPLETE, token)
    else:
        moves.wait(token, State.JOINED)


def settle(moves: Moves) -> bool:
    """Continue one inclusive join that no other token can reach; false if there is none."""
    if not any(moves.process(instance).has_inclusive_joins for instance in moves.rows.instances_at_hand):
        return False
    asked: set[tuple[object, str]] = set()
    for token in list(moves.rows.tokens.values()):
        if token.state is not State.JOINED or (token.parent, token.element) in asked:
            continue
        asked.add((token.parent, token.element))
        if _goes_on(moves, token):
            return True
    return False


def _goes_on(moves: Moves, token: Token) -> bool:
    node = moves.node(token)
    if node.kind is not Kind.INCLUSIVE_GATEWAY:
        return False
    scope = moves.place_around(token)
    arrived = _by_flow(_joined(moves, scope, node))
    process = moves.process(token)
    empty = {flow.id for flow in process.incoming(node.id) if flow.id not in arrived}
    before = process.before(empty)
    if any(_can_come(process, other, node, empty, before) for other in moves.rows.active(scope)):
        return False
    _merge(moves, arrived.values())
    return True


def _can_come(process: Process, token: Token, node: Node, empty: Collection[str], before: int) -> bool:
    """A token can still reach the join by a flow that has none yet."""
    if token.element == node.id:  # about to arrive, with a job before it; that of one that has arrived is not empty
        return token.flow in empty
    return process.is_among(token.element, before)


def _joined(moves: Moves, scope: Place, node: Node) -> list[Token]:
    return [token for token in moves.rows.active(scope) if token.element == node.id and token.state is State.JOINED]


def _by_flow(tokens: Iterable[Token]) -> dict[str | None, Token]:
    """The first token of each flow."""
    found: dict[str | None, Token] = {}
    for token in tokens:
        found.setdefault(token.flow, token)
    return found


def _merge(moves: Moves, tokens: Iterable[Token]) -> None:
    """Many become one."""
    first, *others = tokens
    for other in others:
        moves.rows.remove(other)
    moves.go(first, Do.COMPLETE)
