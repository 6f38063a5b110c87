"""Rules about events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..node import EVENTS, Kind, Node
from ..parts import Event, Trigger
from ..problem import Problem, a
from ..process import Process
from ..values import Expression

_ALLOWED: dict[Kind, frozenset[Trigger | None]] = {
    Kind.CATCH_EVENT: frozenset({Trigger.TIMER, Trigger.MESSAGE, Trigger.SIGNAL, Trigger.LINK}),
    Kind.THROW_EVENT: frozenset(
        {None, Trigger.MESSAGE, Trigger.SIGNAL, Trigger.ESCALATION, Trigger.LINK, Trigger.COMPENSATION}
    ),
    Kind.END_EVENT: frozenset(
        {
            None,
            Trigger.MESSAGE,
            Trigger.SIGNAL,
            Trigger.ERROR,
            Trigger.ESCALATION,
            Trigger.TERMINATE,
            Trigger.COMPENSATION,
        }
    ),
    Kind.BOUNDARY_EVENT: frozenset(
        {Trigger.TIMER, Trigger.MESSAGE, Trigger.SIGNAL, Trigger.ERROR, Trigger.ESCALATION, Trigger.FAILURE}
    ),
}
_STARTS: frozenset[Trigger | None] = frozenset({None, Trigger.TIMER, Trigger.MESSAGE, Trigger.SIGNAL})
_STARTS_BY_EVENT: frozenset[Trigger | None] = frozenset(
    {Trigger.TIMER, Trigger.MESSAGE, Trigger.SIGNAL, Trigger.ERROR, Trigger.ESCALATION}
)
_NAMED = frozenset({Trigger.MESSAGE, Trigger.SIGNAL, Trigger.LINK})
_ALWAYS_INTERRUPTING = frozenset({Trigger.ERROR, Trigger.FAILURE})
_CAUGHT_BY_CODE = frozenset({Trigger.ERROR, Trigger.ESCALATION, Trigger.FAILURE})


def triggers_fit(process: Process) -> Iterator[Problem]:
    for node in process.nodes:
        if node.kind in EVENTS and node.trigger not in _allowed(process, node):
            what = f"with {node.trigger}" if node.trigger else "without an event definition"
            yield Problem(node.id, f"This is not supported here: {a(node.kind)} {what}.", node.line)


def _allowed(process: Process, node: Node) -> frozenset[Trigger | None]:
    if node.kind is not Kind.START_EVENT:
        return _ALLOWED[node.kind]
    scope = process.find(node.parent)
    if scope is None:
        return _STARTS
    return _STARTS_BY_EVENT if scope.by_event else frozenset({None})


def events_are_complete(process: Process) -> Iterator[Problem]:
    for node in process.nodes:
        if node.event is not None and (missing := _missing(node, node.event)):
            yield Problem(node.id, missing, node.line)


def _missing(node: Node, event: Event) -> str | None:
    if event.trigger is Trigger.TIMER and (event.timer is None or not event.when):
        return "A timer needs a date, a duration or a cycle."
    throws = node.kind in (Kind.THROW_EVENT, Kind.END_EVENT)
    sends = throws and event.trigger is Trigger.MESSAGE  # its handler or worker knows what
    if event.trigger in _NAMED and not event.name and not sends:
        return f"Its {event.trigger} needs a name."
    if throws and event.trigger in (Trigger.ERROR, Trigger.ESCALATION) and not event.code:
        return f"Throwing {a(event.trigger)} needs a code."
    if sends and node.work is None:
        return "A message that is thrown needs a handler, an expression or a topic."
    return None


def instances_start_at_their_own_start_events(process: Process) -> Iterator[Problem]:
    for node in process.nodes:
        if node.kind is Kind.START_EVENT and node.form is not None and (node.event or node.parent):
            yield Problem(node.id, "Only the plain start event of a process has a form.", node.line)
        if node.kind is Kind.START_EVENT and node.initiator and node.parent:
            yield Problem(node.id, "Only a start event of the process itself has an initiator.", node.line)


def codes_are_plain_where_caught(process: Process) -> Iterator[Problem]:
    for node in process.nodes:
        catches = node.kind in (Kind.BOUNDARY_EVENT, Kind.START_EVENT)
        if catches and node.event is not None and isinstance(node.event.code, Expression):
            yield Problem(node.id, "The code that an event catches cannot be an expression.", node.line)


def scopes_have_starts(process: Process) -> Iterator[Problem]:
    if process.executable and not process.start_events(None):
        yield Problem(process.key, "A process needs a start event.", process.line)
    for scope in (None, *(node.id for node in process.nodes if node.kind is Kind.SUB_PROCESS)):
        plain = [node for node in process.start_events(scope) if node.event is None]
        for node in plain[1:]:
            yield Problem(node.id, "Its scope has another start event without an event definition.", node.line)
        around = process.find(scope)
        if around is not None and len(process.start_events(scope)) != 1:
            yield Problem(around.id, "A sub-process needs one start event.", around.line)


_STARTING = {Trigger.MESSAGE: "message", Trigger.SIGNAL: "signal"}


def starts_differ(process: Process) -> Iterator[Problem]:
    known: set[tuple[Trigger, str]] = set()
    for node in process.start_events(None):
        event = node.event
        if event is None or event.trigger not in _STARTING or not isinstance(event.name, str):
            continue
        if (event.trigger, event.name) in known:
            what = f"{_STARTING[event.trigger]} {event.name!r}"
            yield Problem(node.id, f"Another start event waits for the {what}.", node.line)
        known.add((event.trigger, event.name))


def boundary_events_are_attached(process: Process) -> Iterator[Problem]:
    for node in process.nodes:
        if (node.kind is Kind.BOUNDARY_EVENT) != (node.attached_to is not None):
            yield Problem(node.id, "Boundary events, and only these, must be attached to an activity.", node.line)
        elif node.attached_to is not None and not _can_be_attached(process, node):
            yield Problem(
                node.id,
                f"{node.attached_to!r} is not an activity of its scope that can have boundary events.",
                node.line,
            )


def _can_be_attached(process: Process, node: Node) -> bool:
    activity = process.find(node.attached_to)
    if activity is None or activity.parent != node.parent:
        return False
    return activity.is_activity and not activity.by_event and not activity.for_compensation


def errors_interrupt(process: Process) -> Iterator[Problem]:
    for node in process.nodes:
        if node.trigger in _ALWAYS_INTERRUPTING and _catches_in_place(process, node) and not node.interrupting:
            yield Problem(node.id, f"An event that catches {a(str(node.trigger))} must be interrupting.", node.line)


def _catches_in_place(process: Process, node: Node) -> bool:
    return node.kind in (Kind.BOUNDARY_EVENT, Kind.START_EVENT)


def catchers_differ(process: Process) -> Iterator[Problem]:
    """Two catchers of one code in one place: which of them would catch?"""
    for place in process.nodes:
        if place.is_activity:
            yield from _twins(process.boundary_events(place.id))
    for scope in (None, *(node.id for node in process.nodes if node.kind is Kind.SUB_PROCESS)):
        starts = (process.start_events(event.id) for event in process.event_sub_processes(scope))
        yield from _twins(tuple(start for found in starts for start in found))


def _twins(nodes: tuple[Node, ...]) -> Iterator[Problem]:
    caught = [node for node in nodes if node.event is not None and node.trigger in _CAUGHT_BY_CODE]
    counts = Counter(_caught(node) for node in caught)
    for node in caught:
        if counts[_caught(node)] > 1:
            code = f"the code {node.event.code!r}" if node.event and node.event.code else "all codes"
            yield Problem(
                node.id, f"Another event in this place catches {a(str(node.trigger))} with {code}.", node.line
            )


def _caught(node: Node) -> tuple[Trigger | None, str | None]:
    return node.trigger, str(node.event.code) if node.event and node.event.code else None


def links_meet(process: Process) -> Iterator[Problem]:
    for node in process.nodes:
        if node.trigger is not Trigger.LINK or node.event is None:
            continue
        name = node.event.name
        targets = [
            other
            for other in process.children(node.parent)
            if other.kind is Kind.CATCH_EVENT and other.trigger is Trigger.LINK and other.event
            if other.event.name == name
        ]
        if len(targets) != 1:
            yield Problem(
                node.id, f"{len(targets)} link events of its scope catch {name!r}; expected exactly one.", node.line
            )


RULES = (
    triggers_fit,
    events_are_complete,
    codes_are_plain_where_caught,
    scopes_have_starts,
    instances_start_at_their_own_start_events,
    starts_differ,
    boundary_events_are_attached,
    errors_interrupt,
    catchers_differ,
    links_meet,
)
