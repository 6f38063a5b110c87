"""Whether a process can run in this project, with the handlers and functions that it has registered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import InvalidRetryPlan
from jobexec.operations.values.ranking import check_priority
from jobexec.retry import RetryPlan

from ..definition import (
    GATEWAYS,
    Expression,
    Flow,
    JobOptions,
    Kind,
    Language,
    Mode,
    Node,
    Problem,
    Process,
    TimerKind,
    Trigger,
    Value,
    When,
    expressions_in,
)
from ..engine.exceptions import StepError
from ..engine.rows import Timer
from ..expressions import InvalidExpression, parse
from ..expressions.feel_functions import patterns
from ..handlers import registry
from ..store.forms import form_columns
from ..store.history import time_to_live
from ..store.timers import first
from .job_definitions import is_outside

#: As many service tasks in a row may run in one step without a warning.
_IN_A_ROW = 3
_LONGEST, _LONGEST_KEY, _LONGEST_CATEGORY = 255, 200, 128
#: Of an id that is too long.
_SHOWN = 100


def problems_of(process: Process) -> Iterator[Problem]:
    """The problems that keep a process from running in this project."""
    yield from _too_long(process)
    yield from unknown_names(process)
    yield from _wrong_expressions(process)
    yield from _wrong_constants(process)
    yield from _wrong_time_to_live(process)


def _too_long(process: Process) -> Iterator[Problem]:
    """What is stored in columns of a certain length. Expressions are checked when they have a value."""
    texts: list[tuple[Process | Node | Flow, str, Value, int]] = [
        (process, "id", process.key, _LONGEST_KEY),
        (process, "name", process.name, _LONGEST),
        (process, "version tag", process.version_tag, _LONGEST),
        *((element, "id", element.id, _LONGEST) for element in process.elements),
    ]
    for node in process.nodes:
        texts += [
            (node, "category", node.jobs.category, _LONGEST_CATEGORY),
            (node, "category", node.loop.jobs.category if node.loop else None, _LONGEST_CATEGORY),
            (node, "topic", node.work.topic if node.work else None, _LONGEST),
            (node, f"{node.trigger} name", node.event.name if node.event else None, _LONGEST),
        ]
    for element, what, value, longest in texts:
        if isinstance(value, str) and len(value) > longest:
            id = process.key if isinstance(element, Process) else element.id
            yield Problem(id[:_SHOWN], f"Its {what} has more than {longest} characters.", element.line)


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


def long_row(process: Process) -> tuple[str, ...]:
    """The first service tasks of a row that one step runs with its instance locked; empty if no row is too long.

    A task that begins with a job, or does its work in one, begins no row and continues none.
    """
    rows: dict[str, tuple[str, ...]] = {node.id: (node.id,) for node in process.nodes if _works_in_the_step(node)}
    longer = rows
    for _ in range(_IN_A_ROW):
        longer = {id: (id, *longer[then]) for id in rows for then in _next(process, id) if then in longer}
    return next(iter(longer.values()), ())


def _works_in_the_step(node: Node) -> bool:
    work = node.work
    if work is None or work.handler is None or work.mode is Mode.EXTERNAL or node.jobs.before:
        return False
    return not is_outside(work)


def _next(process: Process, id: str) -> Iterator[str]:
    """The elements that a step reaches next, behind gateways."""
    left, seen = ([] if process.node(id).jobs.after else [id]), {id}
    while left:
        for flow in process.outgoing(left.pop()):
            node = process.node(flow.target)
            if node.kind not in GATEWAYS or node.jobs.before:
                yield node.id
            elif node.id not in seen:
                seen.add(node.id)
                left.append(node.id)


def _wrong_time_to_live(process: Process) -> Iterator[Problem]:
    if process.history_ttl:
        try:
            time_to_live(process.history_ttl, clock.now())
        except ValueError as error:
            yield Problem(process.key, f"historyTimeToLive: {error}.", process.line)


def _wrong_constants(process: Process) -> Iterator[Problem]:
    """Options and times that are no expressions: what is wrong with them shows now, and not at night."""
    for node in process.nodes:
        each = (node.jobs, *((node.loop.jobs,) if node.loop else ()))
        wrong = [message for jobs in each for message in _wrong_options(jobs)]
        wrong += [_wrong_time(node), _wrong_form(node)]
        yield from (Problem(node.id, message, node.line) for message in wrong if message)
    for message in (_wrong_plan(process.retry_plan), _wrong_priority(process.priority)):
        if message:
            yield Problem(process.key, message, process.line)


def _wrong_options(jobs: JobOptions) -> tuple[str, str, str]:
    return _wrong_plan(jobs.retry_plan), _wrong_priority(jobs.priority), _wrong_category(jobs.category)


def _wrong_time(node: Node) -> str:
    event = node.event
    if event is None or event.trigger is not Trigger.TIMER or not isinstance(event.when, str):
        return ""
    try:
        first(node.id, Timer(event.timer or TimerKind.DURATION, event.when, repeats=False), clock.now())
    except StepError as error:
        return error.message
    return ""


def _wrong_form(node: Node) -> str:
    if node.kind is Kind.START_EVENT and node.form is not None:
        values = expressions_in([node.form.form_key, node.form.fields])
        told = "The form of a start event knows no variables, because there is no instance yet"
        return next((f"{told} (in {each.text})." for each in values if _needs_instance(each)), "")
    if node.kind is not Kind.USER_TASK:
        return ""
    form = {field.name: getattr(node.form, field.name) for field in fields(node.form)} if node.form else {}
    try:
        known = {name: value for name, value in form.items() if isinstance(value, str | int)}
        form_columns(node.id, node.name if form.get("name") is None else None, known, clock.now())
    except StepError as error:
        return error.message
    return ""


def _needs_instance(expression: Expression) -> bool:
    try:
        return parse(expression.text, expression.language.value).needs_instance
    except InvalidExpression:  # a problem already
        return False


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


def _wrong_category(category: Value) -> str:
    known = get_settings().categories
    if isinstance(category, str) and category not in known:
        expected = f"expected one of {', '.join(known)} (setting CATEGORIES)"
        return f"The category of its jobs is {category[:_SHOWN]!r}; {expected}."
    return ""


def _wrong_expressions(process: Process) -> Iterator[Problem]:
    for element in (process, *process.elements):
        id = process.key if isinstance(element, Process) else element.id
        values = [process.priority, process.retry_plan] if isinstance(element, Process) else _values_of(element)
        told = [message for expression in expressions_in(values) for message in _wrong(expression)]
        for listener in element.listeners:
            if listener.expression is not None:
                told += _wrong(listener.expression, listener.when)
        yield from (Problem(id, message, element.line) for message in dict.fromkeys(told))


def _wrong(expression: Expression, when: When | None = None) -> Iterator[str]:
    """``when`` is that of a listener."""
    try:
        parsed = parse(expression.text, expression.language.value)
    except InvalidExpression as error:
        yield str(error)
        return
    for name in sorted(parsed.functions - registry.functions().keys()):
        if name in patterns.NAMES and expression.language is Language.FEEL:
            yield f"{name}() {patterns.NEEDS} (in {expression.text})."
        else:
            yield f"No function {name!r} is registered in this project (in {expression.text})."
    if not (when and when.is_of_task) and any(name.startswith("task.") for name in parsed.properties):
        yield f"'task' is known to the expressions of task listeners only (in {expression.text})."
    if (when is None or when.is_of_task) and "execution.eventName" in parsed.properties:
        yield f"'execution.eventName' is known to the expressions of execution listeners only (in {expression.text})."


def _values_of(element: Node | Flow) -> list[object]:
    """All values of an element, without those of its listeners."""
    return [
        value
        for name in element.__dataclass_fields__
        if name != "listeners"
        for value in _values(getattr(element, name))
    ]


def _values(part: object) -> list[object]:
    """All values in the parts of an element."""
    if isinstance(part, tuple | list):
        return [value for item in part for value in _values(item)]
    if hasattr(part, "__dataclass_fields__") and not hasattr(part, "language"):
        return [value for name in part.__dataclass_fields__ for value in _values(getattr(part, name))]
    return [part]
