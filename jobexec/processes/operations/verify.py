"""Whether a process can run in this project, with the handlers and functions that it has registered."""

from __future__ import annotations

from collections.abc import Iterator

from jobexec import clock
from jobexec.exceptions import InvalidRetryPlan
from jobexec.operations.values.ranking import check_priority
from jobexec.retry import RetryPlan

from ..definition import Node, Problem, Process, TimerKind, Trigger, Value, expressions_in
from ..engine.exceptions import StepError
from ..engine.rows import Timer
from ..expressions import InvalidExpression, parse
from ..handlers import registry
from ..store.history import time_to_live
from ..store.timers import first

_LONGEST_KEY = 200


def problems_of(process: Process) -> Iterator[Problem]:
    """The problems that keep a process from running in this project."""
    if len(process.key) > _LONGEST_KEY:
        yield Problem(process.key, f"The id of a process has at most {_LONGEST_KEY} characters here.", process.line)
    yield from unknown_names(process)
    yield from _wrong_expressions(process)
    yield from _wrong_constants(process)
    yield from _wrong_time_to_live(process)


def unknown_names(process: Process) -> Iterator[Problem]:
    """The service tasks and listeners that a process names, and that are not registered in this process."""
    for node in process.nodes:
        work = node.work
        if work is not None and work.handler is not None and registry.service(work.handler) is None:
            yield Problem(node.id, f"No service task {work.handler!r} is registered in this project.", node.line)
    for element in (process, *process.elements):
        for listener in element.listeners:
            if listener.handler is not None and not registry.is_listener(listener.handler):
                id = getattr(element, "id", process.key)
                yield Problem(id, f"No listener {listener.handler!r} is registered in this project.", element.line)


def _wrong_time_to_live(process: Process) -> Iterator[Problem]:
    if process.history_ttl:
        try:
            time_to_live(process.history_ttl, clock.now())
        except ValueError as error:
            yield Problem(process.key, f"historyTimeToLive: {error}.", process.line)


def _wrong_constants(process: Process) -> Iterator[Problem]:
    """Options and times that are no expressions: what is wrong with them shows now, and not at night."""
    for node in process.nodes:
        for options in (node.jobs, *((node.loop.jobs,) if node.loop else ())):
            for message in (_wrong_plan(options.retry_plan), _wrong_priority(options.priority)):
                if message:
                    yield Problem(node.id, message, node.line)
        if message := _wrong_time(node):
            yield Problem(node.id, message, node.line)
    for message in (_wrong_plan(process.retry_plan), _wrong_priority(process.priority)):
        if message:
            yield Problem(process.key, message, process.line)


def _wrong_time(node: Node) -> str:
    event = node.event
    if event is None or event.trigger is not Trigger.TIMER or not isinstance(event.when, str):
        return ""
    try:
        first(node.id, Timer(event.timer or TimerKind.DURATION, event.when, repeats=False), clock.now())
    except StepError as error:
        return error.message
    return ""


def _wrong_plan(plan: Value) -> str:
    try:
        if isinstance(plan, str):
            RetryPlan.parse(plan)
    except InvalidRetryPlan as error:
        return f"failedJobRetryTimeCycle: {error}"
    return ""


def _wrong_priority(priority: Value) -> str:
    try:
        if isinstance(priority, str | int):
            check_priority(int(priority))
    except ValueError:
        return f"The priority of its jobs is {priority}; expected a whole number up to a million."
    return ""


def _wrong_expressions(process: Process) -> Iterator[Problem]:
    known = registry.functions()
    for element in process.elements:
        for expression in expressions_in(_values(element)):
            try:
                parsed = parse(expression.text, expression.language.value)
            except InvalidExpression as error:
                yield Problem(element.id, str(error), element.line)
                continue
            for name in sorted(parsed.functions - known.keys()):
                message = f"No function {name!r} is registered in this project (in {expression.text})."
                yield Problem(element.id, message, element.line)


def _values(part: object) -> list[object]:
    """All values in the parts of an element."""
    if isinstance(part, tuple | list):
        return [value for item in part for value in _values(item)]
    if hasattr(part, "__dataclass_fields__") and not hasattr(part, "language"):
        return [value for name in part.__dataclass_fields__ for value in _values(getattr(part, name))]
    return [part]
