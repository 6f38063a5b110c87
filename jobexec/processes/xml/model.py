"""The content of a file: processes and their diagram."""

from __future__ import annotations

from dataclasses import dataclass

from jobexec.processes.definition import Process


@dataclass(frozen=True, slots=True)
class Bounds:
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Shape:
    """``BPMNShape``: where an element is drawn. ``element`` is its id; that of a pool is its participant's."""

    element: str
    bounds: Bounds
    label: Bounds | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """``BPMNEdge``: the line of a flow or an association."""

    element: str
    points: tuple[tuple[float, float], ...]
    label: Bounds | None = None


@dataclass(frozen=True, slots=True)
class Participant:
    """A pool. ``process`` is the key of the process in it, None for an empty pool."""

    id: str
    name: str | None
    process: str | None


@dataclass(frozen=True, slots=True)
class Model:
    """The content of one file. A model needs no drawing; then there are no shapes."""

    processes: tuple[Process, ...]
    participants: tuple[Participant, ...] = ()
    shapes: tuple[Shape, ...] = ()
    edges: tuple[Edge, ...] = ()
