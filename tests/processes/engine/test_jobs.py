"""The rows that a step makes: jobs, timers, subscriptions, user tasks, history."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from jobexec.processes.definition import Expression, TimerKind
from jobexec.processes.engine.exceptions import NoName
from jobexec.processes.engine.inputs import Cancelled, Completed, Continue, Start
from jobexec.processes.engine.rows import Job, JobKind, Timer
from jobexec.processes.engine.step import step
from tests.processes.support.notation import model
from tests.processes.support.world import World


def job_of(text: str, **variables: Any) -> Job:
    world = World(model(f"start -> a -> end\n a = {text}"))
    world.start(**variables)
    (job,) = world.jobs.values()
    return job


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("user async", "exclusive", True),
        ("user async nonexclusive", "exclusive", False),
        ("user async", "retries", None),
        ("user async retries=5", "retries", 5),
        ("user async plan=R5/PT1M", "retry_plan", "R5/PT1M"),
        ("user async plan=$plan", "retry_plan", "R2/PT1S"),
        ("user async priority=7", "priority", 7),
        ("user async priority=$level", "priority", 9),
        ("outside work nonexclusive", "exclusive", False),
        ("outside work priority=$level", "priority", 9),
        ("external topic retries=4", "retries", 4),
        ("user loop=1 nonexclusive inner-async", "exclusive", True),
    ],
)
def test_columns(text: str, column: str, expected: object) -> None:
    assert getattr(job_of(text, level=9, plan="R2/PT1S"), column) == expected


def test_a_job_inside_a_multi_instance_has_its_own_options():

    job = job_of("user loop=1 async nonexclusive inner-async")
    assert (job.kind, job.exclusive) == (JobKind.CONTINUE, False)


@pytest.mark.parametrize(("own", "expected"), [("priority=0", 0), ("", 50)])
def test_the_priority_of_an_activity_wins_over_that_of_the_process(own: str, expected: int) -> None:
    world = World(model(f"start -> a -> end\n a = user async {own}", priority=50, retry_plan="R9/PT1S"))
    world.start()
    (job,) = world.jobs.values()
    assert (job.priority, job.retry_plan) == (expected, "R9/PT1S")


def test_what_a_handler_outside_gets():
    world = World(model("start -> a -> end\n a = outside charge"))
    world.start()
    (job,) = world.jobs.values()
    assert (job.kind, job.payload) == (JobKind.RUN, {"handler": "charge", "arguments": None, "options": {}})


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("external $where", {"n": 1, "where": "x"}),
        ("external $where in:m=$n", {"m": 1}),
    ],
)
def test_what_a_worker_gets(text: str, variables: dict[str, object]) -> None:
    job = job_of(text, n=1, where="x")
    assert (job.payload["topic"], job.payload["variables"]) == ("x", variables)


def test_what_a_batch_gets():
    process = model("start -> a -> end\n a = outside imported over=rows item=row batch")
    arguments = {"args": [Expression("${row}")], "kwargs": {"place": Expression("${loopCounter}")}}
    nodes = [
        replace(node, work=replace(node.work, arguments=arguments)) if node.work is not None else node
        for node in process.nodes
    ]
    world = World(replace(process, nodes=tuple(nodes)))
    world.start(rows=["x", "y"])
    (job,) = world.jobs.values()
    assert job.kind is JobKind.BATCH
    calls = [{"args": [item], "kwargs": {"place": place}} for place, item in enumerate(["x", "y"])]
    assert job.payload == {"handler": "imported", "calls": calls, "atomic": False}


@pytest.mark.parametrize(
    ("text", "timer"),
    [
        ("timer in PT1H", Timer(TimerKind.DURATION, "PT1H", False)),
        ("timer in PT1H keep", Timer(TimerKind.DURATION, "PT1H", False)),
        ("timer date $due", Timer(TimerKind.DATE, "2027-01-01", False)),
        ("timer every R3/PT1H", Timer(TimerKind.CYCLE, "R3/PT1H", False)),
        ("timer every R3/PT1H keep", Timer(TimerKind.CYCLE, "R3/PT1H", True)),
    ],
)
def test_timers(text: str, timer: Timer) -> None:
    world = World(model(f"start -> a -> end\n late = boundary a {text}\n late -> end"))
    world.start(due="2027-01-01")
    (job,) = world.jobs.values()
    (token,) = world.tokens.values()
    assert (job.kind, job.timer, job.element) == (JobKind.TIMER, timer, "late")
    assert (job.owner, job.activity, job.instance) == (token.id, token.activity, token.instance)


def test_a_timer_of_the_process_belongs_to_the_instance():
    world = World(
        model("""
            start -> a -> end
            h = eventsub
            h: hs -> b -> he
            hs = start timer in PT1H
            he = end
        """)
    )
    root = world.start()
    (job,) = world.jobs.values()
    assert (job.owner, job.element, job.activity) == (root, "hs", None)


def test_the_key_of_a_subscription():
    world = World(model("start -> a -> end\n a = catch message paid key=$number"))
    world.start(number=4711)
    (row,) = world.subscriptions.values()
    assert (row.name, row.key) == ("paid", "4711")


@pytest.mark.parametrize("key", [None, "", True, [1], {"id": 1}])
def test_a_key_that_is_none(key):
    """No message would ever come."""
    world = World(model("start -> a -> end\n a = catch message paid key=$number"))
    told = re.escape(f"a: The key of its message must be a text or a number, not {key!r}: ${{number}}")
    with pytest.raises(NoName, match=f"^{told}$"):
        world.start(number=key)
    assert not world.instances


def test_a_subscription_without_a_key():
    world = World(model("start -> a -> end\n a = catch message paid"))
    world.start()
    (row,) = world.subscriptions.values()
    assert row.key is None


def test_the_history_knows_times_and_places():
    world = World(model("start -> sub -> end\n sub: s -> a -> e"))
    root = world.start()
    (scope,) = (token for token in world.tokens.values() if token.element == "sub")

    (token,) = (token for token in world.tokens.values() if token.element == "a")
    world.do(Completed(token.id, token.activity), root)
    row = next(row for row in world.history if row.element == "a")
    assert (row.id, row.parent, row.instance) == (token.activity, scope.activity, root)
    assert (row.kind, row.started_at) == ("userTask", datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC))
    assert row.ended_at == datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert next(row for row in world.history if row.element == "sub").parent is None


def test_the_body_of_a_multi_instance_has_a_row():
    world = World(model("start -> a -> end\n a = service x loop=2"))
    world.start()
    kinds = [row.kind for row in world.history if row.element == "a"]
    assert kinds == ["serviceTask", "serviceTask", "multiInstanceBody"]
    assert len({row.parent for row in world.history if row.kind == "serviceTask"}) == 1


def test_the_row_of_a_body_that_is_cancelled():
    world = World(model("start -> a -> end\n a = user loop=2"))
    root = world.start()
    world.do(Cancelled(root), root)
    kinds = [(row.kind, row.state) for row in world.history if row.element == "a"]
    assert kinds == [("userTask", "cancelled")] * 2 + [("multiInstanceBody", "cancelled")]


def test_an_instance_that_starts_and_ends_in_one_step_writes_no_token():

    world = World(model("start -> a -> b -> end\n a = service x\n b = outside y loop=0"))
    changes = step(world.load(None), Start(world.new_id(), "process", variables={"x": 1}), world)
    assert len(changes.new_instances) == 1
    rows = (changes.new_tokens, changes.changed_tokens, changes.gone_tokens, changes.new_jobs, changes.variables)
    assert rows == ([], [], [], [], {})
    assert changes.new_instances[0].final_variables == {"x": 1}


def test_a_token_that_moves_is_one_changed_row():
    """No row is deleted and made again, and nothing is disarmed where nothing can be armed."""

    world = World(model("start -> a -> b -> end\n a = service x async\n b = service y async"))
    root = world.start()
    (token,) = world.tokens.values()
    changes = step(world.load(root), Continue(token.id, token.job), world)
    assert [row.id for row in changes.changed_tokens] == [token.id]
    rows = (changes.new_tokens, changes.gone_tokens, changes.disarmed, changes.cancelled_jobs)
    assert rows == ([], [], [], [])
    assert [job.element for job in changes.new_jobs] == ["b"]


def test_a_user_task_that_is_left_disarms_its_token():

    world = World(model("start -> a -> b -> end"))
    root = world.start()
    (token,) = world.tokens.values()
    changes = step(world.load(root), Completed(token.id, token.activity), world)
    assert changes.disarmed == [(token.id, None)]


def test_an_interrupted_handler_outside_has_a_cancelled_job():

    world = World(model("start -> a -> end\n a = outside x"))
    root = world.start()
    (token,) = world.tokens.values()
    changes = step(world.load(root), Cancelled(root), world)
    assert (changes.cancelled_jobs, changes.gone_tokens) == ([token.job], [token.id])
    assert changes.changed_instances[0].ended_at is not None


@pytest.mark.parametrize(("options", "items"), [("seq", True), ("", False)])
def test_the_items_of_a_list_are_stored_once(options, items):
    """One after the other, the body keeps the list; side by side, each instance has its own item."""
    world = World(model(f"start -> a -> end\n a = user over=rows item=row {options}"))
    world.start(rows=[1, 2])
    (body,) = (token for token in world.tokens.values() if token.is_body)
    assert ("items" in body.data) == items


def test_a_list_without_a_name_for_its_items():
    world = World(model("start -> a -> end\n a = user over=rows"))
    root = world.start(rows=[1, 2])
    assert {scope: found for scope, found in world.variables.items() if found} == {root: {"rows": [1, 2]}}
