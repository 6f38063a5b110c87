"""Where the elements of a process are drawn: in columns from left to right, each after all that leads to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..definition import Kind, Node, Process
from ..definition.node import EVENTS, GATEWAYS

Point = tuple[float, float]

_TASK, _GATEWAY, _EVENT = (120.0, 56.0), (36.0, 36.0), (28.0, 28.0)
_BETWEEN_COLUMNS, _BETWEEN_ROWS, _PADDING, _TITLE = 48.0, 28.0, 20.0, 18.0
_SWEEPS = 4


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


@dataclass
class Layout:
    """The boxes and lines of a scope, and of the scopes in it."""

    width: float = 0.0
    height: float = 0.0
    boxes: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)


def layout(process: Process, scope: str | None = None) -> Layout:
    """Lay out the elements of a process, or of one of its sub-processes."""
    nodes = [node for node in process.children(scope) if node.attached_to is None]
    inner = {node.id: layout(process, node.id) for node in nodes if node.kind is Kind.SUB_PROCESS}
    sizes = {node.id: _size(node, inner.get(node.id)) for node in nodes}
    columns = _columns(process, nodes)
    found = Layout()
    x = _PADDING
    heights = [sum(sizes[node.id][1] + _BETWEEN_ROWS for node in column) - _BETWEEN_ROWS for column in columns]
    tallest = max(heights, default=0.0)
    for column, height in zip(columns, heights, strict=True):
        y = _PADDING + (tallest - height) / 2
        widest = max(sizes[node.id][0] for node in column)
        for node in column:
            width, tall = sizes[node.id]
            box = Box(node, x + (widest - width) / 2, y, width, tall)
            _place(found, process, box, inner.get(node.id))
            y += tall + _BETWEEN_ROWS
        x += widest + _BETWEEN_COLUMNS
    found.width = max(x - _BETWEEN_COLUMNS + _PADDING, 2 * _PADDING)
    found.height = tallest + 2 * _PADDING
    _connect(found, process, scope)
    return found


def _size(node: Node, inner: Layout | None) -> Point:
    if inner is not None:
        return max(inner.width, _TASK[0]), max(inner.height + _TITLE, _TASK[1])
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


def _columns(process: Process, nodes: Sequence[Node]) -> list[list[Node]]:
    """Each node right of all that lead to it; flows that go back do not count."""
    ids = {node.id for node in nodes}
    leading = {node.id: [each for each in _targets(process, node) if each in ids] for node in nodes}
    ranks = _ranks([node.id for node in nodes], leading)
    columns: list[list[Node]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for node in nodes:
        columns[ranks[node.id]].append(node)
    columns = [column for column in columns if column]
    _untangle(columns, leading)
    return columns


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


def _untangle(columns: list[list[Node]], leading: dict[str, list[str]]) -> None:
    """Order each column by the middle of what leads to its nodes, so that few lines cross."""
    sources: dict[str, list[str]] = {}
    for id, targets in leading.items():
        for target in targets:
            sources.setdefault(target, []).append(id)
    for _ in range(_SWEEPS):
        places = {node.id: number for column in columns for number, node in enumerate(column)}
        for column in columns[1:]:
            middles = {node.id: _middle(sources.get(node.id, ()), places, places[node.id]) for node in column}
            column.sort(key=lambda node: middles[node.id])
            places.update({node.id: number for number, node in enumerate(column)})


def _middle(sources: Sequence[str], places: dict[str, int], otherwise: int) -> float:
    return sum(places[each] for each in sources) / len(sources) if sources else otherwise


def _connect(found: Layout, process: Process, scope: str | None) -> None:
    boxes = {box.node.id: box for box in found.boxes}
    for flow in process.flows:
        source, target = boxes.get(flow.source), boxes.get(flow.target)
        if source is None or target is None or source.node.parent != scope:
            continue
        found.lines.append(Line(flow.id, flow.name, _path(source, target)))


def _path(source: Box, target: Box) -> tuple[Point, ...]:
    """With right angles. Back to the left, it goes round below."""
    start = source.bottom if source.node.attached_to else source.right
    end = target.left
    if source.node.attached_to:
        turn = start[1] + _BETWEEN_ROWS / 3
        middle = max(end[0] - _BETWEEN_COLUMNS / 3, start[0])
        return start, (start[0], turn), (middle, turn), (middle, end[1]), end
    if end[0] <= start[0]:
        below = max(source.y + source.height, target.y + target.height) + _BETWEEN_ROWS / 2
        out, back = start[0] + _BETWEEN_COLUMNS / 4, end[0] - _BETWEEN_COLUMNS / 4
        return start, (out, start[1]), (out, below), (back, below), (back, end[1]), end
    if start[1] == end[1]:
        return start, end
    middle = end[0] - _BETWEEN_COLUMNS / 2
    return start, (middle, start[1]), (middle, end[1]), end
