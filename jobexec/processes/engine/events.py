"""Events that are waited for: timers, messages and signals."""

from __future__ import annotations

from ..definition import Event, Kind, Node, Process, TimerKind, Trigger
from .exceptions import NoName
from .moves import Moves
from .rows import JobKind, Place, Subscription, SubscriptionKind, Timer

AWAITED = frozenset({Trigger.TIMER, Trigger.MESSAGE, Trigger.SIGNAL})
_SUBSCRIBED = {Trigger.MESSAGE: SubscriptionKind.MESSAGE, Trigger.SIGNAL: SubscriptionKind.SIGNAL}
_WAITING = frozenset({Kind.CATCH_EVENT, Kind.RECEIVE_TASK})


def arm(moves: Moves, owner: Place, node: Node) -> None:
    """From now on, the event of a node can happen to the token or the instance that owns it."""
    if node.event is None or node.trigger not in AWAITED:
        return
    if node.event.trigger is Trigger.TIMER:
        _arm_timer(moves, owner, node, node.event)
    else:
        _subscribe(moves, owner, node, node.event)


def _arm_timer(moves: Moves, owner: Place, node: Node, event: Event) -> None:
    repeats = event.timer is TimerKind.CYCLE and not node.interrupting
    timer = Timer(event.timer or TimerKind.DURATION, moves.value(owner, event.when), repeats)
    moves.add_job(JobKind.TIMER, owner, node.id, node.jobs, timer=timer)


def _subscribe(moves: Moves, owner: Place, node: Node, event: Event) -> None:
    moves.rows.subscribe(
        Subscription(
            id=moves.environment.new_id(),
            kind=_SUBSCRIBED[event.trigger],
            name=name_of(moves, owner, node, event),
            key=None if event.key is None else _key_of(moves, owner, node, event),
            instance=moves.rows.instance(owner).id,
            owner=owner.id,
            element=node.id,
            activity=getattr(owner, "activity", None),
        )
    )


def name_of(moves: Moves, owner: Place, node: Node, event: Event) -> str:
    """The name of a message or a signal, evaluated."""
    name = moves.value(owner, event.name)
    if name is None or name == "":
        raise NoName(node.id, f"The name of its {event.trigger} is empty: {event.name}")
    return str(name)


def _key_of(moves: Moves, owner: Place, node: Node, event: Event) -> str:
    """The key with which a message is waited for. Without one, no message that is published would ever come."""
    key = moves.value(owner, event.key)
    if key is None or key == "" or isinstance(key, bool | list | dict):
        raise NoName(node.id, f"The key of its message must be a text or a number, not {key!r}: {event.key}")
    return str(key)


def starts_by_event(process: Process, scope: str | None) -> list[Node]:
    """The start events of the event sub-processes in a scope."""
    return [start for found in process.event_sub_processes(scope) for start in process.start_events(found.id)]


def arms(process: Process, node: Node) -> bool:
    """Something that outlives a step can hang on a token at this node: a timer, a subscription or a user task."""
    waits = node.kind in (Kind.USER_TASK, Kind.EVENT_BASED_GATEWAY) or (
        node.kind in _WAITING and node.trigger in AWAITED
    )
    return waits or _arms_around(process, node)


def _arms_around(process: Process, node: Node) -> bool:
    around = list(process.boundary_events(node.id))
    if node.kind is Kind.SUB_PROCESS:
        around += starts_by_event(process, node.id)
    return any(event.trigger in AWAITED for event in around)
