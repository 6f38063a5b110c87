"""Sequence flows, gateways, lanes and associations."""

from __future__ import annotations

from itertools import count

from jobexec.processes.definition import Expression, Flow

from .element import Element
from .names import XSI
from .read_extensions import listeners, refuse_extensions
from .read_loops import check_language
from .reading import Reading


def read_flow(element: Element, reading: Reading, taken: set[str]) -> Flow:
    """A flow needs no id, as in Activiti and Flowable; then it gets one that is not among those taken."""
    refuse_extensions(element)
    source, target = element.get("sourceRef"), element.get("targetRef")
    if not source or not target:
        element.problem("A sequence flow needs a sourceRef and a targetRef.")
    return Flow(
        id=element.get("id") or _new_id(f"{source}-to-{target}", taken),
        source=source or "?",
        target=target or "?",
        name=element.get("name"),
        condition=_condition(element, reading),
        listeners=listeners(element, reading),
        line=element.line,
    )


def _new_id(wanted: str, taken: set[str]) -> str:
    found = wanted
    for at in count(2):
        if found not in taken:
            break
        found = f"{wanted}-{at}"
    taken.add(found)
    return found


def _condition(element: Element, reading: Reading) -> Expression | None:
    found = element.child("conditionExpression")
    if found is None:
        return None
    found.get("type", XSI)
    check_language(found)
    found.refuse_attributes({"resource": "scripts in files are not supported"})
    if not found.text:
        found.problem("The condition is empty.")
    return reading.expression(found, found.text, "condition")


def check_gateway(element: Element) -> None:
    if element.flag("instantiate", False):
        element.problem("An event-based gateway that starts a process is not supported; use several start events.")
    if element.get("eventGatewayType") not in (None, "Exclusive"):
        element.problem("A parallel event-based gateway is not supported.")


def read_lanes(element: Element) -> dict[str, str]:
    """The name of its innermost lane for each id of a node."""
    lanes: dict[str, str] = {}
    for group in element.children("laneSet", "childLaneSet"):
        for lane in group.children("lane"):
            name = lane.get("name") or lane.get("id") or ""
            lanes.update({each.text: name for each in lane.children("flowNodeRef")})
            lanes.update(read_lanes(lane))
            lane.get("partitionElementRef")
            for each in lane.children("documentation", "partitionElement"):
                each.discard()
    return lanes


def read_associations(element: Element) -> list[tuple[str, str]]:
    """Source and target of each association. Those of compensation boundary events do more than draw."""
    found = []
    for each in element.children("association"):
        each.get("associationDirection")
        found.append((each.get("sourceRef") or "", each.get("targetRef") or ""))
        for child in each.children("documentation"):
            child.discard()
    return found
