"""Listeners of flows are called when the flow is taken."""

import dataclasses

import pytest

from jobexec.processes.definition import Listener, When
from jobexec.processes.engine.inputs import Triggered
from tests.processes.support.notation import model
from tests.processes.support.world import World


def world_of(text: str, *flows: str) -> World:
    process = model(text)
    listening = tuple(
        dataclasses.replace(flow, listeners=(Listener(When.TAKE, handler="l"),)) if flow.id in flows else flow
        for flow in process.flows
    )
    return World(dataclasses.replace(process, flows=listening))


@pytest.mark.parametrize(
    ("text", "flow"),
    [
        ("start -> a -> end", "start>a"),
        ("start -> f+ -> a, b", "f>b"),
        ("start -> x?\nx -[yes]-> a\nx -[else]-> b", "x>a"),
        ("start -> t -> a\nt = task", "t>a"),
        ("start -> a -> j*\nstart -> t -> j\nt = task", "t>j"),
    ],
)
def test_a_flow_that_is_taken(text, flow):
    world = world_of(text, flow)
    world.start(yes=True)
    assert world.notices == [f"l:take:{flow}"]


@pytest.mark.parametrize(
    ("text", "flow"),
    [
        ("start -> a -> end", "a>end"),
        ("start -> x?\nx -[yes]-> a\nx -[else]-> b", "x>b"),
    ],
)
def test_a_flow_that_is_not_taken(text, flow):
    world = world_of(text, flow)
    world.start(yes=True)
    assert world.notices == []


def test_the_flow_behind_an_event_based_gateway():

    text = "start -> g~ -> m, t -> end\nm = catch message paid\nt = catch timer in PT1H"
    world = world_of(text, "g>m", "g>t")
    root = world.start()
    (row,) = world.subscriptions.values()
    world.do(Triggered(row.owner, row.element, row.activity), root)
    assert world.notices == ["l:take:g>m"]
