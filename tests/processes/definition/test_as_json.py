"""Definitions as JSON, and the hash of a shape."""

import dataclasses
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobexec.processes.definition import (
    Expression,
    Flow,
    Kind,
    Language,
    Mapping,
    Node,
    Process,
    Work,
    expressions_in,
    from_json,
    shape,
    to_json,
)
from tests.processes.support.notation import model

MODELS = {
    "chain": "start -> a -> b -> end\n a = outside charge -> amount\n b = external ship retries=3",
    "gateways": "start -> x?\n x -[n > 1]-> a -> end\n x -[else]-> b -> end",
    "events": "start -> a -> end\n late = boundary a timer in PT1H keep\n late -> m -> end\n"
    "m = catch message paid key=$k",
    "scopes": "start -> sub -> end\n sub: s -> a -> e\n sub: h\n h = eventsub\n h: hs -> b -> he\n"
    "hs = start error E1 codevar=c\n he = end escalation U1",
    "loops": "start -> a -> end\n a = service x over=rows item=row seq until=n results=all result=row inner-async",
    "calls": "start -> c -> end\n c = call child in:=x out:y=$z async nonexclusive",
    "listeners": "start -> a -> end\n a = user $boss on:start=one on:complete=two in:x=1 out:y=$x",
    "compensation": "start -> a -> undo -> end\n a = service x undo=b\n b = service y compensation\n"
    "undo = throw compensate",
}


@pytest.mark.parametrize("name", MODELS)
def test_there_and_back(name):
    process = model(MODELS[name], priority=Expression("${p}"), starter_users=("kim",))
    assert from_json(json.loads(json.dumps(to_json(process)))) == process


@pytest.mark.parametrize("name", MODELS)
def test_the_hash_survives_the_way(name):
    process = model(MODELS[name])
    assert shape(from_json(to_json(process))) == shape(process)


def test_shapes_differ():
    assert len({shape(model(text)) for text in MODELS.values()}) == len(MODELS)


def test_lines_are_not_part_of_a_shape():
    process = model(MODELS["chain"])
    moved = dataclasses.replace(process, nodes=tuple(dataclasses.replace(n, line=99) for n in process.nodes))
    assert (shape(moved), moved) == (shape(process), process)


def test_the_order_of_flows_is_part_of_a_shape():
    process = model(MODELS["gateways"])
    assert shape(dataclasses.replace(process, flows=process.flows[::-1])) != shape(process)


def test_what_has_its_default_is_left_out():
    process = Process("p", (Node("a", Kind.TASK),), (Flow("f", "a", "a"),))
    assert to_json(process) == {
        "key": "p",
        "nodes": [{"id": "a", "kind": "task"}],
        "flows": [{"id": "f", "source": "a", "target": "a"}],
    }


@pytest.mark.gate
def test_the_hash_is_the_same_in_another_process():
    """No hash of Python's, which differs from process to process, and no order of a set."""
    code = (
        "from tests.processes.definition.test_as_json import MODELS, model, shape\n"
        "print(*(shape(model(text)) for text in MODELS.values()))"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=".")
    assert child.stdout.split() == [shape(model(text)) for text in MODELS.values()]


def test_this_hash_stays():
    """Stored definitions are found by their hash: a change here makes all flows new definitions."""
    process = Process(
        "p", (Node("a", Kind.SERVICE_TASK, work=Work(handler="x", arguments={"n": Expression("${n}")})),), ()
    )
    assert shape(process) == "53aec3fd46fa0f9819a28ac48f2572bf8e771c2cc4968a522f6522191665c2a1"


@pytest.mark.parametrize(
    "value",
    [
        None,
        0,
        False,
        "",
        1.5,
        "text",
        [],
        {},
        [1, [2, {"a": None}]],
        {"$juel": "no expression"},
        {"$map": {}},
        Expression("${a}"),
        Expression("=a", Language.FEEL),
        {"args": [Expression("${a}"), {"b": Expression("${c}")}]},
    ],
)
def test_values(value):
    process = Process("p", (Node("a", Kind.TASK, inputs=(Mapping("x", value),)),), ())
    assert from_json(json.loads(json.dumps(to_json(process)))) == process


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.builds(Expression, st.text()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.gate
@given(VALUES)
def test_any_value(value):
    process = Process("p", (Node("a", Kind.TASK, work=Work(arguments=value)),), ())
    assert from_json(json.loads(json.dumps(to_json(process)))) == process


def test_expressions_in_a_value():
    first, second = Expression("${a}"), Expression("${b}")
    assert list(expressions_in({"x": [first, 1, {"y": second}], "z": "text"})) == [first, second]
