"""The rows of process instances, as values. Their names are those of the tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from ..definition import TimerKind


class State(StrEnum):
    """The state of a token."""

    MOVING = "moving"
    """Only within a step: when it ends, no token moves."""
    WAITING = "waiting"
    """For a message, a signal, a timer, a user, a called instance, or its own compensation."""
    BEFORE = "before"
    """Has a job that begins the element."""
    AFTER = "after"
    """Has a job that leaves the element."""
    OUTSIDE = "outside"
    """Its handler runs in a job of its own, at an external worker, or as a batch."""
    JOINED = "joined"
    """Has arrived at a join that still waits for others."""
    SCOPE = "scope"
    """Has children."""
    FAILED = "failed"
    """Threw an error that is not caught: there is an incident."""
    COMPENSABLE = "compensable"
    """No token any more, but the memory of an activity that is done and can be undone."""


AT_JOBS = frozenset({State.BEFORE, State.AFTER, State.OUTSIDE})
#: States of rows at which nothing waits: a scope is where its content is, and what is done does not wait.
NOT_WAITING = (State.SCOPE.value, State.COMPENSABLE.value)


class InstanceState(StrEnum):
    ACTIVE = "active"
    COMPENSATING = "compensating"
    """Cancelled, and undoing what was done."""
    COMPLETED = "completed"
    TERMINATED = "terminated"
    """By a terminate end event."""
    CANCELLED = "cancelled"


RUNNING = frozenset({InstanceState.ACTIVE, InstanceState.COMPENSATING})


@dataclass(slots=True)
class Instance:
    """One run of a process. It is also its own outermost scope: its tokens and variables name it as their parent."""

    id: UUID
    definition: str
    root: UUID
    parent: UUID | None = None
    """The token of the call activity that called it."""
    business_key: str | None = None
    state: InstanceState = InstanceState.ACTIVE
    started_at: datetime | None = None
    ended_at: datetime | None = None
    end_element: str | None = None
    reason: str | None = None
    final_variables: dict[str, Any] | None = None


@dataclass(slots=True)
class Token:
    """An execution, which is at an element. ``parent`` is the scope around it: a token or the instance.

    ``data`` has, of the body of a multi-instance, ``total``, ``done``, ``active``, ``results`` and ``items``; of an
    instance inside it ``counter``; of what is COMPENSABLE ``order``; of a compensation that runs ``thrower``, and of
    both ``index``, the counter that the activity had; of what is FAILED ``again``: where it goes on; ``ended`` if a
    listener to its end has thrown an error.
    """

    id: UUID
    instance: UUID
    parent: UUID
    element: str
    flow: str | None = None
    state: State = State.MOVING
    activity: UUID | None = None
    """The id of this arrival: of its history row, its timers and its subscriptions."""
    entered_at: datetime | None = None
    job: UUID | None = None
    called: UUID | None = None
    data: dict[str, Any] = field(default_factory=dict)
    alive: bool = True
    ran: UUID | None = None
    """In a step: the job that has begun or done what the token is at."""

    @property
    def is_body(self) -> bool:
        return "total" in self.data

    @property
    def is_inner(self) -> bool:
        """It is one of the instances of a multi-instance."""
        return "counter" in self.data


#: A scope, or what is in one.
Place = Token | Instance


class SubscriptionKind(StrEnum):
    MESSAGE = "message"
    SIGNAL = "signal"


@dataclass(frozen=True, slots=True)
class Subscription:
    """Waits for a message or a signal. ``owner`` is the token, or the instance, that it belongs to."""

    id: UUID
    kind: SubscriptionKind
    name: str
    key: str | None
    instance: UUID
    owner: UUID
    element: str
    activity: UUID | None


class JobKind(StrEnum):
    CONTINUE = "continue"
    RUN = "run"
    EXTERNAL = "external"
    BATCH = "batch"
    TIMER = "timer"


@dataclass(frozen=True, slots=True)
class Timer:
    """When a timer fires: its text, evaluated. ``repeats`` is true of a cycle that goes on after it has fired."""

    kind: TimerKind
    when: Any
    repeats: bool


@dataclass(frozen=True, slots=True)
class Job:
    """A job that the step makes.

    ``owner`` is the token, or the instance, that it belongs to. ``element`` is the one that it begins, leaves, runs or
    triggers. ``payload`` has, of RUN, EXTERNAL and BATCH, the arguments and what else the handler needs; of CONTINUE,
    the handler that its step calls, with the arguments if its function decides by them what its jobs share.
    """

    id: UUID
    kind: JobKind
    instance: UUID
    owner: UUID
    element: str
    activity: UUID | None = None
    exclusive: bool = True
    retries: Any = None
    retry_plan: Any = None
    priority: Any = None
    category: Any = None
    timer: Timer | None = None
    payload: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UserTask:
    """An open user task; its form is evaluated."""

    id: UUID
    instance: UUID
    owner: UUID
    element: str
    activity: UUID | None
    name: str | None
    form: dict[str, Any]


class ActivityState(StrEnum):
    COMPLETED = "completed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ActivityInstance:
    """The history of one arrival, written when it is over. ``parent`` is the arrival of the scope around it."""

    id: UUID
    instance: UUID
    parent: UUID | None
    element: str
    kind: str
    started_at: datetime
    ended_at: datetime
    state: ActivityState
    called: UUID | None = None
    job: UUID | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """A token that cannot go on without an operator."""

    instance: UUID
    owner: UUID
    element: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal for all that wait for it beyond this call hierarchy."""

    name: str
    variables: dict[str, Any]
