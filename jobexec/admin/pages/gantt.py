"""When the jobs of a process instance ran, as bars on one axis of time, on which long pauses are cut short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

#: The width of the axis, in the units of the drawing.
WIDTH = 1000.0
#: A pause takes at most this share of the time in which something ran.
_PAUSE = 0.15
#: A bar is at least so wide, so that it can be seen.
_LEAST = 3.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A run: ``kind`` is its colour (ok, bad, work), ``tip`` describes it in words."""

    begin: datetime
    end: datetime
    kind: str
    tip: str


class Axis:
    """Places moments on a line. Where nothing ran for long, the line is cut: :attr:`cuts` are (place, length)."""

    def __init__(self, bars: Sequence[Bar]) -> None:
        self.cuts: list[tuple[float, timedelta]] = []
        busy = _merged(bars)
        total = sum((end - begin for begin, end in busy), timedelta(0)) or timedelta(milliseconds=1)
        most, at = total * _PAUSE, timedelta(0)
        #: Pieces in which something ran, with the length of the line before each.
        self._pieces: list[tuple[datetime, datetime, timedelta]] = []
        cuts: list[tuple[timedelta, timedelta]] = []
        for begin, end in busy:
            if self._pieces:
                pause = begin - self._pieces[-1][1]
                if pause > most:
                    cuts.append((at + most / 2, pause))
                at += min(pause, most)
            self._pieces.append((begin, end, at))
            at += end - begin
        self._scale = WIDTH / max(at, timedelta(milliseconds=1)).total_seconds()
        self.cuts = [(place.total_seconds() * self._scale, pause) for place, pause in cuts]

    def place(self, moment: datetime) -> float:
        """Where a moment is, from 0 to :data:`WIDTH`; one in a pause is at the end of the piece before."""
        found = 0.0
        for begin, end, at in self._pieces:
            if moment < begin:
                break
            found = (at + min(moment, end) - begin).total_seconds() * self._scale
        return found


def _merged(bars: Iterable[Bar]) -> list[tuple[datetime, datetime]]:
    found: list[tuple[datetime, datetime]] = []
    for begin, end in sorted((bar.begin, bar.end) for bar in bars):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def drawn(bars: Sequence[Bar], axis: Axis, title: Any) -> SafeString:
    """The bars of one job."""
    shapes = [_rect(bar, axis) for bar in bars]
    lines = format_html_join(
        "",
        '<path class="jobexec-pause" d="M{} 0V20"/>',
        ((f"{place:.1f}",) for place, _pause in axis.cuts),
    )
    return format_html(
        '<svg class="jobexec-gantt" viewBox="0 0 {} 20" preserveAspectRatio="none" role="img" aria-label="{}">{}{}'
        "</svg>",
        int(WIDTH),
        title,
        lines,
        format_html_join("", "{}", ((shape,) for shape in shapes)),
    )


def _rect(bar: Bar, axis: Axis) -> SafeString:
    begin, end = axis.place(bar.begin), axis.place(bar.end)
    width = max(_LEAST, end - begin)
    return format_html(
        '<rect class="jobexec-fill-{}" x="{}" y="3" width="{}" height="14"><title>{}</title></rect>',
        bar.kind,
        f"{min(begin, WIDTH - width):.1f}",
        f"{width:.1f}",
        bar.tip,
    )
