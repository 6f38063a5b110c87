"""The interface through which the engine reaches its environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from ..definition import Binding, Expression, Flow, Listener, Node, Process, Work

Layer = Mapping[str, Any]


class Scope(Mapping[str, Any]):
    """The variables that are visible at a place: its own first, then those of the scopes around it.

    ``execution_id``, ``instance_id`` and ``business_key`` are what expressions know as ``execution``.
    """

    __slots__ = ("_layers", "business_key", "definition", "element_id", "execution_id", "instance_id")

    def __init__(
        self,
        layers: tuple[Layer, ...],
        execution_id: UUID,
        instance_id: UUID,
        business_key: str | None,
        element_id: str | None,
        definition: str = "",
    ) -> None:
        self._layers = layers
        self.execution_id, self.instance_id = execution_id, instance_id
        self.business_key, self.element_id, self.definition = business_key, element_id, definition

    def with_layer(self, layer: Layer) -> Scope:
        """The same with variables that come before the others."""
        place = (self.execution_id, self.instance_id, self.business_key, self.element_id, self.definition)
        return Scope((layer, *self._layers), *place)

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
    """Something that a listener is called for. ``cancelled``: the activity was interrupted."""

    listener: Listener
    element: Node | Flow | Process
    scope: Scope
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Called:
    """The process that a call activity names, its expressions evaluated."""

    key: str
    binding: Binding
    version: Any
    caller_definition: str


@dataclass(frozen=True, slots=True)
class Declared:
    """What a handler says of itself: whether it always runs outside of steps, and the options of its jobs then."""

    outside: bool = False
    options: dict[str, Any] = field(default_factory=dict)


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
