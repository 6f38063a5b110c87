"""The state shared by all behaviours: the rows, the environment, and what is still to be done in this step.

A behaviour does not call another: it pushes what comes next onto the agenda, and the loop of the step takes it from
there. So a process of a thousand elements needs no deep stack, and what was removed meanwhile is not done.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Variables
from datetime import datetime
from enum import Enum, auto
from typing import Any
from uuid import UUID

from ..definition import Expression, Flow, JobOptions, Listener, Mapping, Node, Process, Value, When
from .environment import Environment, Notice, Scope
from .exceptions import BpmnError, NoCondition, TooManyMoves, UncaughtError
from .rows import ActivityInstance, ActivityState, Incident, Instance, Job, JobKind, Place, State, Token
from .tokens import Tokens

MAX_MOVES = 10_000


class Do(Enum):
    """What is to be done with a token."""

    ENTER = auto()
    BEGIN = auto()
    COMPLETE = auto()
    DEPART = auto()
    DECIDE = auto()
    TRIGGER = auto()
    COMPENSATE = auto()


class Moves:
    """One step: the rows that it changes, and its agenda."""

    def __init__(self, rows: Tokens, environment: Environment) -> None:
        self.rows = rows
        self.environment = environment
        self.now: datetime = environment.now()
        self.agenda: list[tuple[Do, Place, Any]] = []
        self.missing: dict[tuple[UUID, str], int] = {}
        """Of a parallel join in a scope: how many tokens it lacks at least, since it was last looked at."""
        self.held: dict[UUID, bool] = {}
        """Whether the instances are suspended that others of the hierarchy move in this step."""
        self.skip_listeners = False
        """Whether the present event says that no listener is called."""
        self._processes: dict[str, Process] = {}
        self._flows_taken = 0

    # The agenda: the last that is pushed is done first.

    def push(self, what: Do, place: Place, argument: Any = None) -> None:
        self.agenda.append((what, place, argument))

    def push_all(self, what: Do, tokens: Iterable[Token]) -> None:
        """The first of them is done first, and all that follows from it."""
        for token in reversed(list(tokens)):
            self.push(what, token)

    def start_counting(self) -> None:
        """Another event begins, which may take as many flows as the one before."""
        self._flows_taken = 0

    def count_flow(self, flow: Flow) -> None:
        self._flows_taken += 1
        if self._flows_taken > MAX_MOVES:
            raise TooManyMoves(flow.id, f"{MAX_MOVES:,} flows were taken without a wait: this is an endless loop.")

    # The definition

    def process(self, place: Place) -> Process:
        id = self.rows.instance(place).definition
        if id not in self._processes:
            self._processes[id] = self.environment.process(id)
        return self._processes[id]

    def node(self, token: Token) -> Node:
        """The element that a token is at."""
        return self.process(token).node(token.element)

    def options(self, token: Token) -> JobOptions:
        """The job options of an activity; inside a multi-instance, those of each instance."""
        node = self.node(token)
        return node.loop.jobs if node.loop and token.is_inner else node.jobs

    # Tokens

    def new_token(self, scope: Place, element: str, **columns: Any) -> Token:
        instance = self.rows.instance(scope)
        return self.rows.add(Token(self.environment.new_id(), instance.id, scope.id, element, **columns))

    def arrive(self, token: Token) -> None:
        """An element begins: the arrival gets an id and a time."""
        token.activity = self.environment.new_id()
        token.entered_at = self.now
        self.rows.touch(token)

    def wait(self, token: Token, state: State = State.WAITING) -> None:
        token.state = state
        self.rows.touch(token)

    def go(self, token: Token, what: Do) -> None:
        """A token that waited goes on."""
        token.state = State.MOVING
        self.rows.touch(token)
        self.push(what, token)

    def cross(self, place: Place) -> None:
        """What happens in one instance moves another one. If that is suspended, its tokens wait for jobs, as far as
        they have come: the suspension holds these, and nothing is lost."""
        instance = self.rows.instance(place)
        if instance.id not in self.held:
            self.held[instance.id] = self.environment.is_suspended(instance.id, instance.definition)

    def is_held(self, token: Token) -> bool:
        return self.held.get(token.instance, False)

    def place_around(self, token: Token) -> Place:
        return self.rows.place(token.parent)

    # Values

    def evaluate(self, place: Place, expression: Expression) -> Any:
        return self.environment.evaluate(expression, self.rows.scope(place))

    def value(self, place: Place, value: Value, scope: Scope | None = None) -> Any:
        """A value with all of its expressions evaluated, in this scope if it is not that of the place."""
        if isinstance(value, Expression):
            return self.environment.evaluate(value, self.rows.scope(place) if scope is None else scope)
        if isinstance(value, dict):
            return {key: self.value(place, item, scope) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(place, item, scope) for item in value]
        return value

    def holds(self, place: Place, condition: Expression, element: str, scope: Scope | None = None) -> bool:
        """The value of a condition. Nothing but true and false is one: ``bool("false")`` is true."""
        found = self.value(place, condition, scope)
        if found is not True and found is not False:
            raise NoCondition(element, f"The condition {condition.text} is neither true nor false, but {found!r}.")
        return found

    def bring(self, token: Token, variables: Variables[str, Any], node: Node | None = None) -> None:
        """Set what the work, the message or the user of an element brings; ``node`` if the token is not at it yet."""
        if (node or self.node(token)).keeps_variables:
            for name, value in variables.items():
                if not self.rows.is_counted(token, name):  # workers send back what they have got
                    self.rows.set_local(token, name, value)
        else:
            self.set_all(token, variables)

    def passed(self, mapping: Mapping, source: Place) -> dict[str, Any]:
        """What a mapping of ``camunda:in`` or ``camunda:out`` takes from a place; if local, from no scope around it."""
        scope = self.rows.scope(source, mapping.local)
        return dict(scope) if mapping.target is None else {mapping.target: self.value(source, mapping.source, scope)}

    def set_all(self, place: Place, variables: Variables[str, Any]) -> None:
        for name, value in variables.items():
            self.rows.set(place, name, value)

    # Listeners, history, incidents

    def notify(self, when: When, token: Token, node: Node, cancelled: bool = False) -> None:
        """What a listener throws while its element is cancelled is caught nowhere, and neither is it ignored (Camunda).

        A listener to an end that has thrown an error is not called again when this error interrupts the element.
        """
        try:
            self.call_listeners(when, node.listeners, token, node, cancelled)
        except BpmnError as error:
            if cancelled:
                told = f"Nothing catches the error {error} of a listener: its element was being cancelled."
                raise UncaughtError(node.id, told) from error
            if when is When.END:
                token.data = {**token.data, "ended": True}
            raise

    def notify_process(self, when: When, instance: Instance, cancelled: bool = False) -> None:
        """What a listener of a whole process throws is caught nowhere, also if it was called (Camunda)."""
        process = self.process(instance)
        try:
            self.call_listeners(when, process.listeners, instance, process, cancelled)
        except BpmnError as error:
            raise UncaughtError(process.key, f"Nothing catches the error {error} of a listener.") from error

    def call_listeners(
        self, when: When, listeners: tuple[Listener, ...], place: Place, element: Any, cancelled: bool = False
    ) -> None:
        for listener in () if self.skip_listeners else listeners:
            if listener.when is when:
                task = self.rows.new_task(place.id) if when.is_of_task else None
                self.environment.notify(Notice(listener, element, self.rows.scope(place), cancelled, task))

    def record(self, token: Token, state: ActivityState, kind: str | None = None) -> None:
        """The arrival of a token is over: its row of the history."""
        if token.activity is None or token.entered_at is None:
            return
        around = self.place_around(token)
        self.rows.changes.history.append(
            ActivityInstance(
                id=token.activity,
                instance=token.instance,
                parent=around.activity if isinstance(around, Token) else None,
                element=token.element,
                kind=kind or self.node(token).kind,
                started_at=token.entered_at,
                ended_at=self.now,
                state=state,
                called=token.called,
                job=token.ran,
            )
        )
        token.activity = token.entered_at = token.ran = None

    def report(self, token: Token, kind: str, message: str) -> None:
        """An incident: the token waits for an operator."""
        self.wait(token, State.FAILED)
        self.rows.changes.incidents.append(Incident(token.instance, token.id, token.element, kind, message))

    # Jobs

    def add_job(self, kind: JobKind, owner: Place, element: str, options: JobOptions, **columns: Any) -> Job:
        process = self.process(owner)
        job = Job(
            id=self.environment.new_id(),
            kind=kind,
            instance=self.rows.instance(owner).id,
            owner=owner.id,
            element=element,
            activity=owner.activity if isinstance(owner, Token) else None,
            # A worker may have its job for hours. Timers and other branches do not wait for it, in Camunda 7 and Zeebe.
            exclusive=options.exclusive and kind is not JobKind.EXTERNAL,
            retries=self.value(owner, options.retries),
            retry_plan=self.value(owner, _either(options.retry_plan, process.retry_plan)),
            priority=self.value(owner, _either(options.priority, process.priority)),
            category=self.value(owner, options.category),
            **columns,
        )
        self.rows.add_job(job)
        return job

    def wait_for_job(self, token: Token, kind: JobKind, state: State, **columns: Any) -> None:
        """The token waits for a job that is made now."""
        token.job = self.add_job(kind, token, token.element, self.options(token), **columns).id
        self.wait(token, state)

    def new_instance(self, id: UUID, definition: str, **columns: Any) -> Instance:
        columns.setdefault("root", id)
        return self.rows.add_instance(Instance(id, definition, started_at=self.now, **columns))


def placed(target: str, value: Any, around: Variables[str, Any]) -> tuple[str, Any]:
    """The variable in which a target such as ``order.receipt`` is, and its value: the object with that in its place.

    ``around`` has the value that it had before; what is no object is replaced.
    """
    name, _, rest = target.partition(".")
    if not rest:
        return name, value
    before = around.get(name)
    inner = before if isinstance(before, dict) else {}
    return name, inner | dict([placed(rest, value, inner)])


def _either(first: Value, second: Value) -> Value:
    return second if first is None else first
