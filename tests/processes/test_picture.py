"""The picture of a process that the server draws."""

import hashlib
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given

from jobexec.processes.definition import Flow, Kind, Node, Process
from jobexec.processes.picture.gantt import Span
from jobexec.processes.picture.layout import layout
from jobexec.processes.picture.overlay import Overlay, Standing
from jobexec.processes.picture.svg import picture, short
from tests.support.suite.databases import ROOT

from .support.blocks import blocks, written
from .support.notation import model

BOUNDARIES = ("", "", "timer in PT1H", "message m keep", "error")


@pytest.mark.gate
@given(blocks(BOUNDARIES))
def test_boxes_are_apart_and_no_line_crosses_one(block):
    texts, _runs = written(block)
    for key, text in texts.items():
        process = model(text, key)
        found = layout(process)
        assert {box.node.id for box in found.boxes} == {node.id for node in process.nodes}
        assert {line.flow for line in found.lines} == {flow.id for flow in process.flows}
        plain = [box for box in found.boxes if box.node.attached_to is None]
        for one, other in combinations(plain, 2):
            if one.node.parent == other.node.parent:
                assert apart(one, other), (one, other)
        for line in found.lines:
            flow = process.flow(line.flow)
            scope = process.node(flow.source).parent
            near = {flow.source, flow.target, process.node(flow.source).attached_to}
            for box in plain:
                if box.node.parent == scope and box.node.id not in near:
                    assert not any(crosses(segment, box) for segment in pairwise(line.points)), (line, box)
        for box in found.boxes:
            assert box.x >= 0
            assert box.x + box.width <= found.width
            assert box.y >= 0
            assert box.y + box.height <= found.height


def apart(one, other):
    return (
        one.x + one.width <= other.x
        or other.x + other.width <= one.x
        or one.y + one.height <= other.y
        or other.y + other.height <= one.y
    )


def crosses(segment, box):
    (x1, y1), (x2, y2) = segment
    left, right, top, bottom = min(x1, x2), max(x1, x2), min(y1, y2), max(y1, y2)
    return left < box.x + box.width and right > box.x and top < box.y + box.height and bottom > box.y


def small(**options):
    nodes = (Node("s", Kind.START_EVENT), Node("a", Kind.USER_TASK, **options), Node("e", Kind.END_EVENT))
    return Process("p", nodes, (Flow("f", "s", "a"), Flow("g", "a", "e", name="yes & no")))


def parts(process, overlay):
    """All elements by tag, and the texts. Reading it proves that it is well-formed."""
    root = ElementTree.fromstring(picture(process, overlay))
    return list(root.iter()), ["".join(each.itertext()) for each in root.iter("text")]


def test_names_are_escaped_and_wrapped():
    elements, texts = parts(small(name='<script>alert("x")</script> and many more words for two lines'), Overlay({}))
    assert not [each for each in elements if each.tag == "script"]
    assert any("<script>" in text for text in texts)
    assert "yes & no" in texts
    assert sum(text.endswith("…") for text in texts) == 1


def test_what_stands_where_is_a_class_a_count_and_words():
    overlay = Overlay({"a": Standing(tokens=1200, incidents=2, told="1200 tokens, 2 incidents")}, frozenset({"f"}))
    elements, texts = parts(small(), overlay)
    (at,) = [each for each in elements if each.get("data-element") == "a"]
    assert at.get("class") == "jobexec-element incident"
    assert at.find("title").text == "a (userTask)\n1200 tokens, 2 incidents"
    assert {"1k", "2"} <= set(texts)
    lines = {each.get("class"): each for each in elements if each.tag == "polyline"}
    assert set(lines) == {"jobexec-flow jobexec-taken", "jobexec-flow"}
    assert not any("style" in each.attrib for each in elements)


def test_numbers_are_short():
    assert [short(each) for each in (0, 999, 1000, 12_345, 3_456_789)] == ["0", "999", "1k", "12k", "3M"]


def test_bars_are_in_proportion_and_never_invisible():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    span = Span(start, start + timedelta(seconds=100))

    def drawn(begin, end):
        rect = ElementTree.fromstring(span.bar(start + timedelta(seconds=begin), start + timedelta(seconds=end), "x"))[
            0
        ]
        return int(rect.get("x")), int(rect.get("width"))

    assert drawn(25, 75) == (250, 500)
    assert drawn(100, 100) == (996, 4)
    assert drawn(-5, 300) == (0, 1000)
    assert Span(start, start).bar(start, start, "x")


# The files of bpmn-js 18.31.1 as the npm registry has them (sha512 of the package:
# Hc7LzrgwfcBRUAdI/380Q2v1MJ115atGEVGadawLfDbHdo+r+IkmNj8fuYPFmWglUYt1KYIaC46OeX16HGTKQw==), by their sha256.
VENDORED = {
    "bpmn-navigated-viewer.production.min.js": "134280f49f2ca8bbc90797fa656177e2b787ae0a62249fe3dadb8038eb88e9db",
    "diagram-js.css": "73f990dcd6cd2ed696aa63a3c73822a97f0ea69a221d76ebe6cf24b01111df21",
    "bpmn-js.css": "a1add5dca479c779a54adda507f26796f4d61a5ae15f6cc14a1b017ff65b4015",
    "LICENSE": "5788cf8bd61481776cee1c943595525499a1355c045e9244f92e6c8092c06770",
}


def test_bpmn_js_is_the_published_one():
    """Its licence forbids a change of what shows its mark, and nobody would see another change in a minified file."""
    folder = ROOT / "jobexec/processes/static/jobexec_processes/bpmn-js"
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
    assert found.pop("README.md")
    assert found == VENDORED
    assert "# bpmn-js 18.31.1\n" in (folder / "README.md").read_text()
