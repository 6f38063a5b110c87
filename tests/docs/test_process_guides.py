"""The guides of processes: each piece of a file can be deployed, and each guide is in the list."""

import re

import pytest

from jobexec.processes.handlers import registry
from jobexec.processes.operations.deploy import deploy
from tests.processes.support.bpmn import COMMON
from tests.support.suite.databases import ROOT

etree = pytest.importorskip("lxml.etree")

GUIDES = sorted((ROOT / "docs" / "how-to" / "processes").glob("*.md"))
BLOCK = re.compile(r"^```xml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VENDORS = (
    'xmlns:camunda="http://camunda.org/schema/1.0/bpmn" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" '
    'targetNamespace="guides"'
)
TOP = {"message", "error", "signal", "escalation"}
#: No flow leads to these.
BEGIN = {"startEvent", "boundaryEvent", "sequenceFlow"}


def pieces():
    return [
        pytest.param(content, id=f"{guide.stem}-{number}")
        for guide in GUIDES
        for number, content in enumerate(BLOCK.findall(guide.read_text()))
    ]


def whole(piece):
    """A piece of a file as a file: a fork leads to all that no flow of the piece leads to."""
    root = etree.fromstring(f"<definitions {COMMON} {VENDORS}>{piece}</definitions>")
    inside = [each for each in root if etree.QName(each).localname not in TOP]
    reached = {each.get("targetRef") for each in inside}
    process = etree.SubElement(root, etree.QName(root.nsmap[None], "process"), id="guide", isExecutable="true")
    process.extend(inside)
    first = [each for each in inside if etree.QName(each).localname not in BEGIN and each.get("id") not in reached]
    for name, attributes in (
        ("startEvent", {"id": "begin"}),
        ("parallelGateway", {"id": "all"}),
        ("sequenceFlow", {"id": "to_all", "sourceRef": "begin", "targetRef": "all"}),
        *(
            ("sequenceFlow", {"id": f"to_{id}", "sourceRef": "all", "targetRef": id})
            for id in (each.get("id") for each in first)
        ),
    ):
        etree.SubElement(process, etree.QName(root.nsmap[None], name), attributes)
    return etree.tostring(root)


@pytest.mark.django_db
@pytest.mark.parametrize("piece", pieces())
def test_a_piece_of_a_file_can_be_deployed(monkeypatch, piece):
    for name in re.findall(r'delegateExpression="\$\{([\w.]+)\}"', piece):
        monkeypatch.setitem(registry._services, name, print)
        monkeypatch.setitem(registry._listeners, name, print)
    assert len(deploy(("guide.bpmn", whole(piece)))) == 1


def test_each_task_of_the_list_has_a_guide():
    listed = (ROOT / "docs" / "how-to" / "processes" / "index.md").read_text().partition("maxdepth: 1")[2]
    assert set(re.findall(r"^[\w-]+$", listed, re.MULTILINE)) == {each.stem for each in GUIDES} - {"index"}
