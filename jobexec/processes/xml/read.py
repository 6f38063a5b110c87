"""Bytes of a BPMN file to a Model: all problems of the file at once."""

from __future__ import annotations

from collections.abc import Iterable

from jobexec.processes.definition import InvalidProcess, Problem, Process, problems_of

from .element import Element
from .model import Model, Participant
from .names import BPMN
from .read_diagram import read_diagrams
from .read_process import read_process
from .reading import Reading
from .safe import FILE, parse

_REFERRED = ("message", "signal", "error", "escalation")
_REFUSED = {
    "import": "imports of other files are not supported",
    "interface": "web services are not supported; use a registered handler",
    "resource": "name users and groups at the task",
    "partnerEntity": "it has no meaning here",
    "endPoint": "web services are not supported; use a registered handler",
    "choreography": "choreographies are not supported",
    "globalTask": "global tasks are not supported",
    "globalUserTask": "global tasks are not supported",
    "globalScriptTask": "global tasks are not supported",
    "globalManualTask": "global tasks are not supported",
    "globalBusinessRuleTask": "global tasks are not supported",
}


def read(data: bytes) -> Model:
    """Read a file. Raises InvalidProcess with each problem, in the order of their lines."""
    tree = parse(data)
    reading = Reading(tree)
    root = Element(tree, reading)
    if (root.namespace, root.name) != (BPMN, "definitions"):
        raise InvalidProcess([Problem(FILE, f"The file begins with {root.shown}; expected BPMN 2.0 definitions.", 1)])
    model = _read_model(root, reading)
    root.report_unread()
    _check_whole(model, root, reading)
    if reading.problems:
        raise InvalidProcess(sorted(reading.problems, key=lambda each: (each.line or 0, each.element, each.message)))
    return model


def _read_model(root: Element, reading: Reading) -> Model:
    for name in _REFERRED:
        for each in root.children(name):
            reading.definitions[(name, each.own_id())] = each
            each.get("name")
            _read_referred(each)
    for each in root.children(*_REFUSED):
        each.problem(f"The element {each.shown} is not supported: {_REFUSED[each.name]}.")
        each.discard()
    for each in root.children("documentation", "relationship"):
        each.discard()
    processes = tuple(_read_process(each, reading) for each in root.children("process"))
    shapes, edges = read_diagrams(root, reading)
    return Model(processes, tuple(_participants(root)), shapes, edges)


def _read_process(element: Element, reading: Reading) -> Process:
    """One that is only drawn, as the pool of a partner is, may contain anything."""
    before = len(reading.problems)
    process = read_process(element, reading)
    if not process.executable:
        del reading.problems[before:]
        element.discard()
    return process


def _read_referred(element: Element) -> None:
    """What a message, signal, error or escalation has, whether or not an event refers to it."""
    element.get("errorCode")
    element.get("escalationCode")
    element.vendor("errorMessage")
    if element.vendor("scope") not in (None, "global"):
        element.problem("A signal reaches all instances: its scope can only be global.")
    subscription = element.zeebe("subscription")
    if subscription is not None:
        subscription.get("correlationKey")
    for each in element.children("documentation"):
        each.discard()


def _participants(root: Element) -> Iterable[Participant]:
    for collaboration in root.children("collaboration"):
        for each in collaboration.children("participant"):
            yield Participant(each.own_id(), each.get("name"), each.get("processRef"))
            for child in each.children("documentation", "participantMultiplicity", "interfaceRef", "endPointRef"):
                child.discard()
        for each in collaboration.children("association", "documentation", "conversation", "conversationLink"):
            each.discard()


def _check_whole(model: Model, root: Element, reading: Reading) -> None:
    """The rules of definitions, which need a whole process, and what several processes have in common."""
    if not model.processes:
        reading.problems.append(Problem(FILE, "The file has no process.", 1))
    if not any(process.executable for process in model.processes):
        for each in root.children("process"):
            if each.get("isExecutable") is None:  # one that is "false" on purpose is a drawing
                each.problem(
                    'No process of the file is executable. In files of Camunda, this takes isExecutable="true".'
                )
    keys = [process.key for process in model.processes]
    for process in model.processes:
        if keys.count(process.key) > 1:
            reading.problems.append(Problem(process.key, "Another process of the file has this id.", process.line))
        reading.problems += (problem for problem in _problems(process, reading) if problem not in reading.problems)


def _problems(process: Process, reading: Reading) -> list[Problem]:
    """A process that is only drawn obeys no rules. An element that was refused is not reported twice."""
    if not process.executable:
        return []
    refused = {problem.element for problem in reading.problems}
    return [problem for problem in problems_of(process) if problem.element not in refused]
