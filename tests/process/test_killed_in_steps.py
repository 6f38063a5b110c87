"""Executors that are killed at a line of a step: the instance ends as if nothing had happened."""

import signal
import subprocess
import sys

import pytest

from demo_project.bookings.models import Booking
from jobexec.models import ExclusiveLock, ExecutorNode
from jobexec.processes.flows.builder import Flow
from jobexec.processes.models import ActivityInstance, Execution, ProcessInstance, Variable
from jobexec.processes.operations.check import check
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.start import start as start_process
from tests.process.dying.jobs import run_inside, run_outside
from tests.processes.support.bpmn import process
from tests.support.factories import tables_of
from tests.support.machines import processes
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


WRITES = 'camunda:asyncBefore="true" camunda:delegateExpression="${dying.write}"'
#: A timer, a multi-instance, and what has been done is undone at the end.
UNDOES = f"""
<startEvent id="s"/><serviceTask id="book" {WRITES}/><serviceTask id="unbook" isForCompensation="true" {WRITES}/>
<boundaryEvent id="undo" attachedToRef="book"><compensateEventDefinition/></boundaryEvent>
<association id="a" sourceRef="undo" targetRef="unbook" associationDirection="One"/>
<intermediateCatchEvent id="later"><timerEventDefinition><timeDuration>PT0.2S</timeDuration></timerEventDefinition>
</intermediateCatchEvent><serviceTask id="each" {WRITES}><multiInstanceLoopCharacteristics>
<loopCardinality>3</loopCardinality></multiInstanceLoopCharacteristics></serviceTask>
<intermediateThrowEvent id="back"><compensateEventDefinition/></intermediateThrowEvent><endEvent id="e"/>
<sequenceFlow id="f1" sourceRef="s" targetRef="book"/><sequenceFlow id="f2" sourceRef="book" targetRef="later"/>
<sequenceFlow id="f3" sourceRef="later" targetRef="each"/><sequenceFlow id="f4" sourceRef="each" targetRef="back"/>
<sequenceFlow id="f5" sourceRef="back" targetRef="e"/>"""


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize(
    ("place", "visits"),
    [
        pytest.param("handler", "1,4", marks=NIGHTLY),
        pytest.param("lock", "2,4", marks=NIGHTLY),
        ("flush", "1,2"),
        pytest.param("jobs", "1,2", marks=NIGHTLY),
        pytest.param("settled", "2,4", marks=NIGHTLY),
    ],
)
def test_killed_here_a_model_comes_to_the_same_end(alias, run, tmp_path, place, visits):
    """Its timer, the items of its multi-instance and its compensation happen once."""
    deploy(("undoes.bpmn", process(UNDOES)), using=alias)
    instance = start_process("p", using=alias)
    dying = {"TEST_DIES_AT": f"{place}:{visits}", "TEST_DIES_COUNT": str(tmp_path / "visits")}
    deaths = 0
    for turn in range(40):
        options = ("--node", f"node-{turn}", "--until-empty", "--threads", "2")
        executor = run(*options, apps=["tests.process.dying"], env=dying, **SHORT_LEASE)
        code = executor.ended()
        assert code in (0, -signal.SIGKILL), executor.text
        assert check(using=alias) == [], "a step is there as a whole, or not at all"
        deaths += code != 0
        if ProcessInstance.objects.using(alias).get(pk=instance.pk).state == "completed":
            break
    assert deaths == 2, executor.text
    done = sorted(Booking.objects.using(alias).values_list("visitor", flat=True))
    assert done == ["book", "each", "each", "each", "unbook"]
    assert run("--until-empty", **SHORT_LEASE).ended() == 0
    assert tables_of(alias) == {} and not Execution.objects.using(alias).exists()


#: A user task, a message, the task of a worker, and a job that begins after it.
WAITS = f"""
<startEvent id="s"/><userTask id="approve"/><receiveTask id="paid" messageRef="m"/>
<serviceTask id="ship" camunda:type="external" camunda:topic="ship"/><serviceTask id="book" {WRITES}/><endEvent id="e"/>
<sequenceFlow id="f1" sourceRef="s" targetRef="approve"/><sequenceFlow id="f2" sourceRef="approve" targetRef="paid"/>
<sequenceFlow id="f3" sourceRef="paid" targetRef="ship"/><sequenceFlow id="f4" sourceRef="ship" targetRef="book"/>
<sequenceFlow id="f5" sourceRef="book" targetRef="e"/>"""
MESSAGE = '<message id="m" name="paid"/>'
#: What callers do, in this order, and where the instance waits before it.
CALLS = {
    "approve": "complete(UserTask.objects.get(), {'approved': True})",
    "paid": "correlate('paid', business_key='4711', variables={'paid': True})",
    "ship": "complete_external_job('default', ExternalWorkerJob.objects.get().job_key, {'parcel': 1})",
}
IMPORTS = """
from jobexec.models import ExternalWorkerJob
from jobexec.operations.external.settle import complete_external_job
from jobexec.processes import complete, correlate
from jobexec.processes.models import UserTask
"""


def call(alias, code, **environment):
    """Do it in another process; its exit code."""
    shell = [sys.executable, "-m", "django", "shell", "-v", "0", "-c", IMPORTS + code]
    environment = processes.environment(alias, ["tests.process.dying"], JOBEXEC=processes.QUICK) | environment
    return subprocess.run(shell, env=environment, timeout=120).returncode


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("place", [pytest.param("lock", marks=NIGHTLY), "flush"])
def test_a_caller_that_is_killed_has_done_nothing(alias, run, tmp_path, place):
    deploy(("waits.bpmn", process(WAITS, top=MESSAGE)), using=alias)
    instance = start_process("p", business_key="4711", using=alias)
    for waits_at, code in CALLS.items():
        # What a worker completes goes on in a job of its own, by a step of an executor. On PostgreSQL the completion is
        # one statement, which commits by itself.
        dies_at = "completion" if waits_at == "ship" else place
        dying = {"TEST_DIES_AT": f"{dies_at}:1", "TEST_DIES_COUNT": str(tmp_path / waits_at)}
        if (waits_at, alias) == ("ship", "postgresql"):
            assert call(alias, code) == 0
            continue
        assert call(alias, code, **dying) == -signal.SIGKILL
        assert check(using=alias) == []
        waiting = Execution.objects.using(alias).exclude(state="scope").values_list("element_id", flat=True)
        assert list(waiting) == [waits_at], "nothing of it is there"
        assert call(alias, code) == 0
    assert run("--until-empty", apps=["tests.process.dying"], **SHORT_LEASE).ended() == 0
    assert ProcessInstance.objects.using(alias).get(pk=instance.pk).state == "completed"
    assert Booking.objects.using(alias).count() == 1
