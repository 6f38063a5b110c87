"""Inputs of a step: the events that can happen to process instances."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from uuid import UUID


class Change(StrEnum):
    """The kind of change that a command makes."""

    CANCEL = "cancel"
    """Removes everything at an element."""
    BEFORE = "before"
    """Creates a token that enters an element."""
    AFTER = "after"
    """Creates a token that leaves an element, as if it were completed."""


@dataclass(frozen=True, slots=True)
class Command:
    """One change by hand. ``variables`` are set for what is started, as a handler there would set them.

    ``activity`` is the arrival that alone is meant: what is cancelled, or the scope around what is started. Without it,
    all that is at the element is cancelled, and there must be only one scope.
    """

    change: Change
    element: str
    variables: dict[str, Any] = field(default_factory=dict)
    activity: UUID | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """A new instance of a definition begins, at its plain start event or at the one that is named.

    With ``commands`` it begins where they say instead.
    """

    instance: UUID
    definition: str
    element: str | None = None
    business_key: str | None = None
    variables: dict[str, Any] = field(default_factory=dict)
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True, slots=True)
class Continue:
    """A CONTINUE job runs: its token begins or leaves its element."""

    token: UUID
    job: UUID


@dataclass(frozen=True, slots=True)
class JobDone:
    """A RUN, EXTERNAL or BATCH job is done, with this result, after it has changed these variables."""

    token: UUID
    job: UUID
    result: Any = None
    changed: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobFailed:
    """A job that a token waits for has no retries left. Not accepted if no event catches that: it is a dead letter."""

    token: UUID
    job: UUID


@dataclass(frozen=True, slots=True)
class ErrorThrown:
    """An external worker, a handler outside or a user's task ends with a BPMN error."""

    token: UUID
    activity: UUID
    code: str
    message: str = ""
    variables: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EscalationThrown:
    """A user's task or a worker escalates, and goes on unless it is interrupted."""

    token: UUID
    activity: UUID
    code: str
    variables: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Triggered:
    """A timer fires, or a message or a signal comes. The fields are those of the job or the subscription."""

    owner: UUID
    element: str
    activity: UUID | None = None
    variables: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Completed:
    """A user task is completed, or a receive task without a message is triggered."""

    token: UUID
    activity: UUID
    variables: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assigned:
    """A user task has got another assignee, or has none any more: its listeners hear of that."""

    token: UUID
    activity: UUID


@dataclass(frozen=True, slots=True)
class Retried:
    """An operator retries the failed step of an element with an incident.

    An element that begins again also begins its boundary timers again.
    """

    token: UUID


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A root instance is cancelled with all that it called.

    If its definition compensates, what is done is undone first, backwards; a second cancellation ends that. With
    ``skip_listeners`` no listener is called in this step (Camunda: skipCustomListeners).
    """

    instance: UUID
    reason: str = ""
    skip_listeners: bool = False


@dataclass(frozen=True, slots=True)
class Modified:
    """An operator modifies an instance. If nothing is left of it, it is cancelled for this reason.

    With ``skip_listeners`` no listener is called in this step (Camunda: skipCustomListeners).
    """

    instance: UUID
    commands: tuple[Command, ...]
    reason: str = ""
    skip_listeners: bool = False


Input = (
    Start
    | Continue
    | JobDone
    | JobFailed
    | ErrorThrown
    | EscalationThrown
    | Triggered
    | Completed
    | Assigned
    | Retried
    | Cancelled
    | Modified
)


def places(events: Iterable[Input]) -> list[UUID] | None:
    """The tokens, or instances, that events are about; None if one of them is about all."""
    found: list[UUID] = []
    for event in events:
        if isinstance(event, Start | Cancelled | Modified):
            return None
        found.append(event.owner if isinstance(event, Triggered) else event.token)
    return found
