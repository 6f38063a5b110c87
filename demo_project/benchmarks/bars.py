"""A small bar chart in SVG: one bar for each contender, with a thin line from the least to the greatest value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .chart import STYLE, opening, readable, text, ticks

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW, _THICK = 760, 190, 170, 52, 40, 20


@dataclass(frozen=True, slots=True)
class Bar:
    """One value with its spread; ``note`` stands behind it."""

    label: str
    median: float
    min: float
    max: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars on one axis, which begins at 0; ``notes`` are lines below."""

    title: str
    bars: Sequence[Bar]
    notes: Sequence[str] = ()

    def svg(self) -> str:
        """The document."""
        return "\n".join(self._parts()) + "\n"

    def _parts(self) -> Iterator[str]:
        bottom = _TOP + len(self.bars) * _ROW
        height = bottom + 46 + 16 * len(self.notes)
        yield from opening(self.title, self.notes, _WIDTH, height, STYLE)
        yield text(16, 26, self.title, "title")
        yield from self._axis(bottom)
        for place, bar in enumerate(self.bars):
            yield from self._bar(bar, _TOP + place * _ROW + _ROW / 2)
        for place, note in enumerate(self.notes):
            yield text(16, bottom + 48 + place * 16, note, "soft")
        yield "</svg>"

    @property
    def _top(self) -> float:
        return ticks(max((bar.max for bar in self.bars), default=0) or 1)[-1]

    def _across(self, value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * value / self._top

    def _axis(self, bottom: float) -> Iterator[str]:
        for tick in ticks(self._top):
            x = self._across(tick)
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>'
            yield text(x, bottom + 14, readable(tick), "soft", "middle")

    def _bar(self, bar: Bar, middle: float) -> Iterator[str]:
        # What is not ours is the measure, and so drawn in the other colour.
        style = 0 if bar.label.startswith("ours") else 1
        yield text(_LEFT - 10, middle + 4, bar.label, anchor="end")
        yield (
            f'<rect class="bar{style}" x="{_LEFT}" y="{middle - _THICK / 2:.1f}" '
            f'width="{self._across(bar.median) - _LEFT:.1f}" height="{_THICK}" rx="2"/>'
        )
        low, high = self._across(bar.min), self._across(bar.max)
        ends = f"M {low:.1f} {middle - 4:.1f} v 8 M {high:.1f} {middle - 4:.1f} v 8"
        yield f'<path class="spread" d="M {low:.1f} {middle:.1f} H {high:.1f} {ends}"/>'
        digits = 0 if bar.median >= 100 else 2
        said = f"{bar.median:,.{digits}f}" + (f"  ({bar.note})" if bar.note else "")
        yield text(max(high, self._across(bar.median)) + 10, middle + 4, said, "soft")
