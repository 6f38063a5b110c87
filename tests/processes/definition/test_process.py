"""Queries about processes."""

import random
import time

import pytest

from jobexec import job
from jobexec.processes.definition import Flow, Kind, Node, Process
from jobexec.processes.flows.builder import Flow as Builder
from jobexec.processes.flows.compiling import compiled


@job(name="tests.definition.step")
def step(value):
    return value


def comes(process: Process, element: str, flow: Flow, passed: frozenset[str] = frozenset()) -> bool:
    """Every path, tried out."""
    if element == flow.target or element in passed:
        return False
    return element == flow.source or any(
        comes(process, out.target, flow, passed | {element}) for out in process.outgoing(element)
    )


@pytest.mark.parametrize("seed", range(40))
def test_who_can_reach_a_flow(seed):
    chance = random.Random(seed)
    ids = [f"n{number}" for number in range(7)]
    flows = tuple(Flow(f"f{number}", chance.choice(ids), chance.choice(ids)) for number in range(9))
    process = Process("p", tuple(Node(id, Kind.INCLUSIVE_GATEWAY) for id in ids), flows)
    found = {(id, flow.id) for id in ids for flow in flows if process.can_reach(id, flow.id)}
    assert found == {(id, flow.id) for id in ids for flow in flows if comes(process, id, flow)}


@pytest.mark.gate
def test_a_flow_of_5_000_steps_and_its_joins():
    """Nothing about it grows with the square of its steps."""
    flow = Builder("large")
    before = time.thread_time()
    ends: list = []
    for number in range(2_500):
        ends = [flow.step(step, number, after=ends), flow.step(step, number, after=ends)]
    process, _ = compiled(flow)
    joins = [node for node in process.nodes if node.kind is Kind.INCLUSIVE_GATEWAY]
    assert all(process.can_reach("start", into.id) for join in joins for into in process.incoming(join.id))
    assert len(joins) == 4_998
    assert time.thread_time() - before < 5
