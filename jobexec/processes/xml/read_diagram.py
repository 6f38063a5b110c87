"""Diagram interchange: where shapes and edges are drawn. It never changes what is executed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from .element import Element
from .model import Bounds, Edge, Shape
from .names import BPMNDI, DC, DI
from .reading import Reading

#: A drawing beyond this is a mistake, or an attempt to make a page unusable.
_FARTHEST = 1_000_000.0


def read_diagrams(root: Element, reading: Reading) -> tuple[tuple[Shape, ...], tuple[Edge, ...]]:
    """The shapes and edges of all diagrams of a file."""
    shapes: list[Shape] = []
    edges: list[Edge] = []
    for diagram in root.children("BPMNDiagram", namespace=BPMNDI):
        for plane in diagram.children("BPMNPlane", namespace=BPMNDI):
            shapes += _shapes(plane)
            edges += _edges(plane)
        diagram.discard()  # its other attributes and elements are for editors
    return tuple(shapes), tuple(edges)


def _shapes(plane: Element) -> Iterator[Shape]:
    for element in plane.children("BPMNShape", namespace=BPMNDI):
        bounds, drawn = _bounds(element), element.get("bpmnElement")
        if bounds is None or not drawn:
            element.problem("A shape needs a bpmnElement and bounds.")
            continue
        yield Shape(drawn, bounds, _label(element))


def _edges(plane: Element) -> Iterator[Edge]:
    for element in plane.children("BPMNEdge", namespace=BPMNDI):
        points = [(_number(each, "x"), _number(each, "y")) for each in element.children("waypoint", namespace=DI)]
        drawn = element.get("bpmnElement")
        if not drawn or len(points) < 2:
            element.problem("An edge needs a bpmnElement and two waypoints.")
            continue
        yield Edge(drawn, tuple(points), _label(element))


def _label(element: Element) -> Bounds | None:
    label = element.child("BPMNLabel", BPMNDI)
    return None if label is None else _bounds(label)


def _bounds(element: Element) -> Bounds | None:
    bounds = element.child("Bounds", DC)
    if bounds is None:
        return None
    return Bounds(*(_number(bounds, name) for name in ("x", "y", "width", "height")))


def _number(element: Element, name: str) -> float:
    text = element.get(name) or "0"
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not abs(number) <= _FARTHEST:
        element.problem(f"The {name} is {text[:50]!r}; expected a number up to {_FARTHEST:,.0f}.")
        return 0.0
    return number
