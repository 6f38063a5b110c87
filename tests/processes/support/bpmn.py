"""Small BPMN documents around the piece that a test is about, in the dialect of one engine."""

from __future__ import annotations

from jobexec.processes.definition import InvalidProcess, Node, Process
from jobexec.processes.xml import Model, read

NAMESPACES = {
    "camunda": 'xmlns:camunda="http://camunda.org/schema/1.0/bpmn" xmlns:fox="http://www.camunda.com/fox"',
    "flowable": 'xmlns:flowable="http://flowable.org/bpmn"',
    "activiti": 'xmlns:activiti="http://activiti.org/bpmn"',
    "zeebe": 'xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" xmlns:modeler="http://camunda.org/schema/modeler/1.0"',
}
COMMON = (
    'xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'xmlns:bpmndi="http://www.omg.org/spec/BPMN/20100524/DI" xmlns:dc="http://www.omg.org/spec/DD/20100524/DC" '
    'xmlns:di="http://www.omg.org/spec/DD/20100524/DI" xmlns:jobexec="urn:jobexec:bpmn"'
)


def definitions(content: str, dialect: str = "camunda", attributes: str = "") -> bytes:
    return f'<definitions {COMMON} {NAMESPACES[dialect]} {attributes} id="file">\n{content}\n</definitions>'.encode()


def process(content: str, dialect: str = "camunda", top: str = "", attributes: str = "") -> bytes:
    return definitions(f'{top}<process id="p" isExecutable="true" {attributes}>\n{content}\n</process>', dialect)


def around(element: str, *, leaves: bool = True) -> str:
    """A start event, a flow to the element with the id ``x``, and a flow from it to an end event."""
    out = '<sequenceFlow id="out" sourceRef="x" targetRef="e"/><endEvent id="e"/>' if leaves else ""
    return f'<startEvent id="s"/><sequenceFlow id="in" sourceRef="s" targetRef="x"/>{element}{out}'


def read_process(content: str, dialect: str = "camunda", top: str = "", attributes: str = "") -> Process:
    (found,) = read(process(content, dialect, top, attributes)).processes
    return found


def read_node(element: str, dialect: str = "camunda", top: str = "", *, leaves: bool = True) -> Node:
    """The node with the id ``x``."""
    return read_process(around(element, leaves=leaves), dialect, top).node("x")


def activity(element: str, dialect: str = "camunda", inside: str = "", extensions: str = "", top: str = "") -> Node:
    """A service task ``<serviceTask id="x" …>`` from its name and attributes."""
    name, _, attributes = element.partition(" ")
    extra = f"<extensionElements>{extensions}</extensionElements>" if extensions else ""
    return read_node(f'<{name} id="x" {attributes}>{extra}{inside}</{name}>', dialect, top)


def problems(data: bytes) -> list[tuple[str, str]]:
    """Element and message of each problem; empty if the document can be read."""
    try:
        read(data)
    except InvalidProcess as error:
        return [(problem.element, problem.message) for problem in error.problems]
    return []


def read_model(content: str, dialect: str = "camunda", attributes: str = "") -> Model:
    return read(definitions(content, dialect, attributes))
