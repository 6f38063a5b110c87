"""The tree of an expression, the same for JUEL and FEEL. What an operator means is up to the language's rules.

Nodes are compared without their positions, so that a tree equals the one that its printed form is parsed to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Node:
    """``position`` is the index of the node's first character, or that of its operator."""

    position: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Literal(Node):
    value: Any


@dataclass(frozen=True, slots=True)
class Text(Node):
    """JUEL: literal text with expressions in it, put together."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Name(Node):
    name: str


@dataclass(frozen=True, slots=True)
class ObjectProperty(Node):
    """JUEL: ``execution.businessKey``, ``task.assignee``. ``execution`` and ``task`` themselves are no values."""

    object: str
    name: str


@dataclass(frozen=True, slots=True)
class Property(Node):
    target: Node
    name: str


@dataclass(frozen=True, slots=True)
class Index(Node):
    """JUEL: ``order['amount']``, ``list[0]``."""

    target: Node
    index: Node


@dataclass(frozen=True, slots=True)
class Filter(Node):
    """FEEL: ``list[item > 5]``, ``list[1]``."""

    target: Node
    condition: Node


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """``-`` in both languages, ``not`` and ``empty`` in JUEL."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary(Node):
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class And(Node):
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or(Node):
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    condition: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True, slots=True)
class Call(Node):
    """``names`` are those of the arguments, or empty if they are given by position."""

    function: str
    arguments: tuple[Node, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListOf(Node):
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ContextOf(Node):
    entries: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class RangeOf(Node):
    start: Node
    end: Node
    start_included: bool
    end_included: bool


@dataclass(frozen=True, slots=True)
class Test(Node):
    """A comparison without its left side: the ``> 5`` of ``x in (> 5, null)``."""

    __test__ = False  # for pytest

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class In(Node):
    value: Node
    tests: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Between(Node):
    value: Node
    low: Node
    high: Node


@dataclass(frozen=True, slots=True)
class InstanceOf(Node):
    value: Node
    type: str


@dataclass(frozen=True, slots=True)
class For(Node):
    """The source of an iterator is a list, or a RangeOf that both ends belong to.

    ``partial``: the body asks for the results so far, by this name.
    """

    iterators: tuple[tuple[str, Node], ...]
    body: Node
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Quantified(Node):
    """``quantifier`` is ``some`` or ``every``."""

    quantifier: str
    iterators: tuple[tuple[str, Node], ...]
    condition: Node


def children(node: Node) -> Iterator[Node]:
    for each in fields(node):
        yield from _nodes(getattr(node, each.name))


def walk(tree: Node) -> Iterator[tuple[Node, int]]:
    """Yield each node with its level. The root's is 1."""
    waiting = [(tree, 1)]
    while waiting:
        node, level = waiting.pop()
        yield node, level
        waiting.extend((child, level + 1) for child in children(node))


def _nodes(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _nodes(each)
