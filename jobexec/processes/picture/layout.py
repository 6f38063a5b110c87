"""Where the elements of a process are drawn: in columns from left to right, each after all that leads to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from ..definition import Kind, Node, Process
from ..definition.node import EVENTS, GATEWAYS

Point = tuple[float, float]
#: The places that a flow passes in the columns between its ends.
Chains = dict[tuple[str, str], list[str]]

_TASK, _GATEWAY, _EVENT = (120.0, 56.0), (36.0, 36.0), (28.0, 28.0)
_BETWEEN_COLUMNS, _BETWEEN_ROWS, _PADDING, _TITLE = 48.0, 28.0, 20.0, 18.0
_LABEL = 16.0
_SWEEPS = 5


@dataclass(frozen=True)
class Box:
    """The place of a node; ``x`` and ``y`` are its upper left corner."""

    node: Node
    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> Point:
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> Point:
        return self.x + self.width, self.y + self.height / 2

    @property
    def bottom(self) -> Point:
        return self.x + self.width / 2, self.y + self.height

    def moved(self, x: float, y: float) -> Box:
        return Box(self.node, self.x + x, self.y + y, self.width, self.height)


@dataclass(frozen=True)
class Line:
    """The path of a flow."""

    flow: str
    name: str | None
    points: tuple[Point, ...]

    def moved(self, x: float, y: float) -> Line:
        return Line(self.flow, self.name, tuple((px + x, py + y) for px, py in self.points))


class Place(NamedTuple):
    """The extent of its column, and the middle of its row. ``share`` is where, between this column and the next, the
    flows from here turn, so that those from different rows do not run into each other."""

    start: float
    end: float
    y: float
    share: float


@dataclass
class Layout:
    """The boxes and lines of a scope, and of the scopes in it."""

    width: float = 0.0
    height: float = 0.0
    boxes: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)


def layout(process: Process, scope: str | None = None) -> Layout:
    """Lay out the elements of a process, or of one of its sub-processes.

    In layers, after Sugiyama: a flow that spans several columns has an invisible place in each between, so that it
    crosses no element.
    """
    nodes = [node for node in process.children(scope) if node.attached_to is None]
    inner = {node.id: layout(process, node.id) for node in nodes if node.kind is Kind.SUB_PROCESS}
    sizes = {node.id: _size(process, node, inner.get(node.id)) for node in nodes}
    columns, chains = _columns(process, nodes)
    rows = _rows(columns, chains, {id: height for id, (_, height) in sizes.items()})
    by_id = {node.id: node for node in nodes}
    found = Layout()
    x, places = _PADDING, dict[str, Place]()
    for column in columns:
        widest = max((sizes[id][0] for id in column if id in sizes), default=0.0)
        for number, id in enumerate(column, 1):
            width, height = sizes.get(id, (widest, 0.0))
            places[id] = Place(x, x + widest, rows[id], number / (len(column) + 1))
            if id in by_id:
                box = Box(by_id[id], x + (widest - width) / 2, rows[id] - height / 2, width, height)
                _place(found, process, box, inner.get(id))
        x += widest + _BETWEEN_COLUMNS
    _connect(found, process, scope, chains, places)
    _fit(found)
    return found


def _fit(found: Layout) -> None:
    """Move everything to where the drawing begins, and measure it."""
    boxes = [(box.y, box.y + box.height + (_LABEL if _has_label(box.node) else 0.0)) for box in found.boxes]
    ys = [y for pair in boxes for y in pair] + [y for line in found.lines for _, y in line.points]
    xs = [box.x + box.width for box in found.boxes] + [x for line in found.lines for x, _ in line.points]
    top = min(ys, default=0.0) - _PADDING
    found.boxes = [box.moved(0.0, -top) for box in found.boxes]
    found.lines = [line.moved(0.0, -top) for line in found.lines]
    found.width = max(xs, default=0.0) + _PADDING
    found.height = max(ys, default=0.0) - top + _PADDING


def _has_label(node: Node) -> bool:
    """Events and gateways have their name below them."""
    return bool(node.name) and (node.kind in GATEWAYS or node.kind in EVENTS)


def _size(process: Process, node: Node, inner: Layout | None) -> Point:
    if inner is not None:
        return max(inner.width, _TASK[0]), max(inner.height + _TITLE, _TASK[1])
    if node.kind not in GATEWAYS and node.kind not in EVENTS:
        return max(_TASK[0], _EVENT[0] * (1.3 * len(process.boundary_events(node.id)) + 0.5)), _TASK[1]
    if node.kind in GATEWAYS:
        return _GATEWAY
    return _EVENT if node.kind in EVENTS else _TASK


def _place(found: Layout, process: Process, box: Box, inner: Layout | None) -> None:
    found.boxes.append(box)
    if inner is not None:
        found.boxes += [each.moved(box.x, box.y + _TITLE) for each in inner.boxes]
        found.lines += [each.moved(box.x, box.y + _TITLE) for each in inner.lines]
    for number, event in enumerate(process.boundary_events(box.node.id)):
        right = box.x + box.width - _EVENT[0] * (1.3 * number + 1.2)
        found.boxes.append(Box(event, right, box.y + box.height - _EVENT[1] / 2, *_EVENT))


def _columns(process: Process, nodes: Sequence[Node]) -> tuple[list[list[str]], Chains]:
    """The ids in columns, each node right of all that lead to it; flows that go back do not count.

    And the places between, which flows over several columns pass, by their ends.
    """
    ids = {node.id for node in nodes}
    leading = {node.id: [each for each in dict.fromkeys(_targets(process, node)) if each in ids] for node in nodes}
    ranks = _ranks([node.id for node in nodes], leading)
    columns: list[list[str]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for node in nodes:
        columns[ranks[node.id]].append(node.id)
    chains: Chains = {}
    for source, targets in leading.items():
        for target in targets:
            if ranks[target] > ranks[source]:
                between = [f"{source} {target} {rank}" for rank in range(ranks[source] + 1, ranks[target])]
                for rank, id in enumerate(between, ranks[source] + 1):
                    columns[rank].append(id)
                chains[source, target] = between
    _untangle(columns, _before(chains))
    return columns, chains


def _before(chains: Chains) -> dict[str, list[str]]:
    """What is left of each place and leads to it."""
    found: dict[str, list[str]] = {}
    for (source, target), between in chains.items():
        way = [source, *between, target]
        for one, other in pairwise(way):
            found.setdefault(other, []).append(one)
    return found


def _rows(columns: list[list[str]], chains: Chains, heights: dict[str, float]) -> dict[str, float]:
    """The middle of each place from top to bottom: near to what it is connected with, and clear of its neighbours."""
    before = _before(chains)
    after: dict[str, list[str]] = {}
    for id, sources in before.items():
        for source in sources:
            after.setdefault(source, []).append(id)
    rows: dict[str, float] = {}
    for column in columns:
        _settle(column, {}, heights, rows)
    for sweep in range(_SWEEPS):
        beside = before if sweep % 2 == 0 else after
        for column in columns if sweep % 2 == 0 else reversed(columns):
            _settle(column, beside, heights, rows)
    return rows


def _settle(column: list[str], beside: dict[str, list[str]], heights: dict[str, float], rows: dict[str, float]) -> None:
    """Move the places of a column to where they are wanted, as far as their order and distances allow.

    Least squares: neighbours that want to be nearer than they may form a block, which goes to the middle of what they
    want.
    """
    offset, blocks = 0.0, list[tuple[float, int]]()
    offsets = []
    for number, id in enumerate(column):
        half = heights.get(id, 0.0) / 2
        offset += (half + _BETWEEN_ROWS) if number else 0.0
        offsets.append(offset)
        offset += half
        wanted = [rows[each] for each in beside.get(id, ()) if each in rows]
        middle = (sum(wanted) / len(wanted) if wanted else rows.get(id, offsets[-1])) - offsets[-1]
        block = (middle, 1)
        while blocks and blocks[-1][0] >= block[0]:
            value, count = blocks.pop()
            total = count + block[1]
            block = ((value * count + block[0] * block[1]) / total, total)
        blocks.append(block)
    values = [value for value, count in blocks for _ in range(count)]
    rows.update({id: value + place for id, value, place in zip(column, values, offsets, strict=True)})


def _targets(process: Process, node: Node) -> Iterable[str]:
    for place in (node.id, *(event.id for event in process.boundary_events(node.id))):
        yield from (flow.target for flow in process.outgoing(place))
    if node.compensated_by is not None:
        yield node.compensated_by


def _ranks(ids: Sequence[str], leading: dict[str, list[str]]) -> dict[str, int]:
    """The longest way to each node, without the flows that close a circle."""
    order, back = _searched(ids, leading)
    ranks = dict.fromkeys(ids, 0)
    for id in reversed(order):
        for target in leading[id]:
            if (id, target) not in back:
                ranks[target] = max(ranks[target], ranks[id] + 1)
    return ranks


def _searched(ids: Sequence[str], leading: dict[str, list[str]]) -> tuple[list[str], set[tuple[str, str]]]:
    """Depth first: the nodes in the order in which all after them are done, and the flows that close a circle."""
    order: dict[str, None] = {}
    path: set[str] = set()
    back: set[tuple[str, str]] = set()
    stack = [(id, False) for id in reversed(ids)]
    while stack:
        id, done = stack.pop()
        if done:
            path.discard(id)
            order[id] = None
            continue
        if id in order or id in path:
            continue
        path.add(id)
        stack.append((id, True))
        back.update((id, target) for target in leading[id] if target in path)
        stack += [(target, False) for target in reversed(leading[id]) if target not in order and target not in path]
    return list(order), back


def _untangle(columns: list[list[str]], sources: dict[str, list[str]]) -> None:
    """Order each column by the middle of what leads to its places, so that few lines cross."""
    for _ in range(_SWEEPS):
        places = {id: number for column in columns for number, id in enumerate(column)}
        for column in columns[1:]:
            middles = {id: _middle(sources.get(id, ()), places, places[id]) for id in column}
            column.sort(key=lambda id: middles[id])
            places.update({id: number for number, id in enumerate(column)})


def _middle(sources: Sequence[str], places: dict[str, int], otherwise: int) -> float:
    return sum(places[each] for each in sources) / len(sources) if sources else otherwise


def _connect(found: Layout, process: Process, scope: str | None, chains: Chains, places: dict[str, Place]) -> None:
    boxes = {box.node.id: box for box in found.boxes}
    for flow in process.flows:
        source, target = boxes.get(flow.source), boxes.get(flow.target)
        if source is None or target is None or source.node.parent != scope:
            continue
        place = source.node.attached_to or flow.source
        way = [places[id] for id in (place, *chains.get((place, flow.target), ()), flow.target)]
        points = _back(source, target, way) if (place, flow.target) not in chains else _forth(source, target, way)
        found.lines.append(Line(flow.id, flow.name, tuple(points)))


def _out(source: Box, place: Place) -> list[Point]:
    """From a boundary event down, and out of its column."""
    if not source.node.attached_to:
        return [source.right]
    x, y = source.bottom
    below = y + _BETWEEN_ROWS / 3
    return [(x, y), (x, below), (place.end, below)]


def _forth(source: Box, target: Box, way: Sequence[Place]) -> list[Point]:
    """To the right with right angles, each turn in the gap before a column."""
    points = _out(source, way[0])
    for before, place in pairwise(way):
        y = target.left[1] if place is way[-1] else place.y
        if y != points[-1][1]:
            share = before.share / 2 if source.node.attached_to and before is way[0] else before.share
            turn = before.end + _BETWEEN_COLUMNS * share
            points += [(turn, points[-1][1]), (turn, y)]
    return [*points, target.left]


def _back(source: Box, target: Box, way: Sequence[Place]) -> list[Point]:
    """To the left, round below both."""
    points = _out(source, way[0])
    below = max(source.y + source.height, target.y + target.height) + _BETWEEN_ROWS / 2
    out, back = way[0].end + _BETWEEN_COLUMNS / 4, way[-1].start - _BETWEEN_COLUMNS / 4
    return [*points, (out, points[-1][1]), (out, below), (back, below), (back, target.left[1]), target.left]
