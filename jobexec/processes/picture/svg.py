"""The diagram as SVG: shapes of BPMN, with an overlay. Colours are in the style sheet, for light and dark."""

from __future__ import annotations

from textwrap import shorten, wrap

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from ..definition import Kind, Process
from ..definition.node import EVENTS, GATEWAYS, Node
from .icons import LOOP_ICONS, icon_of
from .layout import Box, Line, layout
from .overlay import NOTHING, Overlay, Standing

_LONGEST, _LINES = 18, 2
_ARROW = (
    '<marker id="jobexec-arrow{0}" class="jobexec-arrow{0}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
    'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z"></path></marker>'
)
_DEFAULT = (
    '<marker id="jobexec-default" viewBox="0 0 16 8" refX="0" refY="4" markerWidth="16" markerHeight="8" '
    'orient="auto"><path d="M6 7L10 1"></path></marker>'
)
_DEFINITIONS = SafeString(f"<defs>{_ARROW.format('')}{_ARROW.format('-taken')}{_DEFAULT}</defs>")


def picture(process: Process, overlay: Overlay) -> SafeString:
    """The SVG of a process, with an overlay."""
    found = layout(process)
    defaults = {node.default for node in process.nodes if node.default}
    return format_html(
        '<svg class="jobexec-picture" role="img" aria-label="{}" viewBox="0 0 {} {}" width="{}" height="{}">'
        "{}{}{}</svg>",
        _("The elements of %(process)s and its current position") % {"process": process.name or process.key},
        *(round(each) for each in (found.width, found.height, found.width, found.height)),
        _DEFINITIONS,
        format_html_join(
            "", "{}", ((_line(line, line.flow in overlay.taken, line.flow in defaults),) for line in found.lines)
        ),
        format_html_join("", "{}", ((_shape(box, overlay.elements.get(box.node.id, NOTHING)),) for box in found.boxes)),
    )


def _line(line: Line, taken: bool, is_default: bool) -> SafeString:
    points = " ".join(f"{x:.0f},{y:.0f}" for x, y in line.points)
    drawn = format_html(
        '<polyline class="jobexec-flow{}{}" points="{}"></polyline>',
        " jobexec-taken" if taken else "",
        " jobexec-default" if is_default else "",
        points,
    )
    if not line.name:
        return drawn
    x, y = line.points[0]
    return drawn + format_html(
        '<text class="jobexec-note" x="{}" y="{}">{}</text>', round(x) + 12, round(y) - 8, _cut(line.name)
    )


def _shape(box: Box, standing: Standing) -> SafeString:
    return format_html(
        '<g class="jobexec-element {}" data-element="{}"><title>{}</title>{}{}</g>',
        standing.classes,
        box.node.id,
        "\n".join(filter(None, (f"{box.node.name or box.node.id} ({box.node.kind})", standing.told))),
        _outline(box),
        _counts(box, standing),
    )


def _outline(box: Box) -> SafeString:
    if box.node.kind in GATEWAYS:
        return _gateway(box)
    return _event(box) if box.node.kind in EVENTS else _activity(box)


def _gateway(box: Box) -> SafeString:
    x, y = _middle(box)
    half = round(box.width / 2)
    points = f"{x - half},{y} {x},{y - half} {x + half},{y} {x},{y + half}"
    shape = format_html('<polygon class="jobexec-shape" points="{}"></polygon>', points)
    return shape + _icon(box.node, x - 7, y - 7) + _label(box)


def _event(box: Box) -> SafeString:
    node, (x, y) = box.node, _middle(box)
    radius = round(box.width / 2)
    kinds = "jobexec-shape"
    if node.kind is Kind.END_EVENT:
        kinds += " jobexec-end"
    if not node.interrupting:
        kinds += " jobexec-dashed"
    rings = [radius, radius - 3] if node.kind not in (Kind.START_EVENT, Kind.END_EVENT) else [radius]
    drawn = format_html_join(
        "", '<circle class="{}" cx="{}" cy="{}" r="{}"></circle>', ((kinds, x, y, ring) for ring in rings)
    )
    return drawn + _icon(node, x - 7, y - 7) + _label(box)


def _activity(box: Box) -> SafeString:
    node, (middle, y) = box.node, _middle(box)
    scope = node.kind is Kind.SUB_PROCESS
    kinds = "jobexec-shape jobexec-scope" if scope else "jobexec-shape"
    if node.kind is Kind.CALL_ACTIVITY:
        kinds += " jobexec-end"
    if node.by_event:
        kinds += " jobexec-dashed"
    left, top, bottom = round(box.x), round(box.y), round(box.y + box.height)
    drawn = format_html(
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}" rx="8"></rect>',
        kinds,
        left,
        top,
        round(box.width),
        round(box.height),
    )
    lines = wrap(node.name or node.id, _LONGEST, max_lines=_LINES, placeholder="…")
    first = top + 12 if scope else y - 7 * (len(lines) - 1) + (3 if node.loop is None else -3)
    text = format_html_join(
        "", "{}", ((_text(middle, first + 14 * number, line),) for number, line in enumerate(lines))
    )
    loop = LOOP_ICONS[node.loop.sequential] if node.loop else ""
    mark = format_html('<g class="jobexec-icon" transform="translate({} {})">{}</g>', middle - 7, bottom - 15, loop)
    return drawn + _icon(node, left + 5, top + 5) + text + (mark if loop else SafeString(""))


def _icon(node: Node, x: int, y: int) -> SafeString:
    drawn = icon_of(node)
    if not drawn:
        return SafeString("")
    filled = " jobexec-filled" if node.kind in (Kind.END_EVENT, Kind.THROW_EVENT, Kind.SEND_TASK) else ""
    return format_html('<g class="jobexec-icon{}" transform="translate({} {})">{}</g>', filled, x, y, drawn)


def _label(box: Box) -> SafeString:
    """The name below an event or a gateway."""
    if not box.node.name:
        return SafeString("")
    text = _cut(box.node.name)
    return format_html(
        '<text class="jobexec-label" x="{}" y="{}">{}</text>', _middle(box)[0], round(box.y + box.height) + 9, text
    )


def _counts(box: Box, standing: Standing) -> SafeString:
    left, right = round(box.x), round(box.x + box.width)
    top, bottom = round(box.y), round(box.y + box.height)
    drawn = SafeString("")
    # The name of an event or a gateway is below it.
    y = bottom if box.node.is_activity else top
    if standing.tokens:
        drawn += _count("tokens", left, y, standing.tokens)
    elif standing.runs:
        drawn += _count("runs", left, y, standing.runs)
    if standing.incidents:
        drawn += _count("incidents", right, top, standing.incidents)
    return drawn


def _count(kind: str, x: int, y: int, number: int) -> SafeString:
    text = short(number)
    width = 12 + 7 * len(text)
    return format_html(
        '<rect class="jobexec-{}" x="{}" y="{}" width="{}" height="18" rx="9"></rect>'
        '<text class="jobexec-count-text" x="{}" y="{}">{}</text>',
        kind,
        x - width // 2,
        y - 9,
        width,
        x,
        y,
        text,
    )


def short(number: int) -> str:
    """A number in four characters at most."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number // size}{unit}"
    return str(number)


def _middle(box: Box) -> tuple[int, int]:
    return round(box.x + box.width / 2), round(box.y + box.height / 2)


def _cut(text: str) -> str:
    return shorten(text, _LONGEST * 2, placeholder="…")


def _text(x: int, y: int, text: str) -> SafeString:
    return format_html('<text x="{}" y="{}">{}</text>', x, y, text) if text else SafeString("")
