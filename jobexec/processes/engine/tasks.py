"""Tasks: those that run in the step, those that run elsewhere, and those that wait for a user."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..definition import Form, Mode, Node, When, Work
from .environment import Declared, HandlerCall
from .events import arm
from .moves import Do, Moves
from .rows import JobKind, State, Token, UserTask


def nothing(moves: Moves, token: Token, node: Node) -> None:
    """A task, a plain event: done as soon as it begins."""
    moves.push(Do.COMPLETE, token)


def work(moves: Moves, token: Token, node: Node) -> None:
    """A service, send, script or business rule task, or a message that is thrown."""
    assert node.work is not None, f"{node.id} has no work"
    if node.work.mode is Mode.EXTERNAL:
        moves.wait_for_job(token, JobKind.EXTERNAL, State.OUTSIDE, payload=_for_worker(moves, token, node, node.work))
        return
    declared = moves.environment.declared(node.work.handler) if node.work.handler is not None else Declared()
    if node.work.mode is Mode.OUTSIDE or declared.outside:
        payload = {"handler": node.work.handler, "arguments": moves.value(token, node.work.arguments)}
        payload["options"] = declared.options
        moves.wait_for_job(token, JobKind.RUN, State.OUTSIDE, payload=payload)
    else:
        take_result(moves, token, node, _run(moves, token, node, node.work))
        moves.push(Do.COMPLETE, token)


def call_ahead(moves: Moves, token: Token) -> dict[str, Any]:
    """The handler that is called in the step which begins with a job; its arguments, if that job depends on them."""
    node = moves.node(token)
    handler = node.work.called_in_step if node.work is not None else None
    if node.work is None or handler is None or (node.loop is not None and not token.is_inner):
        return {}
    if not moves.environment.declared(handler).by_call:
        return {"handler": handler}
    return {"handler": handler, "arguments": moves.value(token, node.work.arguments)}


def _run(moves: Moves, token: Token, node: Node, work: Work) -> Any:
    if work.expression is not None:
        return moves.evaluate(token, work.expression)
    call = HandlerCall(node, work, moves.value(token, work.arguments), moves.rows.scope(token))
    result = moves.environment.call(call)
    moves.bring(token, call.changed)
    return result


def _for_worker(moves: Moves, token: Token, node: Node, work: Work) -> dict[str, Any]:
    """A worker gets what the inputs name, or all that is visible."""
    visible = moves.rows.variables.get(token.id, {}) if node.inputs else moves.rows.scope(token)
    return {
        "topic": str(moves.value(token, work.topic)),
        "headers": work.headers,
        "variables": dict(visible),
        "arguments": moves.value(token, work.arguments),
    }


def take_result(moves: Moves, token: Token, node: Node, result: Any) -> None:
    """The result of a handler becomes a variable, or, if it is an object and no variable is named, several.

    Where a multi-instance collects results, the variable stays inside: each of its instances has its own. So it does
    where outputs say what leaves the activity (Zeebe).
    """
    name = node.work.result_variable if node.work is not None else None
    if token.data.get("batch") and node.loop is not None:
        name = node.loop.results
    if name is not None:
        if token.is_inner and node.loop is not None and node.loop.result is not None:
            moves.rows.set_local(token, name, result)
        else:
            moves.bring(token, {name: result}, node)
    elif isinstance(result, Mapping):
        moves.bring(token, result, node)


def user_task(moves: Moves, token: Token, node: Node) -> None:
    form = node.form or Form()
    values = {
        field.name: value
        for field in dataclasses.fields(form)
        if (value := moves.value(token, getattr(form, field.name))) is not None
    }
    task = UserTask(
        id=moves.environment.new_id(),
        instance=token.instance,
        owner=token.id,
        element=node.id,
        activity=token.activity,
        name=node.name if form.name is None else values.pop("name", None),
        form=values,
    )
    moves.rows.add_task(task)
    moves.wait(token)
    moves.notify(When.CREATE, token, node)
    if task.form.get("assignee"):
        moves.notify(When.ASSIGNMENT, token, node)


def receive(moves: Moves, token: Token, node: Node) -> None:
    """A receive task, or an intermediate event that waits for a timer, a message or a signal."""
    arm(moves, token, node)
    moves.wait(token)
