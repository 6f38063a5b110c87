"""Rules about tasks, sub-processes, call activities, loops and compensation."""

from __future__ import annotations

from collections.abc import Iterator

from ..flow import Flow
from ..node import WORKING, Kind, Node
from ..parts import Binding, Call, Loop, Mode, Trigger, When, Work
from ..problem import Problem
from ..process import Process


def work_is_named(process: Process) -> Iterator[Problem]:
    for node in process.nodes:
        if node.kind in WORKING and node.work is None:
            yield Problem(node.id, f"A {node.kind} needs a handler, an expression or a topic.", node.line)
        elif node.work is not None and (message := _incomplete(node.work)):
            yield Problem(node.id, message, node.line)


def _incomplete(work: Work) -> str | None:
    if work.mode is Mode.EXTERNAL:
        return None if work.topic else "The work of an external worker needs a topic."
    if (work.handler is None) == (work.expression is None):
        return "It needs either a handler or an expression."
    if work.mode is Mode.OUTSIDE and work.handler is None:
        return "Only a handler can run outside the step."
    return None


def receive_tasks_wait_for_messages(process: Process) -> Iterator[Problem]:
    """A receive task without a message waits until it is triggered, as in Camunda."""
    for node in process.nodes:
        if node.kind is Kind.RECEIVE_TASK and node.trigger not in (None, Trigger.MESSAGE):
            yield Problem(node.id, "A receive task needs a message.", node.line)


def calls_name_a_process(process: Process) -> Iterator[Problem]:
    for node in process.nodes:
        if node.kind is Kind.CALL_ACTIVITY and (node.call is None or not node.call.key):
            yield Problem(node.id, "A call activity needs the key of the process that it calls.", node.line)
        elif node.call is not None and _lacks_version(node.call):
            yield Problem(node.id, f"The binding {node.call.binding.value!r} needs a version.", node.line)


def _lacks_version(call: Call) -> bool:
    return call.binding in (Binding.VERSION, Binding.VERSION_TAG) and not call.version


def loops_know_how_often(process: Process) -> Iterator[Problem]:
    for node in process.nodes:
        if node.loop is None:
            continue
        if not node.is_activity or node.by_event:
            yield Problem(node.id, "Only activities can be repeated.", node.line)
        if node.loop.cardinality is None and node.loop.collection is None:
            yield Problem(node.id, "A multi-instance needs a cardinality or a collection.", node.line)
        if node.loop.batch is not None and (message := _no_batch(node, node.loop)):
            yield Problem(node.id, message, node.line)
        if node.loop.batch is None and (node.loop.result is None) != (node.loop.results is None):
            yield Problem(
                node.id, "To collect results, a multi-instance needs an expression and a variable.", node.line
            )


def _no_batch(node: Node, loop: Loop) -> str | None:
    if loop.sequential or loop.collection is None or loop.completion is not None:
        return "A batch needs a collection; it is neither sequential nor ended by a condition."
    if node.work is None or node.work.handler is None or node.work.mode is Mode.EXTERNAL:
        return "A batch needs a handler."
    return None


def event_sub_processes_stand_alone(process: Process) -> Iterator[Problem]:
    for node in process.nodes:
        if node.by_event and node.kind is not Kind.SUB_PROCESS:
            yield Problem(node.id, "Only a sub-process can be triggered by an event.", node.line)
        elif node.by_event and (node.jobs.before or node.jobs.after):
            yield Problem(node.id, "An event sub-process is not asynchronous; the elements in it may be.", node.line)


def compensation_has_handlers(process: Process) -> Iterator[Problem]:
    used = {node.compensated_by for node in process.nodes}
    for node in process.nodes:
        if node.compensated_by is not None and not _compensates(process, node):
            yield Problem(
                node.id, f"{node.compensated_by!r} is not an activity for compensation in its scope.", node.line
            )
        if node.for_compensation and node.id not in used:
            yield Problem(node.id, "It is for compensation, but no activity refers to it.", node.line)


def _compensates(process: Process, node: Node) -> bool:
    handler = process.find(node.compensated_by)
    return handler is not None and handler.is_activity and handler.for_compensation and handler.parent == node.parent


def thrown_compensation_is_possible(process: Process) -> Iterator[Problem]:
    for node in process.nodes:
        if node.trigger is not Trigger.COMPENSATION or node.event is None or node.event.activity is None:
            continue
        activity = process.find(node.event.activity)
        if activity is None or not activity.is_activity:
            yield Problem(node.id, f"{node.event.activity!r} is not an activity of this process.", node.line)


def listeners_are_called(process: Process) -> Iterator[Problem]:
    for element in (process, *process.elements):
        id = process.key if isinstance(element, Process) else element.id
        for listener in element.listeners:
            if (listener.handler is None) == (listener.expression is None):
                yield Problem(id, "A listener needs either a handler or an expression.", element.line)
            if listener.when not in _heard(element):
                expected = ", ".join(_heard(element))
                message = f"A listener to {listener.when.value!r} is never called here; expected one of {expected}."
                yield Problem(id, message, element.line)


def _heard(element: Process | Node | Flow) -> tuple[When, ...]:
    """What happens at an element that its listeners are called for."""
    if isinstance(element, Flow):
        return (When.TAKE,)
    if isinstance(element, Node) and element.kind is Kind.USER_TASK:
        return (When.START, When.END, *(when for when in When if when.is_of_task))
    return (When.START, When.END)


RULES = (
    work_is_named,
    receive_tasks_wait_for_messages,
    calls_name_a_process,
    loops_know_how_often,
    event_sub_processes_stand_alone,
    compensation_has_handlers,
    thrown_compensation_is_possible,
    listeners_are_called,
)
