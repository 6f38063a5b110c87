"""The rows of one call hierarchy in memory, and what a step changes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from .environment import Layer, Scope
from .rows import (
    ActivityInstance,
    Incident,
    Instance,
    Job,
    Place,
    Signal,
    State,
    Subscription,
    Token,
    UserTask,
)

Armed = Job | UserTask | Subscription


@dataclass
class Changes:
    """What a step changed. Rows that it made and removed again are not among them.

    ``variables`` maps a scope (of a token or an instance) and a name to the value; a value that is gone is in
    ``gone_variables``. All variables of a token that is gone, and of an instance that has ended, are gone, too.

    ``disarmed`` has pairs of an owner and an element: timers and user tasks of theirs that were there before the step
    are gone. The element None stands for all of the owner. Of a token that is gone, and of an instance that has ended,
    all is gone. ``cancelled_jobs`` are those that a token waited for; not the one whose end is the event of this step.
    """

    new_instances: list[Instance] = field(default_factory=list)
    changed_instances: list[Instance] = field(default_factory=list)
    new_tokens: list[Token] = field(default_factory=list)
    changed_tokens: list[Token] = field(default_factory=list)
    gone_tokens: list[UUID] = field(default_factory=list)
    variables: dict[tuple[UUID, str], Any] = field(default_factory=dict)
    gone_variables: list[tuple[UUID, str]] = field(default_factory=list)
    new_subscriptions: list[Subscription] = field(default_factory=list)
    gone_subscriptions: list[UUID] = field(default_factory=list)
    new_jobs: list[Job] = field(default_factory=list)
    cancelled_jobs: list[UUID] = field(default_factory=list)
    gone_batches: list[UUID] = field(default_factory=list)
    """Tokens that are gone, and have waited for a batch."""
    disarmed: list[tuple[UUID, str | None]] = field(default_factory=list)
    new_tasks: list[UserTask] = field(default_factory=list)
    history: list[ActivityInstance] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    resolved: list[UUID] = field(default_factory=list)
    """Tokens whose incidents are over."""
    signals: list[Signal] = field(default_factory=list)
    accepted: bool = True
    """False: the object of the event no longer exists, or the failure is not caught. Nothing has happened."""

    def leave_armed(self, owner: UUID, element: str) -> bool:
        """Whether an owner still has what it had at an element before the step."""
        gone = {*self.gone_tokens, *(row.id for row in self.changed_instances if row.ended_at is not None)}
        return owner not in gone and {(owner, None), (owner, element)}.isdisjoint(self.disarmed)


class Tokens:
    """The instances of a call hierarchy with their tokens, variables and subscriptions."""

    def __init__(
        self,
        instances: Iterable[Instance] = (),
        tokens: Iterable[Token] = (),
        variables: Mapping[UUID, Mapping[str, Any]] | None = None,
        subscriptions: Iterable[Subscription] = (),
    ) -> None:
        self.instances = {instance.id: instance for instance in instances}
        self.tokens = {token.id: token for token in tokens}
        self.variables = {scope: dict(found) for scope, found in (variables or {}).items()}
        self.subscriptions = {row.id: row for row in subscriptions}
        self._children: dict[UUID, dict[UUID, Token]] = {}
        for token in self.tokens.values():
            self._children.setdefault(token.parent, {})[token.id] = token
        #: Some wait for an operator, with a dead letter each.
        self.had_incidents = any(token.state is State.FAILED for token in self.tokens.values())
        self._stored_instances = frozenset(self.instances)
        self._stored_tokens = frozenset(self.tokens)
        self._stored_subscriptions = frozenset(self.subscriptions)
        self._stored_variables = {(scope, name) for scope, found in self.variables.items() for name in found}
        self._touched: dict[UUID, Place] = {}
        self._written: dict[tuple[UUID, str], None] = {}
        self._gone: list[UUID] = []
        self._jobs: dict[UUID, Job] = {}
        #: The trace to which the present event belongs, and those of the jobs and subscriptions that events have made.
        self.trace = ""
        self.traces: dict[UUID, str] = {}
        self._tasks: dict[UUID, UserTask] = {}
        self._armed: dict[UUID, list[Armed]] = {}
        for row in self.subscriptions.values():
            self._armed.setdefault(row.owner, []).append(row)
        self.changes = Changes()

    # Reading

    def place(self, id: UUID) -> Place:
        """The token or the instance with this id. Raises KeyError."""
        return self.tokens.get(id) or self.instances[id]

    def find(self, id: UUID) -> Place | None:
        return self.tokens.get(id) or self.instances.get(id)

    def instance(self, place: Place) -> Instance:
        return place if isinstance(place, Instance) else self.instances[place.instance]

    def children(self, place: Place) -> list[Token]:
        """The tokens directly in a scope, in the order in which they came."""
        return list(self._children.get(place.id, {}).values())

    def active(self, place: Place) -> list[Token]:
        """Those of the children that are not done."""
        return [token for token in self.children(place) if token.state is not State.COMPENSABLE]

    def is_empty(self, place: Place) -> bool:
        """Nothing moves or waits in this scope any more."""
        return all(token.state is State.COMPENSABLE for token in self._children.get(place.id, {}).values())

    def called_by(self, token: Token) -> Instance | None:
        return self.instances.get(token.called) if token.called is not None else None

    def outward(self, place: Place) -> Iterator[Place]:
        """A place and the scopes around it, up to its instance."""
        while isinstance(place, Token):
            yield place
            place = self.place(place.parent)
        yield place

    def scope(self, place: Place) -> Scope:
        """What is visible at a place."""
        places = tuple(self.outward(place))
        layers = tuple(layer for around in places for layer in self._layers(around))
        return Scope(layers, places, self.instance(place))

    def _layers(self, place: Place) -> Iterator[Layer]:
        if found := self.variables.get(place.id):
            yield found
        if isinstance(place, Token) and place.data:
            yield self._counts(place)

    def _counts(self, token: Token) -> Layer:
        """The variables of a multi-instance that are not stored, because they are counted."""
        if token.is_body:
            return {
                "nrOfInstances": token.data["total"],
                "nrOfCompletedInstances": token.data["done"],
                "nrOfActiveInstances": token.data["active"],
            }
        counter = token.data.get("counter", token.data.get("index"))
        return {} if counter is None else {"loopCounter": counter}

    # Tokens and instances

    def add(self, token: Token) -> Token:
        self.tokens[token.id] = token
        self._children.setdefault(token.parent, {})[token.id] = token
        return token

    def touch(self, place: Place) -> None:
        """Mark a row as changed."""
        self._touched[place.id] = place

    def remove(self, token: Token) -> None:
        """A token is gone, with all that it had. Its children are gone already."""
        self._drop(token, None)
        self.forget(token)
        token.alive = False
        del self.tokens[token.id]
        del self._children[token.parent][token.id]
        if token.id in self._stored_tokens:
            self._gone.append(token.id)
            if token.data.get("batch"):
                self.changes.gone_batches.append(token.id)

    def add_instance(self, instance: Instance) -> Instance:
        self.instances[instance.id] = instance
        return instance

    # Variables

    def set(self, place: Place, name: str, value: Any) -> None:
        """Change a variable where it is found, else set it in the instance."""
        for around in self.outward(place):
            if name in self.variables.get(around.id, ()):
                return self.set_local(around, name, value)
        return self.set_local(self.instance(place), name, value)

    def set_local(self, place: Place, name: str, value: Any) -> None:
        self.variables.setdefault(place.id, {})[name] = value
        self._written[place.id, name] = None

    def unset(self, place: Place, names: Iterable[str]) -> None:
        """Variables of a scope are gone."""
        for name in names:
            del self.variables[place.id][name]
            self._written[place.id, name] = None

    def forget(self, place: Place) -> None:
        """The variables of a scope are gone."""
        for name in self.variables.pop(place.id, ()):
            self._written[place.id, name] = None

    # What is armed

    def subscribe(self, subscription: Subscription) -> None:
        self.subscriptions[subscription.id] = subscription
        self._trace(subscription.id)
        self._armed.setdefault(subscription.owner, []).append(subscription)

    def add_job(self, job: Job) -> None:
        self._jobs[job.id] = job
        self._trace(job.id)
        self._armed.setdefault(job.owner, []).append(job)

    def _trace(self, id: UUID) -> None:
        if self.trace:
            self.traces[id] = self.trace

    def new_task(self, owner: UUID) -> UserTask | None:
        """The user task that this step has made for a token."""
        return next((row for row in self._armed.get(owner, ()) if isinstance(row, UserTask)), None)

    def add_task(self, task: UserTask) -> None:
        self._tasks[task.id] = task
        self._armed.setdefault(task.owner, []).append(task)

    def disarm(self, place: Place, element: str | None = None, stored: bool = True) -> None:
        """Timers, subscriptions, jobs and user tasks of a place that lives on, or those at one element, are gone.

        ``stored`` is false where the definition says that there can be no timers and user tasks from earlier steps.
        """
        self._drop(place, element)
        if stored and (place.id in self._stored_tokens or place.id in self._stored_instances):
            self.changes.disarmed.append((place.id, element))

    def _drop(self, place: Place, element: str | None) -> None:
        rows = self._armed.pop(place.id, [])
        for row in rows:
            if element not in (None, row.element):
                self._armed.setdefault(place.id, []).append(row)
                continue
            self.subscriptions.pop(row.id, None)
            self._tasks.pop(row.id, None)
            made_now = self._jobs.pop(row.id, None)
            if made_now and isinstance(place, Token) and place.job == row.id:
                place.job = None
        if isinstance(place, Token) and place.job is not None and element in (None, place.element):
            self.changes.cancelled_jobs.append(place.job)
            place.job = None

    # The end of a step

    def collect(self) -> Changes:
        """All changes, in the order in which they happened."""
        changes = self.changes
        changes.new_instances = [row for id, row in self.instances.items() if id not in self._stored_instances]
        changes.new_tokens = [row for id, row in self.tokens.items() if id not in self._stored_tokens]
        for id, row in self._touched.items():
            if isinstance(row, Token) and id in self._stored_tokens and row.alive:
                changes.changed_tokens.append(row)
            elif isinstance(row, Instance) and id in self._stored_instances:
                changes.changed_instances.append(row)
        changes.incidents = [
            each for each in {row.owner: row for row in changes.incidents}.values() if self._fails(each)
        ]
        changes.gone_tokens = self._gone
        changes.disarmed = [pair for pair in dict.fromkeys(changes.disarmed) if self._lives(pair[0])]
        changes.new_subscriptions = [
            row for id, row in self.subscriptions.items() if id not in self._stored_subscriptions
        ]
        changes.gone_subscriptions = sorted(self._stored_subscriptions - self.subscriptions.keys())
        changes.new_jobs = list(self._jobs.values())
        changes.new_tasks = list(self._tasks.values())
        self._collect_variables()
        return changes

    def _fails(self, incident: Incident) -> bool:
        """Whether the token still waits for an operator: it may have been interrupted in the same step."""
        token = self.tokens.get(incident.owner)
        return token is not None and token.state is State.FAILED

    def _lives(self, id: UUID) -> bool:
        instance = self.instances.get(id)
        return id in self.tokens if instance is None else instance.ended_at is None

    def _collect_variables(self) -> None:
        gone = {*self._gone, *(id for id, row in self.instances.items() if row.ended_at is not None)}
        for scope, name in self._written:
            found = self.variables.get(scope, {})
            if scope in gone:
                continue
            if name in found:
                self.changes.variables[scope, name] = found[name]
            elif (scope, name) in self._stored_variables:
                self.changes.gone_variables.append((scope, name))
