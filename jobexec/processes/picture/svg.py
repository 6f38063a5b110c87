"""The picture as SVG: shapes of BPMN, and what stands at them. Colours are in the style sheet, for light and dark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from ..definition import Kind, Process, Trigger
from ..definition.node import EVENTS, GATEWAYS
from .layout import Box, Line, layout

_LONGEST = 19
_MARKS = {
    Kind.EXCLUSIVE_GATEWAY: "\N{MULTIPLICATION SIGN}",
    Kind.PARALLEL_GATEWAY: "+",
    Kind.INCLUSIVE_GATEWAY: "○",
    Kind.EVENT_BASED_GATEWAY: "⬠",
}
_TRIGGERS = {
    Trigger.TIMER: "◷",
    Trigger.MESSAGE: "✉",
    Trigger.SIGNAL: "△",
    Trigger.ERROR: "↯",
    Trigger.FAILURE: "↯",
    Trigger.ESCALATION: "↑",
    Trigger.TERMINATE: "●",
    Trigger.LINK: "➔",
    Trigger.COMPENSATION: "«",
}


@dataclass(frozen=True)
class Standing:
    """What is at an element: how many tokens wait there, whether it has an incident, whether it is over."""

    tokens: int = 0
    incidents: int = 0
    done: int = 0

    @property
    def name(self) -> str:
        if self.incidents:
            return "incident"
        return "waits" if self.tokens else "done" if self.done else ""


_NOTHING = Standing()


def picture(process: Process, standing: Mapping[str, Standing]) -> SafeString:
    """The SVG of a process, with what stands at its elements, by their ids."""
    found = layout(process)
    arrow = '<defs><marker id="jobexec-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
    arrow += 'orient="auto"><path d="M0 0L8 4L0 8z"></path></marker></defs>'
    return format_html(
        '<svg class="jobexec-picture" role="img" aria-label="{}" viewBox="0 0 {} {}" width="{}" height="{}">'
        "{}{}{}</svg>",
        _("The elements of %(process)s, and where it stands") % {"process": process.name or process.key},
        *(round(each) for each in (found.width, found.height, found.width, found.height)),
        SafeString(arrow),
        format_html_join("", "{}", ((_line(line),) for line in found.lines)),
        format_html_join("", "{}", ((_shape(box, standing.get(box.node.id, _NOTHING)),) for box in found.boxes)),
    )


def _line(line: Line) -> SafeString:
    points = " ".join(f"{x:.0f},{y:.0f}" for x, y in line.points)
    drawn = format_html('<polyline class="jobexec-flow" points="{}"></polyline>', points)
    if not line.name:
        return drawn
    (x, y), (beside, _y) = line.points[0], line.points[1]
    middle = (x + beside) / 2 + 4
    return drawn + format_html(
        '<text class="jobexec-note" x="{}" y="{}">{}</text>', round(middle), round(y) - 4, line.name
    )


def _shape(box: Box, standing: Standing) -> SafeString:
    title = f"{box.node.name or box.node.id} ({box.node.kind})"
    return format_html(
        '<g class="jobexec-element {}" data-element="{}"><title>{}</title>{}{}</g>',
        standing.name,
        box.node.id,
        title,
        _outline(box),
        _counts(box, standing),
    )


def _outline(box: Box) -> SafeString:
    node, x, y = box.node, round(box.x), round(box.y)
    middle_x, middle_y = round(box.x + box.width / 2), round(box.y + box.height / 2)
    if node.kind in GATEWAYS:
        half = round(box.width / 2)
        points = f"{x},{middle_y} {middle_x},{middle_y - half} {x + 2 * half},{middle_y} {middle_x},{middle_y + half}"
        return format_html('<polygon points="{}"></polygon>', points) + _text(middle_x, middle_y, _MARKS[node.kind])
    if node.kind in EVENTS:
        thick = " jobexec-end" if node.kind is Kind.END_EVENT else ""
        mark = _TRIGGERS.get(node.trigger, "") if node.trigger else ""
        circle = format_html(
            '<circle class="jobexec-event{}" cx="{}" cy="{}" r="{}"></circle>',
            thick,
            middle_x,
            middle_y,
            box.width // 2,
        )
        return circle + _text(middle_x, middle_y, mark)
    scope = node.kind is Kind.SUB_PROCESS
    label = node.name or node.id
    label = label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…"
    box_drawn = format_html(
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}" rx="8"></rect>',
        "jobexec-scope" if scope else "jobexec-task",
        x,
        y,
        round(box.width),
        round(box.height),
    )
    loop = (
        _text(middle_x, round(box.y + box.height) - 9, "≡" if node.loop.sequential else "|||")
        if node.loop
        else _text(0, 0, "")
    )
    return box_drawn + _text(middle_x, y + 12 if scope else middle_y, label) + loop


def _text(x: int, y: int, text: str) -> SafeString:
    return format_html('<text x="{}" y="{}">{}</text>', x, y, text) if text else SafeString("")


def _counts(box: Box, standing: Standing) -> SafeString:
    number = standing.incidents or standing.tokens
    if not number:
        return SafeString("")
    x, y = round(box.x + box.width), round(box.y)
    return format_html(
        '<circle class="jobexec-count" cx="{}" cy="{}" r="10"></circle>'
        '<text class="jobexec-count-text" x="{}" y="{}">{}</text>',
        x,
        y,
        x,
        y,
        number if number < 1000 else f"{number // 1000}k",
    )
