"""The parts of a node: what it waits for, what it does, how often, and as which job.

Attributes of BPMN are named without their namespace where Camunda, Flowable and Zeebe agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from .values import Expression, Value


class Trigger(StrEnum):
    """What an event is about: the name of its ``...EventDefinition``. FAILURE is ours."""

    TIMER = "timer"
    MESSAGE = "message"
    SIGNAL = "signal"
    ERROR = "error"
    ESCALATION = "escalation"
    TERMINATE = "terminate"
    LINK = "link"
    COMPENSATION = "compensate"
    FAILURE = "failure"
    """Boundary events only: catches BPMN errors of any code, and the job of the activity that failed for good (it has
    no retries left). An edge ``step.failed`` of a flow."""


class TimerKind(StrEnum):
    DATE = "date"
    DURATION = "duration"
    CYCLE = "cycle"


@dataclass(frozen=True, slots=True)
class Mapping:
    """One variable that is passed on: ``camunda:inputParameter``, ``zeebe:input``, ``camunda:in``, ``camunda:out`` …

    ``source`` is a value: ``camunda:in source="a"`` is the expression ``${a}``. ``target`` None stands for
    ``variables="all"``; the source is then ignored. ``local`` is that attribute: the source sees the variables of the
    activity itself only; the target of ``camunda:out`` is then one of these. ``zeebe``: the target may be a place in an
    object, ``order.receipt``.
    """

    target: str | None
    source: Value = None
    local: bool = False
    zeebe: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """An event definition.

    ==================  ================================================================================
    field               in BPMN
    ==================  ================================================================================
    ``trigger``         ``timerEventDefinition``, ``messageEventDefinition``, ...
    ``name``            the name of the ``message`` or ``signal`` that it refers to (not its id), or of the
                        link; may be an expression
    ``key``             ``zeebe:subscription correlationKey``; the key of a flow's ``wait``
    ``timer``           ``timeDate``, ``timeDuration`` or ``timeCycle``
    ``when``            their text; may be an expression
    ``code``            ``errorCode`` or ``escalationCode`` of the ``error`` or ``escalation`` that it refers to; None
                        catches all. On a throwing event it may be an expression.
    ``code_variable``   ``camunda:errorCodeVariable``, ``camunda:escalationCodeVariable``
    ``text_variable``   ``camunda:errorMessageVariable``
    ``text``            ``camunda:errorMessage`` of the ``error`` that is thrown
    ``activity``        ``activityRef`` of a compensation that is thrown; None means all of the scope
    ``inputs``          ``camunda:in`` of a signal or message that is thrown: its variables
    ==================  ================================================================================
    """

    trigger: Trigger
    name: Value = None
    key: Value = None
    timer: TimerKind | None = None
    when: Value = None
    code: Value = None
    code_variable: str | None = None
    text_variable: str | None = None
    text: Value = None
    activity: str | None = None
    inputs: tuple[Mapping, ...] = ()


class Mode(StrEnum):
    """Where a handler runs."""

    STEP = "step"
    """Within the step, in its transaction. The default of BPMN service tasks."""
    OUTSIDE = "outside"
    """In a job of its own, in autocommit (``jobexec:transaction="outside"``). The default of a flow's steps."""
    EXTERNAL = "external"
    """By an external worker (``camunda:type="external"``, ``flowable:type="external-worker"``,
    ``zeebe:taskDefinition``)."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a service, send, script or business rule task does, or a throwing message event.

    =====================  =============================================================================
    field                  in BPMN
    =====================  =============================================================================
    ``handler``            ``camunda:delegateExpression="${name}"`` (the name in it), ``camunda:class``, or the type
                           of ``zeebe:taskDefinition`` that is handled inside. In a flow: the handler's type
    ``expression``         instead of a handler: ``camunda:expression``, or the script of a script task
    ``result_variable``    ``camunda:resultVariable``, ``zeebe:script resultVariable``. Without one, a result that
                           is an object sets variables by its names
    ``mode``               see there
    ``topic``              EXTERNAL: ``camunda:topic``, ``zeebe:taskDefinition type``; may be an expression
    ``headers``            ``zeebe:taskHeaders``, ``camunda:properties``
    ``arguments``          a flow's call: ``{"args": [...], "kwargs": {...}}``; fields of Camunda
                           (``camunda:field``) by their names
    =====================  =============================================================================
    """

    handler: str | None = None
    expression: Expression | None = None
    result_variable: str | None = None
    mode: Mode = Mode.STEP
    topic: Value = None
    headers: dict[str, str] = field(default_factory=dict)
    arguments: Value = None

    @property
    def called_in_step(self) -> str | None:
        """The handler that is called in the transaction of a step, unless it says itself that it never is."""
        return self.handler if self.mode is Mode.STEP else None


@dataclass(frozen=True, slots=True)
class JobOptions:
    """How the jobs of an activity, or of the instances inside a multi-instance, are made.

    =================  ===================================================================================
    field              in BPMN
    =================  ===================================================================================
    ``before``         ``camunda:asyncBefore``, ``camunda:async``, ``flowable:async``
    ``after``          ``camunda:asyncAfter``, ``flowable:asyncLeave``
    ``exclusive``      ``camunda:exclusive``
    ``retries``        ``zeebe:taskDefinition retries``
    ``retry_plan``     ``failedJobRetryTimeCycle`` (camunda, flowable, fox)
    ``priority``       ``camunda:jobPriority``, ``camunda:taskPriority``, ``zeebe:priorityDefinition``
    ``category``       ``flowable:category``, ``jobexec:category``
    =================  ===================================================================================

    All but the first three may be expressions.
    """

    before: bool = False
    after: bool = False
    exclusive: bool = True
    retries: Value = None
    retry_plan: Value = None
    priority: Value = None
    category: Value = None


DEFAULTS = JobOptions()


@dataclass(frozen=True, slots=True)
class Loop:
    """``multiInstanceLoopCharacteristics``, or a flow's ``map``.

    ==================  ================================================================================
    field               in BPMN
    ==================  ================================================================================
    ``sequential``      ``isSequential``
    ``cardinality``     ``loopCardinality``; an expression or a number
    ``collection``      ``camunda:collection`` (the name of a variable is the expression ``${name}``),
                        ``zeebe:loopCharacteristics inputCollection``
    ``item``            ``camunda:elementVariable``, ``inputElement``
    ``result``          ``outputElement``: an expression on the variables of one instance
    ``result_name``     the variable that ``outputElement`` reads, if it reads only one: each instance has its own,
                        which is null at first
    ``results``         ``outputCollection``: the variable that gets the list of all of them. A flow's ``map`` has
                        none if nothing reads it
    ``completion``      ``completionCondition``
    ``first``           the ``loopCounter`` of the first instance: 0 in Camunda 7 and Flowable, 1 in Zeebe
    ``batch``           of a flow's ``map``: a list with more items than this is one batch of jobs with counters,
                        without a token for each item; None for never
    ``jobs``            job options on ``multiInstanceLoopCharacteristics`` itself: of each instance inside. Those
                        of the node are of the body
    ==================  ================================================================================
    """

    sequential: bool = False
    cardinality: Value = None
    collection: Value = None
    item: str | None = None
    result: Expression | None = None
    result_name: str | None = None
    results: str | None = None
    completion: Expression | None = None
    first: int = 0
    batch: int | None = None
    jobs: JobOptions = DEFAULTS


class Binding(StrEnum):
    """Which version a call activity calls: ``calledElementBinding``."""

    LATEST = "latest"
    DEPLOYMENT = "deployment"
    VERSION = "version"
    VERSION_TAG = "versionTag"


@dataclass(frozen=True, slots=True)
class Call:
    """What a call activity calls.

    ``key`` is ``calledElement`` or ``zeebe:calledElement processId``, ``version`` is ``calledElementVersion`` or
    ``calledElementVersionTag``, ``business_key`` is ``camunda:in businessKey``. ``inputs`` and ``outputs`` are
    ``camunda:in`` and ``camunda:out``; ``propagateAllChildVariables`` is an output without a target.
    """

    key: Value
    binding: Binding = Binding.LATEST
    version: Value = None
    business_key: Value = None
    inputs: tuple[Mapping, ...] = ()
    outputs: tuple[Mapping, ...] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a user task, its assignee and candidates, and its name. All fields may be expressions.

    ``camunda:assignee``, ``candidateUsers``, ``candidateGroups``, ``dueDate``, ``followUpDate``, ``priority`` and
    ``formKey``, or the elements of Zeebe with these names. ``fields`` is ``camunda:formData`` as JSON: a list of
    ``{"id", "label", "type", "default", "required", ...}``. ``name`` is that of the element if it is an expression;
    else the element alone has it.
    """

    name: Value = None
    assignee: Value = None
    candidate_users: Value = None
    candidate_groups: Value = None
    due_date: Value = None
    follow_up_date: Value = None
    priority: Value = None
    form_key: Value = None
    fields: Value = None


class When(StrEnum):
    """When a listener is called: ``event`` of ``camunda:executionListener`` and ``camunda:taskListener``."""

    START = "start"
    END = "end"
    TAKE = "take"
    CREATE = "create"
    ASSIGNMENT = "assignment"
    COMPLETE = "complete"
    DELETE = "delete"

    @property
    def is_of_task(self) -> bool:
        """Of a task listener, which alone knows the task."""
        return self not in (When.START, When.END, When.TAKE)


@dataclass(frozen=True, slots=True)
class Listener:
    """A registered listener, or an expression, that is called when something happens at an element."""

    when: When
    handler: str | None = None
    expression: Expression | None = None
