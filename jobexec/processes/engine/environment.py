"""The interface through which the engine reaches its environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from ..definition import Binding, Expression, Flow, Listener, Node, Process, Work
from .rows import Instance, Place, Token, UserTask

Layer = Mapping[str, Any]


class Scope(Mapping[str, Any]):
    """The variables that are visible at a place: its own first, then those of the scopes around it.

    ``places`` are the place and the scopes around it, up to its instance.
    """

    __slots__ = ("_layers", "instance", "places")

    def __init__(self, layers: tuple[Layer, ...], places: tuple[Place, ...], instance: Instance) -> None:
        self._layers, self.places, self.instance = layers, places, instance

    def with_layer(self, layer: Layer) -> Scope:
        """The same with variables that come before the others."""
        return Scope((layer, *self._layers), self.places, self.instance)

    @property
    def execution_id(self) -> UUID:
        return self.places[0].id

    @property
    def instance_id(self) -> UUID:
        return self.instance.id

    @property
    def business_key(self) -> str | None:
        return self.instance.business_key

    @property
    def definition(self) -> str:
        return self.instance.definition

    @property
    def element_id(self) -> str | None:
        place = self.places[0]
        return place.element if isinstance(place, Token) else None

    @property
    def parent_id(self) -> UUID | None:
        """The execution around it; that of the caller is another instance's."""
        return self.places[1].id if len(self.places) > 1 else None

    @property
    def activity_id(self) -> UUID:
        """The activity in progress: that of the place, else of the nearest scope that has one, else the instance."""
        tokens = (place for place in self.places if isinstance(place, Token))
        return next((token.activity for token in tokens if token.activity is not None), self.instance_id)

    def __getitem__(self, name: str) -> Any:
        for layer in self._layers:
            if name in layer:
                return layer[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter({name: None for layer in self._layers for name in layer})

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True, slots=True)
class HandlerCall:
    """A handler that runs within the step. It may raise BpmnError. What it sets goes into ``changed``."""

    node: Node
    work: Work
    arguments: Any
    scope: Scope
    changed: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a listener is called for. ``cancelled``: the activity was interrupted.

    ``task`` is that of a task listener if this step has made it; otherwise the task is stored.
    """

    listener: Listener
    element: Node | Flow | Process
    scope: Scope
    cancelled: bool = False
    task: UserTask | None = None


@dataclass(frozen=True, slots=True)
class Called:
    """The process that a call activity names, its expressions evaluated."""

    key: str
    binding: Binding
    version: Any
    caller_definition: str


@dataclass(frozen=True, slots=True)
class Declared:
    """What a handler says of itself: whether it always runs outside of steps, and the options of its jobs then.

    ``by_call``: what its jobs share with others depends on the arguments, so the job that begins its step has them.
    """

    outside: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    by_call: bool = False


class Environment(Protocol):
    """Evaluates, calls and knows; the engine itself does nothing but move tokens."""

    def evaluate(self, expression: Expression, variables: Scope) -> Any: ...

    def declared(self, handler: str) -> Declared:
        """What a handler says of itself."""

    def call(self, call: HandlerCall) -> Any:
        """Run a handler, and return its result."""

    def notify(self, notice: Notice) -> None:
        """Call a listener."""

    def process(self, definition: str) -> Process:
        """The definition with this id."""

    def resolve(self, called: Called) -> str:
        """The id of the definition that a call activity means."""

    def is_suspended(self, instance: UUID, definition: str) -> bool:
        """Whether an instance is, which one that it called or a signal of another one is about to move."""

    def new_id(self) -> UUID: ...

    def now(self) -> datetime: ...
