"""A world for the engine: it stores what a step changes, and runs what it made, without a database.

After each step all rows go through JSON and back, and ``check`` proves that nothing hangs in the air.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from jobexec.processes.definition import Process
from jobexec.processes.engine.environment import Called, Declared, HandlerCall, Notice
from jobexec.processes.engine.events import AWAITED, starts_by_event
from jobexec.processes.engine.exceptions import BpmnError
from jobexec.processes.engine.inputs import Command, Input, Start, places
from jobexec.processes.engine.rows import (
    AT_JOBS,
    ActivityInstance,
    Incident,
    Instance,
    InstanceState,
    Job,
    JobKind,
    Signal,
    State,
    Subscription,
    Token,
    UserTask,
)
from jobexec.processes.engine.step import step
from jobexec.processes.engine.tokens import Changes, Loaded, Tokens

from .expressions import evaluate


class World:
    """The tables of an engine, and the environment of its steps."""

    def __init__(self, *processes: Process) -> None:
        self.processes = {process.key: process for process in processes}
        self.instances: dict[UUID, Instance] = {}
        self.tokens: dict[UUID, Token] = {}
        self.variables: dict[UUID, dict[str, Any]] = {}
        self.subscriptions: dict[UUID, Subscription] = {}
        self.jobs: dict[UUID, Job] = {}
        self.tasks: dict[UUID, UserTask] = {}
        self.history: list[ActivityInstance] = []
        self.incidents: dict[UUID, Incident] = {}
        self.signals: list[Signal] = []
        self.handlers_called: list[str] = []
        self.notices: list[str] = []
        self.thrown: set[str] = set()
        self.suspended: set[str] = set()
        self.ids = 0
        self.steps = 0

    # The environment

    def evaluate(self, expression: Any, variables: Any) -> Any:
        text = expression.text.removeprefix("${").removesuffix("}")
        if text.startswith("error "):  # error CODE, or error CODE if condition
            text, _, condition = text.partition(" if ")
            if not condition or evaluate(condition, variables):
                raise BpmnError(text.split()[1])
            return True
        return evaluate(text, variables)

    def declared(self, handler: str) -> Declared:
        """``apart:…`` says that it runs outside."""
        return Declared(handler.startswith("apart:"))

    def call(self, call: HandlerCall) -> Any:
        """The name of a handler says what it does: ``error:CODE``, ``set:name=json``, ``give:json``, ``crash``."""
        name = call.work.handler or ""
        counter = call.scope["loopCounter"] if call.node.loop else ""
        self.handlers_called.append(f"{call.node.id}{counter}")
        what, _, rest = name.partition(":")
        if what == "error":
            raise BpmnError(rest, "told so", {"why": rest})
        if what == "crash":
            raise ZeroDivisionError(name)
        if what == "give":
            return json.loads(rest)
        if what == "set":
            variable, _, text = rest.partition("=")
            return {variable: evaluate(text, call.scope)}
        return None

    def notify(self, notice: Notice) -> None:
        """``error:CODE``, ``objects:CODE`` to a cancellation, ``once:CODE``; any other name is noted."""
        name = notice.listener.handler or ""
        if name.startswith("error:") or (name.startswith("objects:") and notice.cancelled):
            raise BpmnError(name.partition(":")[2])
        if name.startswith("once:") and name not in self.thrown:
            self.thrown.add(name)
            raise BpmnError(name[5:])
        id = getattr(notice.element, "id", None) or getattr(notice.element, "key", None)
        self.notices.append(f"{name}:{notice.listener.when}:{id}" + ("!" if notice.cancelled else ""))

    def process(self, definition: str) -> Process:
        return self.processes[definition]

    def resolve(self, called: Called) -> str:
        return called.key

    def is_suspended(self, instance: UUID, definition: str) -> bool:
        return definition in self.suspended

    def new_id(self) -> UUID:
        self.ids += 1
        return UUID(int=self.ids)

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.steps)

    # Steps

    def start(
        self, key: str = "process", element: str | None = None, commands: tuple[Command, ...] = (), **variables: Any
    ) -> UUID:
        id = self.new_id()
        self.do(Start(id, key, element=element, business_key="4711", variables=variables, commands=commands), None)
        return id

    def do(self, event: Input, root: UUID | None, job: UUID | None = None) -> Changes:
        """One step, and the end of the job whose run it is. An exception leaves everything as it was."""
        self.steps += 1
        around = self.outcome_around(event, root)
        try:
            changes = step(self.load(root), event, self)
        except Exception as error:
            assert around in (None, repr(error))
            raise
        assert around in (None, changes)
        if changes.accepted:
            if job is not None:
                self.jobs.pop(job, None)
            self.store(changes)
        self.check()
        return changes

    def outcome_around(self, event: Input, root: UUID | None) -> Changes | str | None:
        """What the step comes to if it begins with the tokens around the place of its event, and asks for others.

        None if the event is about all. Nothing is stored, and what the environment has noted is forgotten.
        """
        wanted = places([event])
        if wanted is None or root is None:
            return None
        noted = self.ids, list(self.handlers_called), list(self.notices), set(self.thrown)
        loaded = self.stored(root)
        around = places_around(loaded, wanted)
        few = Loaded(
            [row for row in loaded.instances if row.id in around],
            [row for row in loaded.tokens if row.id in around],
            {scope: found for scope, found in loaded.variables.items() if scope in around},
            [row for row in loaded.subscriptions if row.owner in around],
        )
        try:
            return step(Tokens(*few, others=OthersOf(self, root)), event, self)
        except Exception as error:
            return repr(error)
        finally:
            self.ids, self.handlers_called, self.notices, self.thrown = noted

    def load(self, root: UUID | None) -> Tokens:
        return Tokens(*self.stored(root))

    def stored(self, root: UUID | None) -> Loaded:
        instances = [
            dataclasses.replace(row) for row in self.instances.values() if row.root == root and not row.ended_at
        ]
        ids = {row.id for row in instances}
        tokens = [copied(row) for row in self.tokens.values() if row.instance in ids]
        scopes = ids | {token.id for token in tokens}
        variables = {scope: json.loads(json.dumps(found)) for scope, found in self.variables.items() if scope in scopes}
        subscriptions = [row for row in self.subscriptions.values() if row.instance in ids]
        return Loaded(instances, tokens, variables, subscriptions)

    def store(self, changes: Changes) -> None:
        """As a database would: gone rows first, then changed ones, then new ones."""
        self.delete(changes)
        for instance in (*changes.new_instances, *changes.changed_instances):
            self.instances[instance.id] = dataclasses.replace(instance)
        for token in changes.changed_tokens:
            assert token.id in self.tokens, "a changed token that nobody has"
        for token in changes.new_tokens:
            assert token.id not in self.tokens, "a new token that is there already"
        for token in (*changes.changed_tokens, *changes.new_tokens):
            self.tokens[token.id] = copied(token)
        for (scope, name), found in changes.variables.items():
            self.variables.setdefault(scope, {})[name] = json.loads(json.dumps(found))
        for scope, name in changes.gone_variables:
            del self.variables[scope][name]
        self.subscriptions |= {row.id: row for row in changes.new_subscriptions}
        self.jobs |= {row.id: row for row in changes.new_jobs}
        self.tasks |= {row.id: row for row in changes.new_tasks}
        self.history += changes.history
        self.incidents |= {row.owner: row for row in changes.incidents}
        self.signals += changes.signals
        self.forget_ended(changes)

    def delete(self, changes: Changes) -> None:
        for id in changes.gone_tokens:
            del self.tokens[id]
            self.variables.pop(id, None)
        gone = {(id, None) for id in changes.gone_tokens} | set(changes.disarmed)

        def is_gone(row: Job | UserTask) -> bool:
            return (row.owner, None) in gone or (row.owner, row.element) in gone

        self.tasks = {id: row for id, row in self.tasks.items() if not is_gone(row)}
        for id, job in list(self.jobs.items()):
            if is_gone(job) and (job.kind is JobKind.TIMER or job.owner not in self.tokens):
                del self.jobs[id]
        for id in changes.gone_subscriptions:
            del self.subscriptions[id]
        for id in changes.cancelled_jobs:
            self.jobs.pop(id, None)
        for id in (*changes.resolved, *changes.gone_tokens):
            self.incidents.pop(id, None)

    def forget_ended(self, changes: Changes) -> None:
        for instance in changes.changed_instances + changes.new_instances:
            if instance.ended_at is not None:
                self.variables.pop(instance.id, None)
                self.jobs = {id: job for id, job in self.jobs.items() if job.owner != instance.id}

    # What must always hold

    def check(self) -> None:
        running = {id for id, row in self.instances.items() if row.ended_at is None}
        owners = running | self.tokens.keys()
        for token in self.tokens.values():
            self.check_token(token, running)
        for row in (*self.jobs.values(), *self.tasks.values(), *self.subscriptions.values()):
            assert row.owner in owners, f"{row} has no owner"
        for scope in self.variables:
            assert scope in owners or not self.variables[scope], "variables of nobody"
        for instance in running:
            assert any(token.parent == instance for token in self.tokens.values()), "an instance without a token"
        for owner in self.incidents:
            assert owner in self.tokens and self.tokens[owner].state is State.FAILED, "an incident of nobody"
        self.check_armed(owners)
        ids = Counter(row.id for row in self.history)
        assert not [id for id, count in ids.items() if count > 1], "an activity with two rows of history"
        open_ids = {token.activity for token in self.tokens.values() if token.activity}
        assert not open_ids & ids.keys(), "an activity that is over and not over"

    def check_token(self, token: Token, running: set[UUID]) -> None:
        assert token.state is not State.MOVING, f"{token} moves"
        assert token.instance in running, f"{token} of an instance that is over"
        assert token.parent in running or token.parent in self.tokens, f"{token} without a scope"
        mine = [job for job in self.jobs.values() if job.owner == token.id and job.kind is not JobKind.TIMER]
        if token.state in AT_JOBS:
            assert [job.id for job in mine] == [token.job], f"{token} and its jobs {mine}"
        else:
            assert token.job is None and not mine, f"{token} and its jobs {mine}"
        if token.state is State.SCOPE:
            assert any(other.parent == token.id for other in self.tokens.values()), f"{token} without children"
        if token.state is State.FAILED:
            assert token.id in self.incidents, f"{token} without an incident"
        if token.called is not None:
            assert token.called in running or token.state is State.FAILED, f"{token} waits for nobody"

    def check_armed(self, owners: Any) -> None:
        """Each thing that is armed belongs to an element that its owner is at, to its boundary or to its scope."""
        for row in (*self.jobs.values(), *self.tasks.values(), *self.subscriptions.values()):
            place = self.tokens.get(row.owner)
            definition = self.instances[row.instance].definition
            process = self.processes[definition]
            element = place.element if place else None
            allowed = {element}
            if element:
                allowed |= {event.id for event in process.boundary_events(element)}
                allowed |= {flow.target for flow in process.outgoing(element)}
            allowed |= {start.id for start in starts_by_event(process, element) if start.trigger in AWAITED}
            assert row.element in allowed, f"{row} at {element}"
            assert row.activity == (place.activity if place else None) or row.kind is JobKind.CONTINUE, (
                f"{row} is stale"
            )

    def running(self, root: UUID) -> bool:
        return self.instances[root].state in (InstanceState.ACTIVE, InstanceState.COMPENSATING)


def copied(token: Token) -> Token:
    return dataclasses.replace(token, data=json.loads(json.dumps(token.data)))


class OthersOf:
    """The rows of a hierarchy of a world that were not loaded with its step."""

    def __init__(self, world: World, root: UUID) -> None:
        self.world, self.root = world, root

    def load(self) -> Loaded:
        return self.world.stored(self.root)

    def count_joined(self, scope: UUID, element: str, known: Collection[UUID]) -> int:
        joined = [token for token in self._in(scope, known) if token.state is State.JOINED]
        return sum(1 for token in joined if token.element == element)

    def is_empty(self, scope: UUID, known: Collection[UUID]) -> bool:
        return all(token.state is State.COMPENSABLE for token in self._in(scope, known))

    def _in(self, scope: UUID, known: Collection[UUID]) -> list[Token]:
        return [token for token in self.world.tokens.values() if token.parent == scope and token.id not in known]

    def size_of_variables(self, instance: UUID, known: Collection[UUID]) -> int:
        scopes = {instance, *(token.id for token in self.world.tokens.values() if token.instance == instance)}
        return sum(len(json.dumps(self.world.variables.get(scope, {})).encode()) for scope in scopes.difference(known))


def places_around(loaded: Loaded, wanted: list[UUID]) -> set[UUID]:
    """The ids of places, and of those around them up to the topmost instance."""
    tokens, instances = ({row.id: row for row in rows} for rows in (loaded.tokens, loaded.instances))
    found: set[UUID] = set()
    for place in wanted:
        id: UUID | None = place
        while id is not None:
            found.add(id)
            id = tokens[id].parent if id in tokens else instances[id].parent if id in instances else None
    return found
