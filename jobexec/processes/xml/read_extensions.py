"""Vendors' extensions of elements: asynchronous continuations, job options, mappings, listeners, properties.

The elements and attributes of Camunda 7, Flowable and Activiti are the same, or have names that do not collide; those
of Zeebe are others.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobexec.processes.definition import JobOptions, Listener, Mapping, Value, When

from .element import Element
from .reading import Reading, variable

_EXECUTION_EVENTS = {"start": When.START, "end": When.END, "take": When.TAKE}
_TASK_EVENTS = {
    "create": When.CREATE,
    "assignment": When.ASSIGNMENT,
    "complete": When.COMPLETE,
    "delete": When.DELETE,
}
#: What happens to a task in Camunda without a listener here, with what to do instead.
_INSTEAD_OF_EVENTS = {"timeout": "use a timer boundary event that does not interrupt"}
#: Refused wherever they stand, with the reason.
_REFUSED_EXTENSIONS = {
    "connector": "connectors call other systems from the model; use a registered handler",
    "mapException": "handlers raise BpmnError themselves",
    "eventListener": "listeners of the whole engine are receivers of jobexec.processes.signals",
    "errorEventDefinition": "a worker reports an error of BPMN by its code",
    "variableListener": "a variable has no listeners; give one to the activity that sets it",
}
_REFUSED_ATTRIBUTES = {
    "skipExpression": "give the flow around the task a condition",
    "triggerable": "let a receive task or a message event wait after the task",
    "asyncLeaveExclusive": "jobs before and after an activity are exclusive alike",
}
_REFUSED_ZEEBE = {
    "executionListeners": "job workers as listeners are not possible; use a registered listener",
    "taskListeners": "job workers as listeners are not possible; use a registered listener",
    "calledDecision": "decisions (DMN) are not supported; use a registered handler",
    "adHoc": "ad-hoc sub-processes are not supported",
    "conditionalFilter": "conditional events are not supported",
    "userTaskForm": "forms of Camunda are not rendered; use a formKey and a view of the project",
    "linkedResources": "linked resources are not supported",
}


def refuse_extensions(element: Element) -> None:
    for name, reason in _REFUSED_EXTENSIONS.items():
        for found in element.extensions(name):
            found.problem(f"The element {found.shown} is not supported: {reason}.")
            found.discard()
    for name, reason in _REFUSED_ZEEBE.items():
        zeebe = element.zeebe(name)
        if zeebe is not None:
            zeebe.problem(f"The element {zeebe.shown} is not supported: {reason}.")
            zeebe.discard()
    element.refuse_attributes(_REFUSED_ATTRIBUTES)


def job_options(element: Element, reading: Reading) -> JobOptions:
    """The job options on an element, or on its multi-instance characteristics."""
    refuse_extensions(element)
    work = element.zeebe("taskDefinition")
    return JobOptions(
        before=_either_flag(element, "asyncBefore", "async"),
        after=_either_flag(element, "asyncAfter", "asyncLeave"),
        exclusive=element.vendor_flag("exclusive", True),
        retries=_retries(work, reading) if work is not None else None,
        retry_plan=retry_plan(element, reading),
        priority=_priority(element, reading),
        category=_category(element, reading),
    )


def _either_flag(element: Element, *names: str) -> bool:
    """Whether one of the flags is true. An element may have both, so that both are read."""
    return True in [element.vendor_flag(name, False) for name in names]


def _category(element: Element, reading: Reading) -> Value:
    """``jobexec:category``, ``flowable:jobCategory``. The ``flowable:category`` of a user task is one of tasks."""
    found = element.extension("jobCategory")
    vendor = element.vendor("category") if element.name != "userTask" else None
    return reading.value(element, element.own("category") or (found.text if found is not None else vendor))


def retry_plan(element: Element, reading: Reading) -> Value:
    """``failedJobRetryTimeCycle``, an element in each dialect and an attribute of loops in some."""
    found = element.extension("failedJobRetryTimeCycle")
    return reading.value(element, found.text if found is not None else element.vendor("failedJobRetryTimeCycle"))


def _retries(work: Element, reading: Reading) -> Value:
    found = reading.value(work, work.get("retries"))
    if isinstance(found, str):
        if found.isascii() and found.isdigit():
            return int(found)
        work.problem(f"The retries are {found!r}; expected a number or an expression.")
    return found


def _priority(element: Element, reading: Reading) -> Value:
    job, task = element.vendor("jobPriority"), element.vendor("taskPriority")
    if job and task and job != task:
        element.problem(f"jobPriority {job!r} and taskPriority {task!r} differ; an element has one priority.")
    definition = element.zeebe("priorityDefinition") if element.name != "userTask" else None
    zeebe = definition.get("priority") if definition is not None else None
    return number(element, reading, task or job or zeebe, "priority")


def number(element: Element, reading: Reading, text: str | None, what: str) -> Value:
    """A whole number or an expression."""
    found = reading.value(element, text)
    if not isinstance(found, str):
        return found
    try:
        return int(found)
    except ValueError:
        element.problem(f"The {what} is {found!r}; expected a whole number or an expression.")
        return None


def mappings(element: Element, reading: Reading) -> tuple[tuple[Mapping, ...], tuple[Mapping, ...]]:
    """Inputs and outputs: ``camunda:inputOutput``, ``zeebe:ioMapping``."""
    inputs: list[Mapping] = []
    outputs: list[Mapping] = []
    camunda = element.extension("inputOutput")
    if camunda is not None:
        inputs += (_parameter(each, reading) for each in camunda.vendor_children("inputParameter"))
        outputs += (_parameter(each, reading) for each in camunda.vendor_children("outputParameter"))
    zeebe = element.zeebe("ioMapping")
    if zeebe is not None:
        inputs += (_zeebe_mapping(each, reading) for each in zeebe.children("input", namespace=zeebe.namespace or ""))
        outputs += (_zeebe_mapping(each, reading) for each in zeebe.children("output", namespace=zeebe.namespace or ""))
    return tuple(inputs), tuple(outputs)


def _zeebe_mapping(element: Element, reading: Reading) -> Mapping:
    source, target = element.get("source"), element.get("target")
    if not target or not all(target.split(".")):
        element.problem(f"The {element.shown} needs a target.")
    return Mapping(target or "?", reading.value(element, source), zeebe=True)


def _parameter(element: Element, reading: Reading) -> Mapping:
    name = element.get("name")
    if not name:
        element.problem(f"The {element.shown} needs a name.")
    return Mapping(name or "?", _parameter_value(element, reading))


def _parameter_value(element: Element, reading: Reading) -> Value:
    """Text, an expression, a list or a map."""
    for script in element.vendor_children("script"):
        script.problem("A script in a mapping is not supported; use an expression.")
        script.discard()
    items, entries = element.vendor_child("list"), element.vendor_child("map")
    if items is not None:
        for script in items.vendor_children("script"):
            script.problem("A script in a list is not supported; use an expression.")
            script.discard()
        return [reading.value(each, each.text) for each in items.vendor_children("value")]
    if entries is not None:
        return {each.get("key") or "": _parameter_value(each, reading) for each in entries.vendor_children("entry")}
    return reading.value(element, element.text)


def call_mappings(element: Element, reading: Reading, name: str) -> tuple[Mapping, ...]:
    """``camunda:in`` or ``camunda:out`` that pass variables."""
    has_key = element.name == "callActivity" and name == "in"
    found = [_call_mapping(each, reading, has_key) for each in element.extensions(name)]
    return tuple(mapping for mapping in found if mapping is not None)


def _call_mapping(element: Element, reading: Reading, has_key: bool) -> Mapping | None:
    if element.get("businessKey") and not has_key:
        element.problem("Only the camunda:in of a call activity passes a business key; pass it as a variable.")
        return None
    local = element.flag("local", False)
    if element.get("variables"):
        if element.get("variables") != "all":
            element.problem("The variables to pass can only be 'all'.")
        return Mapping(None, local=local)
    source, target = element.get("source"), element.get("target")
    expression = element.get("sourceExpression")
    if element.get("businessKey"):
        return None  # read with the call
    if not target or not (source or expression):
        element.problem(f"The {element.shown} needs a source and a target.")
        return None
    if expression:
        return Mapping(target, reading.value(element, expression), local)
    return Mapping(target, variable(source or ""), local)


def business_key(element: Element, reading: Reading) -> Value:
    """``<camunda:in businessKey="...">``"""
    for each in element.extensions("in"):
        found = each.get("businessKey")
        if found:
            return reading.value(each, found)
    return None


def properties(element: Element) -> dict[str, str]:
    """``camunda:properties``, ``zeebe:properties``; also the category and the ``zeebe:taskHeaders`` of a user task."""
    found = [each for group in element.extensions("properties") for each in group.vendor_children("property")]
    zeebe = element.zeebe("properties")
    if zeebe is not None:
        found += zeebe.children("property", namespace=zeebe.namespace or "")
    of_task = headers(element) if element.name == "userTask" else {}
    category = element.vendor("category") if element.name == "userTask" else None
    return (
        of_task
        | ({"category": category} if category else {})
        | {each.get("name") or each.get("id") or "": each.get("value") or "" for each in found}
    )


def headers(element: Element) -> dict[str, str]:
    """``zeebe:taskHeaders``"""
    group = element.zeebe("taskHeaders")
    if group is None:
        return {}
    found = group.children("header", namespace=group.namespace or "")
    return {each.get("key") or "": each.get("value") or "" for each in found}


def listeners(element: Element, reading: Reading) -> tuple[Listener, ...]:
    taken = When.TAKE if element.name == "sequenceFlow" else ""
    return (
        *_listeners(element.extensions("executionListener"), reading, _EXECUTION_EVENTS, taken),
        *_listeners(element.extensions("taskListener"), reading, _TASK_EVENTS),
    )


def _listeners(
    found: list[Element], reading: Reading, events: dict[str, When], default: str = ""
) -> Iterator[Listener]:
    for element in found:
        name = element.get("event") or default
        for script in element.vendor_children("script"):
            script.problem("A script as a listener is not supported; use a registered listener.")
            script.discard()
        for field in element.vendor_children("field"):
            field.problem("Fields of a listener are not passed on; it reads variables.")
            field.discard()
        if name == "all" and events is _TASK_EVENTS:
            yield from (_listener(element, reading, when) for when in events.values())
        elif name in events:
            yield _listener(element, reading, events[name])
        else:
            instead = f"; {_INSTEAD_OF_EVENTS[name]}" if name in _INSTEAD_OF_EVENTS else ""
            element.problem(f"The event of a listener is {name!r}; expected one of {', '.join(events)}{instead}.")
            element.discard()


def _listener(element: Element, reading: Reading, when: When) -> Listener:
    delegate, class_name = element.get("delegateExpression"), element.get("class")
    handler = reading.dotted_name(element, delegate, "delegateExpression") if delegate else class_name
    return Listener(when, handler, reading.expression(element, element.get("expression"), "expression of a listener"))
