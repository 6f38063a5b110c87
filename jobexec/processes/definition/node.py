"""A node of a process: an activity, a gateway or an event."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .parts import DEFAULTS, Call, Event, Form, JobOptions, Listener, Loop, Mapping, Trigger, Work


class Kind(StrEnum):
    """The name of the element in BPMN, which is also the type in the history."""

    TASK = "task"
    MANUAL_TASK = "manualTask"
    SERVICE_TASK = "serviceTask"
    SEND_TASK = "sendTask"
    SCRIPT_TASK = "scriptTask"
    BUSINESS_RULE_TASK = "businessRuleTask"
    RECEIVE_TASK = "receiveTask"
    USER_TASK = "userTask"
    CALL_ACTIVITY = "callActivity"
    SUB_PROCESS = "subProcess"
    EXCLUSIVE_GATEWAY = "exclusiveGateway"
    PARALLEL_GATEWAY = "parallelGateway"
    INCLUSIVE_GATEWAY = "inclusiveGateway"
    EVENT_BASED_GATEWAY = "eventBasedGateway"
    START_EVENT = "startEvent"
    CATCH_EVENT = "intermediateCatchEvent"
    THROW_EVENT = "intermediateThrowEvent"
    BOUNDARY_EVENT = "boundaryEvent"
    END_EVENT = "endEvent"


#: The property of a sub-process of a flow with which the instance does not end well; its value says why.
TERMINATES = "jobexec:terminates"

WORKING = frozenset({Kind.SERVICE_TASK, Kind.SEND_TASK, Kind.SCRIPT_TASK, Kind.BUSINESS_RULE_TASK})
ACTIVITIES = WORKING | {
    Kind.TASK,
    Kind.MANUAL_TASK,
    Kind.RECEIVE_TASK,
    Kind.USER_TASK,
    Kind.CALL_ACTIVITY,
    Kind.SUB_PROCESS,
}
GATEWAYS = frozenset({Kind.EXCLUSIVE_GATEWAY, Kind.PARALLEL_GATEWAY, Kind.INCLUSIVE_GATEWAY, Kind.EVENT_BASED_GATEWAY})
EVENTS = frozenset({Kind.START_EVENT, Kind.CATCH_EVENT, Kind.THROW_EVENT, Kind.BOUNDARY_EVENT, Kind.END_EVENT})


@dataclass(frozen=True)
class Node:
    """An element that a token can be at. Its flows are found by the process, not here.

    ====================  ==============================================================================================
    field                 in BPMN
    ====================  ==============================================================================================
    ``id``, ``name``      the same
    ``kind``              the name of the element. A ``transaction`` is refused until it can be cancelled
    ``parent``            the id of the sub-process around it; None: the process itself
    ``default``           ``default``: the id of the flow that is taken if no condition holds
    ``event``             its event definition; None for a plain start, end or throw event. A receive task has its
                          message here (``messageRef``)
    ``attached_to``       ``attachedToRef`` of a boundary event
    ``interrupting``      ``cancelActivity`` of a boundary event, ``isInterrupting`` of the start event of an event
                          sub-process
    ``by_event``          ``triggeredByEvent``: the sub-process is an event sub-process
    ``work``              what a service, send, script or business rule task does; also of throwing message events
    ``form``              the form and the people of a user task; the form of a start event
    ``initiator``         ``camunda:initiator`` of a start event: the variable that gets the user who starts
    ``call``              what a call activity calls
    ``loop``              ``multiInstanceLoopCharacteristics``
    ``jobs``              asynchronous continuations and job options
    ``inputs``            ``camunda:inputParameter``, ``zeebe:input``: local variables, set at the entry
    ``outputs``           ``camunda:outputParameter``, ``zeebe:output``: set in the scope around it at the end
    ``listeners``         execution and task listeners
    ``compensated_by``    the id of the activity that undoes this one: the target of the association that starts at its
                          compensation boundary event (which is no node of its own); a flow's ``compensate=``
    ``for_compensation``  ``isForCompensation``: no flow leads to it
    ``lane``              the name of its lane
    ``line``              its line in the file; not part of its identity, and not stored
    ====================  ==============================================================================================
    """

    id: str
    kind: Kind
    name: str | None = None
    parent: str | None = None
    default: str | None = None
    event: Event | None = None
    attached_to: str | None = None
    interrupting: bool = True
    by_event: bool = False
    work: Work | None = None
    form: Form | None = None
    initiator: str | None = None
    call: Call | None = None
    loop: Loop | None = None
    jobs: JobOptions = DEFAULTS
    inputs: tuple[Mapping, ...] = ()
    outputs: tuple[Mapping, ...] = ()
    listeners: tuple[Listener, ...] = ()
    compensated_by: str | None = None
    for_compensation: bool = False
    lane: str | None = None
    documentation: str | None = None
    properties: dict[str, Any] = field(default_factory=dict)
    line: int | None = field(default=None, compare=False)

    @property
    def is_activity(self) -> bool:
        return self.kind in ACTIVITIES

    @property
    def keeps_variables(self) -> bool:
        """Whether what its work, its message or its user brings stays in it, except for its outputs, as in Zeebe."""
        return any(mapping.zeebe for mapping in self.outputs)

    @property
    def is_event_sub_process(self) -> bool:
        return self.kind is Kind.SUB_PROCESS and self.by_event

    @property
    def trigger(self) -> Trigger | None:
        """What its event is about; None for a plain event, and for what is no event."""
        return self.event.trigger if self.event else None
