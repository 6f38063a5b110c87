"""Executors that are killed at a line of a step: the instance ends as if nothing had happened."""

import signal

import pytest

from demo_project.bookings.models import Booking
from jobexec.models import ExclusiveLock, ExecutorNode
from jobexec.processes.flows.builder import Flow
from jobexec.processes.models import ActivityInstance, Execution, ProcessInstance, Variable
from jobexec.processes.operations.check import check
from tests.process.dying.jobs import run_inside, run_outside
from tests.support.factories import tables_of
from tests.support.machines.processes import SHORT_LEASE

NIGHTLY = pytest.mark.nightly
pytestmark = [pytest.mark.transactional, pytest.mark.slow]

OUTSIDE, INSIDE = ("a", "c", "d"), ("b", "e")


def start(alias, trace):
    """A step, a fork of three branches, and a step after their join."""
    flow = Flow("order", business_key="4711")
    first = flow.step(run_outside, str(trace.path), "a", name="a")
    branches = [flow.step(run_inside, "b", after=first, name="b")]
    branches += [flow.step(run_outside, str(trace.path), name, after=first, name=name) for name in "cd"]
    flow.step(run_inside, "e", after=branches, name="e")
    return flow.start(using=alias)


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize(
    ("place", "visits"),
    [
        ("function", "1,3"),
        pytest.param("handler", "1,3", marks=NIGHTLY),
        pytest.param("lock", "2,5", marks=NIGHTLY),
        pytest.param("flush", "2,5", marks=NIGHTLY),
        ("jobs", "2,5"),
        pytest.param("step of a function", "1,3", marks=NIGHTLY),
        pytest.param("end of an atomic job", "1,3", marks=NIGHTLY),
        pytest.param("settled", "1,3", marks=NIGHTLY),
    ],
)
def test_killed_here_an_instance_comes_to_the_same_end(alias, run, trace, tmp_path, place, visits):
    instance = start(alias, trace)
    dying = {"TEST_DIES_AT": f"{place}:{visits}", "TEST_DIES_COUNT": str(tmp_path / "visits")}
    deaths = 0
    for turn in range(4):
        options = ("--node", f"node-{turn}", "--until-empty", "--threads", "3")
        executor = run(*options, apps=["tests.process.dying"], env=dying, **SHORT_LEASE)
        code = executor.ended()
        if code == 0:
            break
        assert code == -signal.SIGKILL, executor.text
        deaths += 1
        assert check(using=alias) == [], "a step is there as a whole, or not at all"
    assert (code, deaths) == (0, 2), executor.text
    assert ProcessInstance.objects.using(alias).get(pk=instance.pk).state == "completed"
    texts = trace.texts()
    assert {text: texts.count(text) >= 1 for text in OUTSIDE} == dict.fromkeys(OUTSIDE, True)
    assert len(texts) <= len(OUTSIDE) + 3 * deaths, "only what was in hand runs again"
    assert sorted(Booking.objects.using(alias).values_list("visitor", flat=True)) == list(INSIDE)
    done = ActivityInstance.objects.using(alias).filter(kind="serviceTask", state="completed")
    assert sorted(done.values_list("element_id", flat=True)) == list("abcde"), "the join went on once"
    assert tables_of(alias) == {}
    assert check(using=alias) == []
    for model in (Execution, Variable, ExecutorNode, ExclusiveLock):
        assert not model.objects.using(alias).exists()


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize(
    ("place", "visit"),
    [
        pytest.param("handler", "3", marks=NIGHTLY),
        ("end of a group", "1"),
        pytest.param("jobs of a group", "1", marks=NIGHTLY),
    ],
)
def test_killed_while_several_jobs_share_a_transaction(alias, run, tmp_path, place, visit):
    """Nothing of any of them is there, and each is done in the end, once."""
    names = [f"{number}{letter}" for number in range(8) for letter in "ab"]
    for first, second in zip(names[::2], names[1::2], strict=True):
        flow = Flow("order")
        flow.step(run_inside, second, after=flow.step(run_inside, first, name="a"), name="b")
        flow.start(using=alias)
    dying = {"TEST_DIES_AT": f"{place}:{visit}", "TEST_DIES_COUNT": str(tmp_path / "visits")}
    for node, code in (("first", -signal.SIGKILL), ("second", 0)):
        options = ("--node", node, "--until-empty", "--threads", "1")
        executor = run(*options, apps=["tests.process.dying"], env=dying, **SHORT_LEASE)
        assert executor.ended() == code, executor.text
        assert check(using=alias) == []
        assert Booking.objects.using(alias).count() == (0 if code else len(names))
    assert sorted(Booking.objects.using(alias).values_list("visitor", flat=True)) == names
    assert not ProcessInstance.objects.using(alias).exclude(state="completed").exists()
    assert tables_of(alias) == {}
