"""The rows of one call hierarchy in memory, and what a step changes of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar
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


class _Identified(Protocol):
    @property
    def id(self) -> UUID: ...


Row = TypeVar("Row", bound=_Identified)


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
    left_batches: list[UUID] = field(default_factory=list)
    """Tokens that have waited for a batch, and are gone or go on."""
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


class Loaded(NamedTuple):
    """Rows of a call hierarchy, each kind in the order of the ids. Variables are those of a scope, by its id."""

    instances: Sequence[Instance]
    tokens: Sequence[Token]
    variables: Mapping[UUID, Mapping[str, Any]]
    subscriptions: Sequence[Subscription]


class Others(Protocol):
    """The rows of a locked hierarchy that were not loaded with its step.

    ``known`` are ids of tokens that were: the step may have moved them, so they are left out.
    """

    def load(self) -> Loaded:
        """All rows of the hierarchy, as they were before the step."""

    def count_joined(self, scope: UUID, element: str, known: Collection[UUID]) -> int:
        """How many tokens have arrived at a join that still waits."""

    def is_empty(self, scope: UUID, known: Collection[UUID]) -> bool:
        """Whether nothing moves or waits in a scope."""

    def size_of_variables(self, instance: UUID, known: Collection[UUID]) -> int:
        """The most bytes of JSON that the variables of an instance are, except those of scopes that are known."""


class Tokens:
    """The instances of a call hierarchy with their tokens, variables and subscriptions.

    If there are ``others``, the rows at hand are a few tokens, the scopes around them and their instances, also around
    calls, with all variables and subscriptions of these. What asks for more loads all.
    """

    def __init__(
        self,
        instances: Sequence[Instance] = (),
        tokens: Sequence[Token] = (),
        variables: Mapping[UUID, Mapping[str, Any]] | None = None,
        subscriptions: Sequence[Subscription] = (),
        others: Others | None = None,
    ) -> None:
        #: By the scope; only of scopes at hand.
        self.variables: dict[UUID, dict[str, Any]] = {}
        #: Which of the variables that this step sets are :class:`Together`.
        self.together: set[tuple[UUID, str]] = set()
        self._instances: dict[UUID, Instance] = {}
        self._tokens: dict[UUID, Token] = {}
        self._subscriptions: dict[UUID, Subscription] = {}
        self._children: dict[UUID, dict[UUID, Token]] = {}
        #: Some of those at hand wait for an operator, with a dead letter each.
        self.had_incidents = False
        self._stored_instances: set[UUID] = set()
        self._stored_tokens: set[UUID] = set()
        self._stored_subscriptions: set[UUID] = set()
        self._stored_variables: set[tuple[UUID, str]] = set()
        self._touched: dict[UUID, Place] = {}
        self._written: dict[tuple[UUID, str], None] = {}
        self._gone: list[UUID] = []
        self._jobs: dict[UUID, Job] = {}
        #: The trace to which the present event belongs, and those of the jobs and subscriptions that events have made.
        self.trace = ""
        self.traces: dict[UUID, str] = {}
        self._tasks: dict[UUID, UserTask] = {}
        self._armed: dict[UUID, list[Armed]] = {}
        self.changes = Changes()
        self._take_in(Loaded(instances, tokens, variables or {}, subscriptions))
        self._others = others

    def _take_in(self, loaded: Loaded) -> None:
        """Rows that were not at hand; those that were stay as the step has left them."""
        for scope, found in loaded.variables.items():
            if scope not in self._stored_tokens and scope not in self._stored_instances:
                self.variables[scope] = dict(found)
                self._stored_variables |= {(scope, name) for name in found}
        for row in loaded.subscriptions:
            if row.id not in self._stored_subscriptions:
                self._armed.setdefault(row.owner, []).append(row)
        self._subscriptions = _merged(loaded.subscriptions, self._subscriptions, self._stored_subscriptions)
        self._instances = _merged(loaded.instances, self._instances, self._stored_instances)
        self.had_incidents |= any(
            row.state is State.FAILED for row in loaded.tokens if row.id not in self._stored_tokens
        )
        self._tokens = _merged(loaded.tokens, self._tokens, self._stored_tokens)
        self._children = {}
        for token in self._tokens.values():
            self._children.setdefault(token.parent, {})[token.id] = token

    def complete(self) -> None:
        """From now on, all rows are at hand."""
        others, self._others = self._others, None
        if others is not None:
            self._take_in(others.load())

    # Reading

    @property
    def tokens(self) -> Mapping[UUID, Token]:
        """All tokens."""
        self.complete()
        return self._tokens

    @property
    def instances(self) -> Mapping[UUID, Instance]:
        """All instances."""
        self.complete()
        return self._instances

    @property
    def subscriptions(self) -> Mapping[UUID, Subscription]:
        """All subscriptions."""
        self.complete()
        return self._subscriptions

    @property
    def instances_at_hand(self) -> Iterable[Instance]:
        """Those of the tokens at hand, and those that called them."""
        return self._instances.values()

    def has_at_hand(self, token: UUID) -> bool:
        """Whether a token is at hand, and its instance."""
        return token in self._tokens and self._tokens[token].instance in self._instances

    def token(self, id: UUID) -> Token | None:
        found = self._tokens.get(id)
        return self.tokens.get(id) if found is None else found

    def place(self, id: UUID) -> Place:
        """The token or the instance with this id. Raises KeyError."""
        found = self.find(id)
        if found is None:
            raise KeyError(id)
        return found

    def find(self, id: UUID) -> Place | None:
        found = self._tokens.get(id) or self._instances.get(id)
        return found or self.tokens.get(id) or self._instances.get(id)

    def instance(self, place: Place) -> Instance:
        return place if isinstance(place, Instance) else self._instances[place.instance]

    def definition(self, instance: UUID) -> str:
        """The definition of an instance that has a token at hand."""
        return self._instances[instance].definition

    def children(self, place: Place) -> list[Token]:
        """The tokens directly in a scope, in the order in which they came."""
        if self._others_in(place):
            self.complete()
        return list(self._children.get(place.id, {}).values())

    def has_subscription(self, id: UUID) -> bool:
        return id in self._subscriptions or id in self.subscriptions

    def count_joined(self, place: Place, element: str) -> int:
        """How many tokens have arrived at a join that still waits."""
        children = self._children.get(place.id, {}).values()
        count = sum(1 for token in children if token.element == element and token.state is State.JOINED)
        others = self._others_in(place)
        return count if others is None else count + others.count_joined(place.id, element, self._stored_tokens)

    def active(self, place: Place) -> list[Token]:
        """Those of the children that are not done."""
        return [token for token in self.children(place) if token.state is not State.COMPENSABLE]

    def is_empty(self, place: Place) -> bool:
        """Nothing moves or waits in this scope any more."""
        at_hand = self._children.get(place.id, {}).values()
        if not all(token.state is State.COMPENSABLE for token in at_hand):
            return False
        others = self._others_in(place)
        return others is None or others.is_empty(place.id, self._stored_tokens)

    def _others_in(self, place: Place) -> Others | None:
        """Those that may be in a scope; in one that this step has made, all are at hand."""
        stored = place.id in self._stored_tokens or place.id in self._stored_instances
        return self._others if stored else None

    def called_by(self, token: Token) -> Instance | None:
        if token.called is None:
            return None
        return self._instances.get(token.called) or self.instances.get(token.called)

    def size_of_others(self, instance: UUID) -> int:
        """The most bytes of JSON that variables of an instance are which are not at hand."""
        if self._others is None:
            return 0
        return self._others.size_of_variables(instance, self._stored_tokens | self._stored_instances)

    def outward(self, place: Place) -> Iterator[Place]:
        """A place and the scopes around it, up to its instance."""
        while isinstance(place, Token):
            yield place
            place = self.place(place.parent)
        yield place

    def scope(self, place: Place, local: bool = False) -> Scope:
        """What is visible at a place; ``local``: of its own only."""
        places = tuple(self.outward(place))
        layers = tuple(layer for around in (places[:1] if local else places) for layer in self._layers(around))
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
        self._tokens[token.id] = token
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
        del self._tokens[token.id]
        del self._children[token.parent][token.id]
        if token.id in self._stored_tokens:
            self._gone.append(token.id)
            self._leave_batch(token)

    def add_instance(self, instance: Instance) -> Instance:
        self._instances[instance.id] = instance
        return instance

    # Variables

    def set(self, place: Place, name: str, value: Any) -> None:
        """Change a variable where it is found, else set it in the instance. What is counted cannot be set."""
        for around in self.outward(place):
            if name in self.variables.get(around.id, ()):
                return self.set_local(around, name, value)
            if isinstance(around, Token) and around.data and name in self._counts(around):
                return None
        return self.set_local(self.instance(place), name, value)

    def is_counted(self, place: Place, name: str) -> bool:
        """Whether a name stands for one of the counts of a multi-instance around a place."""
        tokens = (around for around in self.outward(place) if isinstance(around, Token) and around.data)
        return any(name in self._counts(token) for token in tokens)

    def set_local(self, place: Place, name: str, value: Any) -> None:
        if isinstance(value, Together):
            self.together.add((place.id, name))
        with suppress(RecursionError):  # it contains itself, which is refused where it is written
            value = _as_json(value)
        self.variables.setdefault(place.id, {})[name] = value
        self._written[place.id, name] = None

    def written(self, scope: UUID) -> frozenset[str]:
        """The names of the variables of a scope that this step has set."""
        return frozenset(name for place, name in self._written if place == scope)

    def forget(self, place: Place) -> None:
        """The variables of a scope are gone."""
        for name in self.variables.pop(place.id, ()):
            self._written[place.id, name] = None

    # What is armed

    def subscribe(self, subscription: Subscription) -> None:
        self._subscriptions[subscription.id] = subscription
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
        if element is None and isinstance(place, Token):
            stored = self._leave_batch(place) or stored
        if stored and (place.id in self._stored_tokens or place.id in self._stored_instances):
            self.changes.disarmed.append((place.id, element))

    def _leave_batch(self, token: Token) -> bool:
        """Record that a token waits no longer for its batch. False if it has none: neither jobs nor kept results."""
        waited = bool(token.data.get("batch"))
        if waited and token.id in self._stored_tokens:
            self.changes.left_batches.append(token.id)
        return waited

    def _drop(self, place: Place, element: str | None) -> None:
        rows = self._armed.pop(place.id, [])
        for row in rows:
            if element not in (None, row.element):
                self._armed.setdefault(place.id, []).append(row)
                continue
            self._subscriptions.pop(row.id, None)
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
        changes.new_instances = [row for id, row in self._instances.items() if id not in self._stored_instances]
        changes.new_tokens = [row for id, row in self._tokens.items() if id not in self._stored_tokens]
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
            row for id, row in self._subscriptions.items() if id not in self._stored_subscriptions
        ]
        changes.gone_subscriptions = sorted(self._stored_subscriptions - self._subscriptions.keys())
        changes.new_jobs = list(self._jobs.values())
        changes.new_tasks = list(self._tasks.values())
        self._collect_variables()
        return changes

    def _fails(self, incident: Incident) -> bool:
        """Whether the token still waits for an operator: it may have been interrupted in the same step."""
        token = self._tokens.get(incident.owner)
        return token is not None and token.state is State.FAILED

    def _lives(self, id: UUID) -> bool:
        instance = self._instances.get(id)
        return id in self._tokens if instance is None else instance.ended_at is None

    def _collect_variables(self) -> None:
        gone = {*self._gone, *(id for id, row in self._instances.items() if row.ended_at is not None)}
        for scope, name in self._written:
            found = self.variables.get(scope, {})
            if scope in gone:
                continue
            if name in found:
                self.changes.variables[scope, name] = found[name]
            elif (scope, name) in self._stored_variables:
                self.changes.gone_variables.append((scope, name))


def _merged(loaded: Iterable[Row], at_hand: Mapping[UUID, Row], stored: set[UUID]) -> dict[UUID, Row]:
    """Stored rows before new ones; what was stored before and is not at hand any more is gone. Adds to ``stored``."""
    found = {row.id: at_hand.get(row.id, row) for row in loaded if row.id in at_hand or row.id not in stored}
    stored.update(found)
    return found | {id: row for id, row in at_hand.items() if id not in found}


class Together(dict[str, Any]):
    """What one variable holds for many elements, such as the arguments of all steps of a flow.

    It may be as large as all variables of an instance.
    """


def _as_json(value: Any) -> Any:
    """What JSON makes of a value, before it is stored as JSON: a list of a tuple, a text of a UUID or of a choice.

    Dates, durations and decimals stay what they are, which expressions know.
    """
    if type(value) in _SCALARS:
        return value
    if isinstance(value, dict):
        return {name if type(name) is str else _key(name): _as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, UUID):
        return str(value)
    return value


def _key(name: Any) -> Any:
    if isinstance(name, str):
        return str.__str__(name)
    return json.dumps(name) if name is None or isinstance(name, int | float) else name


_SCALARS = frozenset([str, int, float, bool, type(None)])
