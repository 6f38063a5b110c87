"""Listeners of flows are called when the flow is taken."""

import dataclasses

import pytest

from jobexec.processes.definition import Listener, When
from jobexec.processes.engine.inputs import Retried, Triggered
from jobexec.processes.engine.rows import State
from tests.processes.support.notation import model
from tests.processes.support.world import World


def world_of(text: str, *flows: str, handler: str = "l") -> World:
    process = model(text)
    listening = tuple(
        dataclasses.replace(flow, listeners=(Listener(When.TAKE, handler=handler),)) if flow.id in flows else flow
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


@pytest.mark.parametrize("flow", ["f>a", "f>b"])
def test_an_error_of_a_listener_at_a_fork(flow):
    """No flow is taken then; when an operator retries it, all are."""
    world = world_of("start -> f+ -> a, b", flow, handler="error:E1")
    root = world.start()
    (token,) = world.tokens.values()
    assert (token.element, token.state) == ("f", State.FAILED)
    world.notify = lambda notice: None
    world.do(Retried(token.id), root)
    assert sorted(token.element for token in world.tokens.values()) == ["a", "b"]


def test_an_error_of_a_listener_at_a_fork_is_caught():
    text = "start -> sub -> end\nsub: s -> f+ -> a, b\ncaught = boundary sub error E1\ncaught -> c -> endc"
    world = world_of(text, "f>b", handler="error:E1")
    world.start()
    assert [token.element for token in world.tokens.values()] == ["c"]
