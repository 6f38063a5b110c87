"""A process and the scopes in it: which reader reads which element."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from jobexec.processes.definition import Flow, Kind, Mapping, Node, Process, Trigger

from .element import Element
from .read_activities import REFUSED, read_call, read_form, task_fields
from .read_events import read_event, thrown_work
from .read_extensions import job_options, listeners, mappings, number, properties, refuse_extensions, retry_plan
from .read_flow import check_gateway, read_associations, read_flow, read_lanes
from .read_loops import read_loop
from .reading import Reading

_KINDS = {str(kind): kind for kind in Kind}
_EVENTS = {Kind.START_EVENT, Kind.CATCH_EVENT, Kind.THROW_EVENT, Kind.BOUNDARY_EVENT, Kind.END_EVENT}
_GATEWAYS = {Kind.EXCLUSIVE_GATEWAY, Kind.PARALLEL_GATEWAY, Kind.INCLUSIVE_GATEWAY, Kind.EVENT_BASED_GATEWAY}
_REFUSED_PROCESS = {
    "candidateStarterExpression": "name users and groups",
    "eventName": "events of the whole engine are the signals of jobexec.processes.signals",
}


@dataclass
class _Content:
    """What a process and its sub-processes contain, in the order of the file."""

    nodes: list[Node] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    lanes: dict[str, str] = field(default_factory=dict)
    associations: list[tuple[str, str]] = field(default_factory=list)
    #: The activities that compensation boundary events are attached to, by the events' ids.
    compensated: dict[str, str] = field(default_factory=dict)


def read_process(element: Element, reading: Reading) -> Process:
    content = _Content()
    _read_scope(element, reading, content, None)
    element.refuse_attributes(_REFUSED_PROCESS)
    refuse_extensions(element)
    return Process(
        key=element.own_id(),
        nodes=tuple(_completed(content)),
        flows=tuple(content.flows),
        name=element.get("name"),
        executable=element.flag("isExecutable", not reading.is_camunda),
        version_tag=_version_tag(element),
        history_ttl=element.vendor("historyTimeToLive"),
        startable=element.vendor_flag("isStartableInTasklist", True),
        starter_users=_names(element.vendor("candidateStarterUsers")),
        starter_groups=_names(element.vendor("candidateStarterGroups")),
        priority=number(element, reading, element.vendor("jobPriority", "taskPriority"), "priority"),
        retry_plan=retry_plan(element, reading),
        listeners=listeners(element, reading),
        documentation=_documentation(element),
        properties=dict(properties(element)),
        line=element.line,
    )


def _read_scope(element: Element, reading: Reading, content: _Content, scope: str | None) -> None:
    content.lanes.update(read_lanes(element))
    content.associations += read_associations(element)
    for child in element.children("dataObject"):
        _check_data_object(child)
    for child in element.children(*_KINDS, *REFUSED, "sequenceFlow"):
        if child.name == "sequenceFlow":
            content.flows.append(read_flow(child, reading, reading.ids))
        elif child.name in REFUSED:
            child.problem(f"The element {child.shown} is not supported: {REFUSED[child.name]}.")
            child.discard()
            content.nodes.append(_stand_in(child, scope))
        else:
            _read_node(child, reading, content, scope)
    content.nodes += (_stand_in(child, scope) for child in element.unread_children() if child.get("id"))


def _read_node(element: Element, reading: Reading, content: _Content, scope: str | None) -> None:
    kind = _KINDS[element.name]
    fields = _common(element, reading, kind, scope)
    if kind in _EVENTS:
        fields |= _event_fields(element, reading, kind)
    elif kind in _GATEWAYS:
        check_gateway(element)
    else:
        fields |= _activity_fields(element, reading, kind)
    event = fields.get("event")
    if kind is Kind.BOUNDARY_EVENT and event is not None and event.trigger is Trigger.COMPENSATION:
        content.compensated[fields["id"]] = fields["attached_to"] or ""
        if fields["listeners"]:
            element.problem(
                "A listener of a compensation event is never called; the activity that compensates has listeners."
            )
        return
    content.nodes.append(Node(**fields))
    if kind is Kind.SUB_PROCESS:
        _read_scope(element, reading, content, fields["id"])


def _common(element: Element, reading: Reading, kind: Kind, scope: str | None) -> dict[str, Any]:
    inputs, outputs = mappings(element, reading)
    return {
        "id": element.own_id(),
        "kind": kind,
        "name": element.get("name"),
        "parent": scope,
        "default": element.get("default"),
        "jobs": job_options(element, reading),
        "inputs": inputs,
        "outputs": outputs,
        "listeners": listeners(element, reading),
        "documentation": _documentation(element),
        "properties": dict(properties(element)),
        "line": element.line,
    }


def _event_fields(element: Element, reading: Reading, kind: Kind) -> dict[str, Any]:
    if element.flag("parallelMultiple", False):
        element.problem("An event that waits for several things at once is not supported.")
    fields: dict[str, Any] = {"event": read_event(element, reading)}
    if kind is Kind.START_EVENT:
        fields |= {"interrupting": element.flag("isInterrupting", True), "form": read_form(element, reading)}
        fields |= {"initiator": element.vendor("initiator")}
    elif kind is Kind.BOUNDARY_EVENT:
        fields |= {
            "attached_to": element.get("attachedToRef"),
            "interrupting": element.flag("cancelActivity", True),
        }
    elif kind in (Kind.THROW_EVENT, Kind.END_EVENT):
        fields["work"] = thrown_work(element, reading)
    return fields


def _activity_fields(element: Element, reading: Reading, kind: Kind) -> dict[str, Any]:
    for name in ("startQuantity", "completionQuantity"):
        if element.get(name) not in (None, "1"):
            element.problem(f"The {name} of an activity can only be 1.")
    fields: dict[str, Any] = {
        "loop": read_loop(element, reading),
        "for_compensation": element.flag("isForCompensation", False),
    }
    if kind is Kind.SUB_PROCESS:
        return fields | {"by_event": element.flag("triggeredByEvent", False)}
    if kind is Kind.CALL_ACTIVITY:
        return fields | _call_fields(element, reading)
    return fields | task_fields(element, reading)


def _call_fields(element: Element, reading: Reading) -> dict[str, Any]:
    call = read_call(element, reading)
    _, outputs = mappings(element, reading)
    if element.zeebe("calledElement") is not None and outputs:
        # In Zeebe they see the variables of the called process, and replace the propagation of all.
        return {"call": replace(call, outputs=(Mapping(None),))}
    return {"call": call}


def _stand_in(element: Element, scope: str | None) -> Node:
    """A node in place of one that is refused, so that flows to and from it are no problems of their own."""
    kind = Kind.EXCLUSIVE_GATEWAY if element.name.endswith("Gateway") else Kind.TASK
    return Node(id=element.own_id(), kind=kind, parent=scope, line=element.line)


def _completed(content: _Content) -> list[Node]:
    """The nodes with their lanes, and with the activities that compensate them."""
    handlers = {
        content.compensated[source]: target for source, target in content.associations if source in content.compensated
    }
    return [
        replace(node, lane=content.lanes.get(node.id), compensated_by=handlers.get(node.id))
        if node.id in content.lanes or node.id in handlers
        else node
        for node in content.nodes
    ]


def _check_data_object(element: Element) -> None:
    """Flowable gives its data objects values; those of BPMN only draw."""
    if element.extensions("value"):
        element.problem("The value of a data object is not supported; start the process with the variable.")
    element.discard()


def _version_tag(element: Element) -> str | None:
    zeebe = element.zeebe("versionTag")
    return element.vendor("versionTag") or (zeebe.get("value") if zeebe is not None else None)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _documentation(element: Element) -> str | None:
    """Plain text; markup in it is left out."""
    texts = [each.all_text for each in element.children("documentation")]
    return "\n\n".join(text for text in texts if text) or None
