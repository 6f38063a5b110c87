"""A sequence flow."""

from __future__ import annotations

from dataclasses import dataclass, field

from .parts import Listener
from .values import Expression


@dataclass(frozen=True)
class Flow:
    """An edge between two nodes of the same scope: ``sequenceFlow`` with ``sourceRef`` and ``targetRef``.

    ``condition`` is its ``conditionExpression``. That a flow is its source's default is an attribute of the source.
    ``listeners`` are called when it is taken.
    """

    id: str
    source: str
    target: str
    name: str | None = None
    condition: Expression | None = None
    listeners: tuple[Listener, ...] = ()
    line: int | None = field(default=None, compare=False)
