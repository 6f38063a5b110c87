"""Events: start, intermediate, boundary, end; and what they are about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobexec.processes.definition import Event, TimerKind, Trigger, Work

from .element import Element
from .read_extensions import call_mappings
from .read_loops import check_language
from .read_work import read_work
from .reading import Reading

_REFUSED = {
    "cancelEventDefinition": "transactions are not supported",
    "conditionalEventDefinition": "conditional events are not supported",
}
_TIMERS = {"timeDate": TimerKind.DATE, "timeDuration": TimerKind.DURATION, "timeCycle": TimerKind.CYCLE}
_REFUSED_TIMERS = {
    "businessCalendarName": "calendars are not supported",
    "endDate": "write the end into the cycle: R/PT1H/2030-01-01T00:00:00Z",
}


def read_event(element: Element, reading: Reading) -> Event | None:
    """The event definition of an event; None for a plain event, and where one is refused."""
    for reference in element.children("eventDefinitionRef"):
        reference.problem("A shared event definition is not supported; write it into the event.")
    for name, reason in _REFUSED.items():
        for refused in element.children(name):
            refused.problem(f"The element {refused.shown} is not supported: {reason}.")
            refused.discard()
    found = list(element.children(*_READERS))
    for surplus in found[1:]:
        surplus.problem("An event with several event definitions is not supported; use one event for each.")
        surplus.discard()
    return _READERS[found[0].name](found[0], element, reading) if found else None


def thrown_work(element: Element, reading: Reading) -> Work | None:
    """How a throwing event sends its message: as a service task does."""
    definition = next(element.children("messageEventDefinition"), None)
    if definition is None:
        return None
    return read_work(element, reading) or read_work(definition, reading)


def message_event(element: Element, reading: Reading, reference: str | None) -> Event:
    """What waits for a message, or throws one."""
    message = reading.referred(element, "message", reference)
    if message is None:
        return Event(Trigger.MESSAGE)
    subscription = message.zeebe("subscription")
    key = None if subscription is None else subscription.get("correlationKey")
    return Event(
        Trigger.MESSAGE,
        name=reading.value(message, message.get("name")),
        key=reading.value(message, key),
    )


def _message(definition: Element, element: Element, reading: Reading) -> Event:
    if definition.child("operationRef") is not None:
        definition.problem("Operations of web services are not supported; use a registered handler.")
    return message_event(definition, reading, definition.get("messageRef"))


def _signal(definition: Element, element: Element, reading: Reading) -> Event:
    signal = reading.referred(definition, "signal", definition.get("signalRef"))
    definition.vendor_flag("async", False)  # each receiver elsewhere gets a job in any case
    return Event(
        Trigger.SIGNAL,
        name=None if signal is None else reading.value(signal, signal.get("name")),
        inputs=call_mappings(definition, reading, "in"),
    )


def _timer(definition: Element, element: Element, reading: Reading) -> Event:
    found = [(name, child) for name in _TIMERS for child in definition.children(name)]
    definition.refuse_attributes(_REFUSED_TIMERS)
    for _, surplus in found[1:]:
        surplus.problem("A timer has either a date, a duration or a cycle.")
    if not found:
        return Event(Trigger.TIMER)
    name, child = found[0]
    check_language(child)
    child.refuse_attributes(_REFUSED_TIMERS)
    return Event(Trigger.TIMER, timer=_TIMERS[name], when=reading.value(child, child.text))


def _error(definition: Element, element: Element, reading: Reading) -> Event:
    reference = definition.get("errorRef")
    declared = reading.definitions.get(("error", (reference or "").rpartition(":")[2]))
    if declared is None:  # Activiti and Flowable take the code itself
        code, text = reference or None, None
    else:
        code, text = declared.get("errorCode") or None, declared.vendor("errorMessage")
    return Event(
        Trigger.ERROR,
        code=reading.value(definition, code),
        code_variable=definition.vendor("errorCodeVariable"),
        text_variable=definition.vendor("errorMessageVariable"),
        text=reading.value(definition, text),
    )


def _escalation(definition: Element, element: Element, reading: Reading) -> Event:
    declared = reading.referred(definition, "escalation", definition.get("escalationRef"))
    return Event(
        Trigger.ESCALATION,
        code=None if declared is None else reading.value(declared, declared.get("escalationCode")),
        code_variable=definition.vendor("escalationCodeVariable"),
    )


def _terminate(definition: Element, element: Element, reading: Reading) -> Event:
    if definition.vendor_flag("terminateAll", False):
        definition.problem("terminateAll is not supported: a terminate end event ends its own scope.")
    return Event(Trigger.TERMINATE)


def _link(definition: Element, element: Element, reading: Reading) -> Event:
    for each in definition.children("source", "target"):  # they repeat what the names say
        each.discard()
    return Event(Trigger.LINK, name=definition.get("name") or element.get("name"))


def _compensation(definition: Element, element: Element, reading: Reading) -> Event:
    if not definition.flag("waitForCompletion", True):
        definition.problem("A throwing compensation event waits for the compensation: waitForCompletion is true.")
    return Event(Trigger.COMPENSATION, activity=definition.get("activityRef"))


_READERS: dict[str, Callable[[Element, Element, Reading], Any]] = {
    "messageEventDefinition": _message,
    "signalEventDefinition": _signal,
    "timerEventDefinition": _timer,
    "errorEventDefinition": _error,
    "escalationEventDefinition": _escalation,
    "terminateEventDefinition": _terminate,
    "linkEventDefinition": _link,
    "compensateEventDefinition": _compensation,
}
