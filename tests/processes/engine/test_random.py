"""Random models: they end, lose no token, and never leave a job without a token or the reverse.

``World.check`` looks at all rows after each step.
"""

import random
from collections import Counter

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from jobexec.processes.engine.inputs import Cancelled
from tests.processes.support.blocks import blocks, written
from tests.processes.support.driver import actions, drive
from tests.processes.support.notation import model
from tests.processes.support.world import World

SEEDS = st.integers(0, 2**32)
BOUNDARIES = (
    "",
    "",
    "timer in PT1H",
    "timer in PT1H keep",
    "message m",
    "error",
    "failure",
    "error E2",
    "signal s keep",
)
EVENTS = ("", "message n", "timer in PT1H", "error E1", "timer in PT1H keep")


def world_of(texts: dict[str, str]) -> World:
    note("\n\n".join(f"{key}:\n{text}" for key, text in texts.items()))
    return World(*(model(text, key) for key, text in texts.items()))


def assert_nothing_is_left(world: World) -> None:
    assert not (world.tokens or world.jobs or world.subscriptions or world.tasks or world.incidents)
    assert not any(world.variables.values())
    assert all(instance.ended_at for instance in world.instances.values())


def play(texts: dict[str, str], seed: int, kinds: set[str]) -> World:
    world = world_of(texts)
    root = world.start(yes=True, no=False)
    drive(world, root, random.Random(seed).randrange, kinds)
    assert_nothing_is_left(world)
    return world


@pytest.mark.gate
@given(blocks(), SEEDS)
def test_all_runs_that_must_run_and_nothing_else(block, seed):
    texts, runs = written(block)
    world = play(texts, seed, set())
    done = Counter(
        row.element
        for row in world.history
        if row.state == "completed" and row.element[0] in "tp" and row.kind != "multiInstanceBody"
    )
    assert done == +runs


@pytest.mark.gate
@settings(max_examples=150)
@given(blocks(BOUNDARIES, EVENTS), SEEDS, st.sets(st.sampled_from(["timer", "message", "error"])))
def test_it_ends_whatever_happens(block, seed, kinds):
    texts, _ = written(block)
    play(texts, seed, kinds)


@pytest.mark.gate
@given(blocks(BOUNDARIES, EVENTS), SEEDS)
def test_a_cancellation_leaves_nothing_behind(block, seed):
    texts, _ = written(block)
    world = world_of(texts)
    root = world.start(yes=True, no=False)
    chance = random.Random(seed)
    for _ in range(chance.randrange(6)):
        if world.running(root):
            event, job = chance.choice(actions(world, {"timer", "message", "error"}))
            world.do(event, root, job)
    if world.running(root):
        assert world.do(Cancelled(root, "enough"), root).accepted
    assert_nothing_is_left(world)
