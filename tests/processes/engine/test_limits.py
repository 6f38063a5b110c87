"""Endless loops, and what is large but does end."""

import sys

import pytest

from jobexec.processes.engine import calls, moves
from jobexec.processes.engine.exceptions import TooDeep, TooManyMoves
from jobexec.processes.engine.inputs import Cancelled, Completed, Continue
from jobexec.processes.engine.rows import InstanceState
from tests.processes.support.notation import model
from tests.processes.support.world import World

LOOP = """
    start -> m? -> a -> x?
    a = service set:n=n+1
    x -[n < {n}]-> m
    x -[else]-> end
"""


def counting(world: World) -> None:
    world.call = lambda call: {"n": call.scope["n"] + 1}  # type: ignore[method-assign]


@pytest.mark.gate
def test_an_endless_loop_is_stopped():
    world = World(model("start -> m? -> a -> m\n a = task"))
    with pytest.raises(TooManyMoves, match="10,000 flows were taken without a wait"):
        world.start()
    assert not world.instances


@pytest.mark.gate
def test_an_endless_loop_of_calls_is_stopped(monkeypatch):
    world = World(model("start -> c -> end\n c = call process"))
    with pytest.raises(TooDeep, match="c: 1,000 instances call each other"):
        world.start()
    assert not world.instances
    monkeypatch.setattr(moves, "MAX_MOVES", 500)
    with pytest.raises(TooManyMoves):
        world.start()


def test_an_endless_loop_of_calls_with_jobs_is_stopped(monkeypatch):
    monkeypatch.setattr(calls, "MAX_DEPTH", 2)
    world = World(model("start -> c -> end\n c = call process async"))
    root = world.start()
    for number in range(1, 4):
        (job,) = world.jobs.values()
        event = Continue(job.owner, job.id)
        if number < 3:
            world.do(event, root, job.id)
            assert len(world.instances) == number + 1
    with pytest.raises(TooDeep):
        world.do(event, root, job.id)


@pytest.mark.parametrize(("flows", "stops"), [(12, False), (13, True)])
def test_the_limit_is_exact(monkeypatch, flows, stops):
    monkeypatch.setattr(moves, "MAX_MOVES", 12)
    chain = " -> ".join(f"t{number}" for number in range(flows - 1))
    tasks = "\n".join(f"t{number} = task" for number in range(flows - 1))
    world = World(model(f"start -> {chain} -> end\n{tasks}"))
    if stops:
        with pytest.raises(TooManyMoves):
            world.start()
    else:
        world.start()


@pytest.mark.gate
def test_a_loop_that_ends_is_not_stopped():
    world = World(model(LOOP.format(n=3000)))
    counting(world)
    root = world.start(n=0)
    assert world.instances[root].final_variables == {"n": 3000}


def test_each_step_has_its_own_limit(monkeypatch):
    monkeypatch.setattr(moves, "MAX_MOVES", 3)
    world = World(model("start -> m? -> a -> m"))
    root = world.start()
    for _ in range(5):
        (token,) = world.tokens.values()
        world.do(Completed(token.id, token.activity), root)


def test_a_fork_of_a_thousand_joins():
    names = [f"t{number}" for number in range(1000)]
    text = f"start -> fork+ -> {', '.join(names)} -> join+ -> a -> end\n" + "\n".join(f"{n} = task" for n in names)
    world = World(model(text))
    world.start()
    assert [token.element for token in world.tokens.values()] == ["a"]


@pytest.mark.gate
def test_a_multi_instance_of_thousands_is_no_endless_loop():
    world = World(model("start -> a -> end\n a = task loop=12000"))
    root = world.start()
    assert world.instances[root].ended_at is not None


@pytest.mark.gate
def test_a_deep_hierarchy_of_calls_is_cancelled():
    """Deeper than Python's stack: a process that calls itself without an end must be stoppable."""
    depth = calls.MAX_DEPTH
    assert depth >= sys.getrecursionlimit()
    callers = [model(f"start -> c -> end\n c = call p{number + 1}", f"p{number}") for number in range(depth)]
    world = World(*callers, model("start -> a -> end", f"p{depth}"))
    root = world.start("p0")
    world.do(Cancelled(root, "why"), root)
    assert not world.tokens and {row.state for row in world.instances.values()} == {InstanceState.CANCELLED}
    assert [row.element for row in world.history if row.state == "cancelled"] == ["a", *["c"] * depth]
