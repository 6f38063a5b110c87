"""Multi-instance activities: a body, and in it one token for each instance."""

from __future__ import annotations

from typing import Any

from ..definition import Expression, Loop, Mode, Node, Work
from .boundary import arm_all
from .cancel import cancel_children
from .exceptions import BadLoop, BpmnError
from .moves import Do, Moves
from .rows import JobKind, State, Token


def begin(moves: Moves, token: Token, node: Node) -> None:
    """The body of a multi-instance: it has the boundary events, and counts."""
    assert node.loop is not None
    moves.arrive(token)
    total, items = _extent(moves, token, node, node.loop)
    if node.loop.batch is not None and total > node.loop.batch:
        arm_all(moves, token, node)
        _begin_batch(moves, token, node, items)
        return
    active = min(1, total) if node.loop.sequential else total
    token.data = {**token.data, "total": total, "done": 0, "active": active}
    if node.loop.results is not None:
        token.data["results"] = [None] * total
    if node.loop.sequential and items:
        token.data["items"] = items
    moves.wait(token, State.SCOPE)
    arm_all(moves, token, node)
    if total == 0:
        moves.go(token, Do.COMPLETE)
        return
    first = range(1 if node.loop.sequential else total)
    moves.push_all(Do.ENTER, [_inner(moves, token, node.loop, index, items) for index in first])


def _extent(moves: Moves, token: Token, node: Node, loop: Loop) -> tuple[int, list[Any]]:
    """How many instances, and their items."""
    if loop.collection is not None:
        items = moves.value(token, loop.collection)
        if items is None and loop.batch is not None:  # in a flow, the result of a step that was skipped
            items = []
        if not isinstance(items, list | tuple):
            raise BadLoop(node.id, f"Its collection is not a list, but {type(items).__name__}.")
        return len(items), list(items)
    return _count(node, moves.value(token, loop.cardinality)), []


def _count(node: Node, found: Any) -> int:
    try:
        number = int(found)
    except (TypeError, ValueError):
        raise BadLoop(node.id, f"Its cardinality is not a number, but {found!r}.") from None
    if number < 0:
        raise BadLoop(node.id, f"Its cardinality is {number}.")
    return number


def _begin_batch(moves: Moves, token: Token, node: Node, items: list[Any]) -> None:
    assert node.work is not None and node.loop is not None
    calls = [_arguments(moves, token, node.loop, node.work, index, item) for index, item in enumerate(items)]
    payload = {"handler": node.work.handler, "calls": calls, "atomic": node.work.mode is Mode.STEP}
    token.data = {**token.data, "batch": True}
    moves.wait_for_job(token, JobKind.BATCH, State.OUTSIDE, payload=payload)


def _arguments(moves: Moves, token: Token, loop: Loop, work: Work, index: int, item: Any) -> Any:
    """What the job of one item is called with: it sees what a token of its own would see."""
    own = {"loopCounter": index + loop.first} | ({loop.item: item} if loop.item is not None else {})
    return moves.value(token, work.arguments, moves.rows.scope(token).with_layer(own))


def _inner(moves: Moves, body: Token, loop: Loop, index: int, items: list[Any]) -> Token:
    token = moves.new_token(body, body.element, data={"counter": index + loop.first})
    if items and loop.item is not None:
        moves.rows.set_local(token, loop.item, items[index])
    if loop.result_name is not None:
        moves.rows.set_local(token, loop.result_name, None)
    return token


def one_more(moves: Moves, body: Token, loop: Loop) -> Token:
    """A further instance of a parallel multi-instance that runs. It has no item."""
    data = {**body.data, "total": body.data["total"] + 1, "active": body.data["active"] + 1}
    counters = [token.data.get("counter", 0) for token in moves.rows.children(body)]
    index = max([data["total"] - 1, *(counter - loop.first + 1 for counter in counters)])
    if "results" in data:
        index = len(data["results"])
        data["results"] = [*data["results"], None]
    body.data = data
    moves.rows.touch(body)
    return _inner(moves, body, loop, index, [])


def keep_result(moves: Moves, token: Token, loop: Loop) -> None:
    """One instance is done: its result goes to its place in the list."""
    body = moves.place_around(token)
    assert isinstance(body, Token)
    if loop.results is not None and loop.result is not None:
        results = list(body.data["results"])
        results[token.data["counter"] - loop.first] = moves.evaluate(token, loop.result)
        body.data = {**body.data, "results": results}
        moves.rows.touch(body)


def give_results(moves: Moves, body: Token, loop: Loop) -> None:
    """The body is done: the list of results goes to the scope around it."""
    if loop.results is not None:
        moves.rows.set(moves.place_around(body), loop.results, body.data["results"])


def one_is_over(moves: Moves, token: Token, loop: Loop) -> None:
    """Counts, and asks whether that is enough."""
    body = moves.place_around(token)
    assert isinstance(body, Token)
    done, total = body.data["done"] + 1, body.data["total"]
    left = total - done
    before = body.data
    body.data = {**before, "done": done, "active": min(1, left) if loop.sequential else left}
    moves.rows.touch(body)
    try:
        enough = loop.completion is not None and _are_enough(moves, token, body, loop.completion)
    except BpmnError:  # it is evaluated again when an operator lets the token try again
        body.data = before
        raise
    moves.rows.remove(token)
    if enough or not left:
        cancel_children(moves, body)
        moves.go(body, Do.COMPLETE)
    elif loop.sequential:
        moves.push(Do.ENTER, _inner(moves, body, loop, done, body.data.get("items", [])))


def _are_enough(moves: Moves, token: Token, body: Token, completion: Expression) -> bool:
    """The completion condition. It sees the counts as they are, whatever an instance has of these names.

    It alone also sees them by the names that Zeebe gives them. None is ever terminated: what ends one in another way
    than by its completion ends the whole activity.
    """
    counts = {
        "nrOfInstances": body.data["total"],
        "nrOfCompletedInstances": body.data["done"],
        "nrOfActiveInstances": body.data["active"],
        "numberOfInstances": body.data["total"],
        "numberOfCompletedInstances": body.data["done"],
        "numberOfActiveInstances": body.data["active"],
        "numberOfTerminatedInstances": 0,
    }
    return moves.holds(token, completion, token.element, moves.rows.scope(token).with_layer(counts))
