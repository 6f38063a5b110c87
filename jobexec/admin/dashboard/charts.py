"""Charts as inline SVG: only shapes, coloured by the style sheet, with a description in words.

They are stretched to the available width, so all text is in the HTML around them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

HEIGHT = 100
#: The minimum height of a value above 0, so that it is visible.
_LEAST = 2.0
#: Values that are more than this many times as large as those of most steps are cut a bit above these.
_USUAL, _MUCH_LARGER, _ABOVE = 0.9, 4, 1.5
#: Fewer values than this are all shown in full: there is no telling what is usual.
_FEW = 6
_NICE = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)


def nice_top(value: float) -> float:
    """The next round number, for the top of a scale."""
    size = 1.0
    while size * 10 < value:
        size *= 10
    return next(size * step for step in _NICE if size * step >= value) if value > 1 else 1.0


def fair_top(values: Iterable[float]) -> float:
    """The largest value, but of values with a few much larger ones a height at which the others can be compared."""
    found = sorted(value for value in values if value > 0)
    if len(found) < _FEW:
        return found[-1] if found else 0.0
    usual = found[int(_USUAL * (len(found) - 1))]
    return found[-1] if found[-1] <= _MUCH_LARGER * usual else _ABOVE * usual


def stacked_bars(
    name: str, title: str, description: str, layers: Sequence[tuple[str, Sequence[float]]], tips: Sequence[str]
) -> SafeString:
    """One bar per step, stacked from the bottom; ``layers`` are pairs of a CSS class and the values of its steps.

    :func:`nice_top` of the :func:`fair_top` of the sums is the top of the scale; higher bars are cut there and marked.
    ``tips`` describe each bar in words.
    """
    steps = len(tips)
    top = nice_top(fair_top(sums(layers)))
    bars = (_bar(at, [(kind, values[at]) for kind, values in layers], tips[at], top) for at in range(steps))
    return _svg(name, title, description, steps, format_html_join("", "{}", ((bar,) for bar in bars)))


def sums(layers: Iterable[tuple[str, Sequence[float]]]) -> list[float]:
    """The height of each bar."""
    return [sum(values) for values in zip(*(values for _, values in layers), strict=True)]


def _bar(position: int, parts: Iterable[tuple[str, float]], tip: str, top: float) -> SafeString:
    shapes, floor, whole = [], float(HEIGHT), 0.0
    for kind, value in parts:
        if value:
            height = min(floor, max(_LEAST, value / top * HEIGHT))
            floor -= height
            shapes.append((kind, f"{position + 0.1:.1f}", f"{floor:.2f}", f"{height:.2f}"))
            whole += value
    if whole > top:
        shapes.append(("jobexec-cut", f"{position + 0.1:.1f}", "0.00", "5.00"))
    # The empty space above belongs to the bar, so that the whole column shows the tooltip.
    return format_html(
        '<g><title>{}</title><rect class="jobexec-space" x="{}" y="0" width="1" height="{}"/>{}</g>',
        tip,
        position,
        HEIGHT,
        format_html_join("", '<rect class="{}" x="{}" y="{}" width="0.8" height="{}"/>', shapes),
    )


def lines(
    name: str, title: str, description: str, curves: Sequence[tuple[str, Sequence[float | None]]], top: float
) -> SafeString:
    """Curves over the steps, with gaps for None; ``curves`` are pairs of a CSS class and values up to ``top``."""
    steps = max((len(values) for _, values in curves), default=0)
    drawn = ((kind, _path(values, top)) for kind, values in curves)
    return _svg(
        name,
        title,
        description,
        steps,
        format_html_join("", '<path class="{}" d="{}"/>', ((kind, path) for kind, path in drawn if path)),
    )


def _path(values: Sequence[float | None], top: float) -> str:
    """A path through the middles of the steps; a value between two gaps is a dot, drawn by the round line caps."""
    path, pen_down = [], False
    for position, value in enumerate(values):
        if value is None:
            pen_down = False
            continue
        point = f"{position + 0.5:.1f} {HEIGHT - min(1.0, value / top) * HEIGHT:.2f}"
        path.append(f"L{point}" if pen_down else f"M{point}h0")
        pen_down = True
    return "".join(path)


def _svg(name: str, title: str, description: str, steps: int, shapes: SafeString) -> SafeString:
    return format_html(
        '<svg class="jobexec-chart" viewBox="0 0 {steps} {height}" preserveAspectRatio="none" role="img"'
        ' aria-labelledby="{name}-title {name}-desc"><title id="{name}-title">{title}</title>'
        '<desc id="{name}-desc">{description}</desc>'
        '<path class="jobexec-grid" d="M0 0H{steps}M0 {middle}H{steps}M0 {height}H{steps}"/>{shapes}</svg>',
        name=name,
        title=title,
        description=description,
        steps=max(steps, 1),
        height=HEIGHT,
        middle=HEIGHT // 2,
        shapes=shapes,
    )
