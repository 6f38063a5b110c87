"""Random graphs without any structure, against a reference interpreter of the token rules."""

import random
from collections import Counter

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from jobexec.processes.definition import problems_of
from jobexec.processes.engine.inputs import Completed
from jobexec.processes.engine.rows import State
from tests.processes.support.notation import model
from tests.processes.support.reference import Reference
from tests.processes.support.world import World

MARKS = {"x": "?", "p": "+", "o": "*", "t": ""}


@st.composite
def graphs(draw) -> str:
    """Gateways and tasks in a row, with flows forward to anything, and backward to tasks only: each circle waits."""
    kinds = draw(st.lists(st.sampled_from("xpott"), min_size=3, max_size=9))
    nodes = [f"{kind}{number}" for number, kind in enumerate(kinds)]
    lines = [f"start -> {nodes[0]}"]
    for number, node in enumerate(nodes):
        later = [*nodes[number + 1 :], "end"]
        targets = draw(st.lists(st.sampled_from(later), min_size=1, max_size=3, unique=True))
        tasks = [other for other in nodes[: number + 1] if other[0] == "t" and other != node]
        if node[0] == "t" and tasks and draw(st.booleans()):
            targets.append(draw(st.sampled_from(tasks)))
        if number + 1 < len(nodes) and nodes[number + 1] not in targets and draw(st.booleans()):
            targets.append(nodes[number + 1])
        lines += [flow_line(draw, node, index, target, len(targets)) for index, target in enumerate(targets)]
    return "\n".join(lines)


def flow_line(draw, node: str, index: int, target: str, count: int) -> str:
    mark = MARKS[node[0]]
    if node[0] in "pt" or count == 1:
        return f"{node}{mark} -> {target}{MARKS.get(target[0], '')}"
    condition = "else" if index == count - 1 else draw(st.sampled_from(["yes", "no"]))
    return f"{node}{mark} -[{condition}]-> {target}{MARKS.get(target[0], '')}"


def picture(world: World) -> tuple[Counter[str], Counter[str | None]]:
    tasks = Counter(token.element for token in world.tokens.values() if token.state is State.WAITING)
    joined = Counter(token.flow for token in world.tokens.values() if token.state is State.JOINED)
    return tasks, joined


@pytest.mark.gate
@settings(max_examples=300)
@given(graphs(), st.integers(0, 2**32))
def test_engine_and_reference_agree(text, seed):
    note(text)
    process = model(text, check=False)
    reached = {problem.message for problem in problems_of(process)} <= {"No flow leads to it."}
    assert reached, problems_of(process)
    variables = {"yes": True, "no": False}
    world, reference = World(process), Reference(process, variables)
    root = world.start(**variables)
    chance = random.Random(seed)
    for _ in range(12):
        assert picture(world) == reference.picture()
        waiting = sorted(reference.picture()[0])
        if not waiting:
            break
        task = chance.choice(waiting)
        token = next(token for token in world.tokens.values() if token.element == task)
        world.do(Completed(token.id, token.activity), root)
        reference.complete(task)
    if not world.running(root):
        assert reference.picture() == (Counter(), Counter())
