"""Jobs of one handler that share a transaction, on the executor's own threads."""

import random
from collections import Counter

import pytest

from jobexec.executor import job_executor
from jobexec.executor.run import group as run_group
from jobexec.executor.run.group import execute_group
from jobexec.models import Job, TimerJob
from jobexec.processes.definition import Flow, JobOptions, Kind, Node, Process, Work
from jobexec.processes.handlers import together
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.models import Execution, ProcessInstance
from jobexec.processes.operations.check import check
from jobexec.processes.operations.flows import start_flow
from tests.support.waiting import until

pytestmark = [pytest.mark.transactional, pytest.mark.databases("postgresql"), pytest.mark.gate]

calls: Counter[tuple[int, str]] = Counter()
failing: set[tuple[int, str]] = set()


@service_task("tests.executor.groups")
def work(context):
    called = context.variables["number"], context.element_id
    calls[called] += 1
    if called in failing and calls[called] == 1:
        raise ValueError("once")


def fork(branches):
    """Tasks in parallel, which are joined, and one more."""
    options = JobOptions(before=True, exclusive=False, retry_plan="R3/PT0.05S")
    names = [f"t{number}" for number in range(branches)]
    tasks = [
        Node(name, Kind.SERVICE_TASK, work=Work(handler="tests.executor.groups"), jobs=options)
        for name in [*names, "last"]
    ]
    gateways = [Node("fork", Kind.PARALLEL_GATEWAY), Node("join", Kind.PARALLEL_GATEWAY)]
    ways = [("s", "fork"), *(("fork", name) for name in names), *((name, "join") for name in names)]
    nodes = (Node("s", Kind.START_EVENT), *gateways, *tasks, Node("e", Kind.END_EVENT))
    return Process("fork", nodes, tuple(Flow(f"{a}-{b}", a, b) for a, b in [*ways, ("join", "last"), ("last", "e")]))


@pytest.fixture
def groups(monkeypatch):
    """How many jobs each group ran, and how many were left."""
    calls.clear()
    failing.clear()
    found = []

    def run(batches, host):
        left = execute_group(batches, host)
        found.append((len(batches) - len(left), len(left)))
        return left

    monkeypatch.setattr(job_executor, "execute_group", run)
    monkeypatch.setattr(together, "is_quick", lambda handler: True)
    monkeypatch.setattr(run_group, "_LONGEST", 600.0)
    return found


def over(alias):
    return not ProcessInstance.objects.using(alias).filter(state="active").exists()


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_each_job_of_many_instances_runs_once(alias, make_executor, groups, share):
    """Those that fail run once more, and nobody else does."""
    process, numbers = fork(3), range(15)
    every = [(number, element) for number in numbers for element in ("t0", "t1", "t2", "last")]
    failing.update(random.Random(1).sample(every, int(share * len(every))))
    for number in numbers:
        start_flow(alias, process, {"number": number})
    start_flow(alias, fork(40), {"number": -1})
    make_executor(THREADS=3).start()
    until(lambda: over(alias))
    of_small = {called: count for called, count in calls.items() if called[0] >= 0}
    assert of_small == {called: 1 + (called in failing) for called in every}
    assert sum(calls.values()) == len(every) + len(failing) + 41
    assert max(ran for ran, _ in groups) > 1
    assert not Execution.objects.using(alias).exists()
    until(lambda: not (Job.objects.using(alias).exists() or TimerJob.objects.using(alias).exists()))
    assert check(using=alias) == []


def test_after_an_unforeseen_error_each_job_runs_alone(alias, make_executor, groups, monkeypatch):
    def fail(work, handler, host):
        raise MemoryError

    monkeypatch.setattr(run_group, "_is_able", fail)
    for number in range(15):
        start_flow(alias, fork(3), {"number": number})
    executor = make_executor(THREADS=1)
    executor.start()
    until(lambda: over(alias))
    until(lambda: executor.idle)
    assert set(calls.values()) == {1}
    assert not Job.objects.using(alias).exists()
    assert check(using=alias) == []


def test_where_none_can_share_a_transaction_none_is_tried_for_a_while(alias, make_executor, groups, monkeypatch):
    monkeypatch.setattr(together, "is_quick", lambda handler: False)
    monkeypatch.setattr(job_executor, "_APART", 600.0)
    for number in range(15):
        start_flow(alias, fork(3), {"number": number})
    make_executor(THREADS=1).start()
    until(lambda: over(alias))
    assert set(calls.values()) == {1}
    assert [ran for ran, _ in groups] == [0]
