"""Small charts in SVG: what they share, and panels in rows and columns with lines on common axes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_NOTE = 105  # characters
_LEFT, _TOP, _GAP_X, _GAP_Y, _RIGHT, _BOTTOM = 52, 78, 22, 46, 18, 46

# It brings its own background: an image in a page does not know whether the page is light or dark, only what the
# reader's system prefers.
STYLE = """
svg { --paper: #ffffff; --ink: #1f2328; --soft: #59636e; --grid: #d8dee4; --line0: #0b62c4; --line1: #c2410c; }
@media (prefers-color-scheme: dark) {
svg { --paper: #14181d; --ink: #e6edf3; --soft: #9aa4af; --grid: #30363d; --line0: #6cb2ff; --line1: #ff9e5e; } }
text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.title { font-size: 15px; font-weight: 600; }
.soft { fill: var(--soft); font-size: 11px; }
.grid { stroke: var(--grid); stroke-width: 1; }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.line0 { stroke: var(--line0); }
.line1 { stroke: var(--line1); stroke-dasharray: 5 2.5; }
.bar0 { fill: var(--line0); }
.bar1 { fill: var(--line1); }
.spread { fill: none; stroke: var(--ink); stroke-width: 1.3; }
"""


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes. ``lines`` are values at equal distances, by name, the same names in every panel; at most two.

    ``label`` stands above it.
    """

    label: str
    lines: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Chart:
    """``rows`` of panels on common axes; ``step`` is the distance of two values on the horizontal one.

    ``notes`` are lines below; ``panel`` is the width and the height of a panel.
    """

    title: str
    x_label: str
    y_label: str
    step: float
    rows: Sequence[Sequence[Panel]]
    notes: Sequence[str] = ()
    panel: tuple[int, int] = (230, 120)

    def svg(self) -> str:
        """The document."""
        return "\n".join(self._parts()) + "\n"

    @property
    def _panels(self) -> list[Panel]:
        return [panel for row in self.rows for panel in row]

    def _parts(self) -> Iterator[str]:
        panel_width, panel_height = self.panel
        columns = max((len(row) for row in self.rows), default=1)
        width = max(600, _LEFT + columns * panel_width + (columns - 1) * _GAP_X + _RIGHT)
        below = _BOTTOM + 16 * len(self.notes)
        height = _TOP + len(self.rows) * (panel_height + _GAP_Y) - _GAP_Y + below
        yield from opening(self.title, self.notes, width, height, STYLE)
        yield text(_LEFT, 24, self.title, "title")
        yield from self._legend()
        for number, row in enumerate(self.rows):
            for column, panel in enumerate(row):
                x, y = _LEFT + column * (panel_width + _GAP_X), _TOP + number * (panel_height + _GAP_Y)
                yield from self._panel(panel, x, y, first=column == 0)
        for number, note in enumerate((f"Across: {self.x_label}. Up: {self.y_label}.", *self.notes)):
            yield text(_LEFT, height - below + 34 + number * 16, note, "soft")
        yield "</svg>"

    def _legend(self) -> Iterator[str]:
        names = list(self._panels[0].lines) if self._panels else []
        for number, name in enumerate(names):
            x = _LEFT + number * 130
            yield f'<path class="line line{number}" d="M {x} 40 h 24"/>'
            yield text(x + 30, 44, name, "soft")

    def _panel(self, panel: Panel, x: int, y: int, first: bool) -> Iterator[str]:
        top, right = self._greatest, self._longest
        width, height = self.panel
        yield text(x, y - 6, panel.label)
        for tick in ticks(top):
            level = y + height * (1 - tick / top)
            yield f'<line class="grid" x1="{x}" x2="{x + width}" y1="{level:.1f}" y2="{level:.1f}"/>'
            if first:
                yield text(x - 6, level + 4, readable(tick), "soft", "end")
        for tick in (tick for tick in ticks(right) if tick <= right):
            yield text(x + width * tick / right, y + height + 14, readable(tick), "soft", "middle")
        for number, values in enumerate(panel.lines.values()):
            across = [x + width * (index + 0.5) * self.step / right for index in range(len(values))]
            down = [y + height * (1 - value / top) for value in values]
            points = " L ".join(f"{one:.1f} {other:.1f}" for one, other in zip(across, down, strict=True))
            if points:
                yield f'<path class="line line{number}" d="M {points}"/>'

    @property
    def _greatest(self) -> float:
        values = [value for panel in self._panels for line in panel.lines.values() for value in line]
        return ticks(max(values, default=0) or 1)[-1]

    @property
    def _longest(self) -> float:
        return self.step * max([1, *(len(line) for panel in self._panels for line in panel.lines.values())])


def ticks(greatest: float, most: int = 5) -> list[float]:
    """Round numbers from 0 to the first one that is not below ``greatest``, at most about ``most`` of them."""
    rough = greatest / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return [number * step for number in range(math.ceil(greatest / step - 1e-9) + 1)]


def opening(title: str, notes: Sequence[str], width: float, height: float, style: str) -> Iterator[str]:
    """The beginning of a document: what it is called, how it looks, and its background."""
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-labelledby="title description">'
    )
    yield f'<title id="title">{escape(title)}</title>'
    yield f'<desc id="description">{escape(" ".join(notes))}</desc>'
    yield f"<style>{style}</style>"
    yield f'<rect width="{width:g}" height="{height:g}" fill="var(--paper)"/>'


def text(x: float, y: float, content: str, style: str = "", anchor: str = "start") -> str:
    """A line of text at this place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{style}">{escape(content)}</text>'


def wrapped(notes: Sequence[str]) -> list[str]:
    """Notes as lines that fit into a chart."""
    return [line for note in notes for line in textwrap.wrap(note, _NOTE)]


def readable(value: float) -> str:
    """A round number as people write it."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"
