"""Steps of flows in an executor with its threads: coroutines wait on the event loop, and timeouts have their way."""

import asyncio
import threading

import pytest

from jobexec import job
from jobexec.executor.loops import settlement
from jobexec.handlers import registry
from jobexec.handlers.registry import async_handler
from jobexec.models import DeadLetterJob, Job, TimerJob
from jobexec.processes import jobs as processes_jobs
from jobexec.processes.engine.exceptions import BpmnError
from jobexec.processes.flows import compiling
from jobexec.processes.flows.builder import Flow
from jobexec.processes.flows.canvas import parallel
from jobexec.processes.flows.terms import item
from jobexec.processes.handlers import steps
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.models import ProcessInstance
from jobexec.processes.operations.check import check
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.instances import cancel
from jobexec.processes.operations.start import start as start_instance
from tests.processes.support.bpmn import around, process
from tests.support.gate import Gate
from tests.support.waiting import TIMEOUT, threads, until

pytestmark = [pytest.mark.transactional]

ONCE = "R1/PT1S"
quick = {"WAIT_TIME": 0.01, "MAX_WAIT": 0.05, "MAX_WAIT_WHEN_LISTENING": 0.05}
calls: list[object] = []
gates: list[Gate] = []


@job(name="tests.steps.wait", retries=ONCE)
async def wait(value):
    assert asyncio.get_running_loop()
    await gates[0].passed()
    calls.append(value)
    return value


async def fails(how):
    calls.append(how)
    if how == "late":
        await asyncio.sleep(600)
    raise BpmnError("REFUSED") if how == "refused" else ValueError("no")


@job(name="tests.steps.note")
def note(value):
    calls.append(value)


@pytest.fixture(autouse=True)
def gate(alias):
    calls.clear()
    gates[:] = [Gate()]
    yield gates[0]
    gates[0].open()
    assert check(using=alias) == []


@pytest.fixture
def start(make_executor):
    def run(**keys):
        executor = make_executor(quick, **keys)
        executor.start()
        return executor

    return run


def state(alias, instance):
    return ProcessInstance.objects.using(alias).get(pk=instance.pk).state


def test_which_they_are():
    """By the function, also for names that nobody has registered."""
    assert async_handler("step:tests.steps.wait").function is wait
    assert async_handler("item:tests.steps.wait").function is wait
    for name in ("step:tests.steps.note", "tests.steps.note", "step:tests.steps.nobody", "jobexec.processes.continue"):
        assert async_handler(name) is None


@pytest.mark.every_database
def test_many_wait_at_once_without_a_thread(alias, start, gate):
    instance = parallel(*(wait.s(number) for number in range(60))).start(using=alias)
    executor = start(THREADS=2, ASYNC_JOBS=100)
    until(lambda: gate.now == 60)
    assert executor.pool.load() == {"busy_threads": 0, "stuck_threads": 0, "queued_jobs": 0}
    assert len(threads("jobexec-worker")) == 2
    gate.open()
    until(lambda: state(alias, instance) == "completed" and executor.idle)
    assert sorted(calls) == list(range(60))
    assert not Job.objects.using(alias).exists()


@service_task("tests.steps.serve", transaction=False)
async def serve(context):
    await gates[0].passed()
    calls.append(context.job.attempt)
    context.variables["seen"] = context.variables["amount"]
    return {"receipt": context.element_id}


@pytest.mark.parametrize("alone", [False, True], ids=["beside others", "the only coroutine"])
def test_service_tasks_outside(alias, start, gate, monkeypatch, alone):
    """Also in a project without any other."""
    if alone:
        monkeypatch.setattr(registry, "_async_handlers", {})
    pytest.importorskip("lxml")
    task = '<serviceTask id="x" camunda:delegateExpression="${tests.steps.serve}"/>'
    deploy(("order.bpmn", process(around(task))), using=alias)
    instances = [start_instance("p", variables={"amount": number}, using=alias) for number in range(5)]
    executor = start(THREADS=2, ASYNC_JOBS=100)
    until(lambda: gate.now == 5)
    assert executor.pool.load()["busy_threads"] == 0
    gate.open()
    until(lambda: all(state(alias, instance) == "completed" for instance in instances))
    rows = ProcessInstance.objects.using(alias).order_by("pk")
    assert [row.final_variables for row in rows] == [
        {"amount": number, "seen": number, "receipt": "x"} for number in range(5)
    ]
    assert calls == [1] * 5


def test_items_of_a_long_list(alias, start, gate, monkeypatch):
    monkeypatch.setattr(compiling, "BATCH_FROM", 4)
    flow = Flow("items")
    flow.map(wait, item, over=list(range(10)), collect=True)
    instance = flow.start(using=alias)
    assert Job.objects.using(alias).filter(handler_type="item:tests.steps.wait").count() == 10
    executor = start(THREADS=2, ASYNC_JOBS=100)
    until(lambda: gate.now == 10)
    assert executor.pool.load()["busy_threads"] == 0
    gate.open()
    until(lambda: state(alias, instance) == "completed")
    row = ProcessInstance.objects.using(alias).get(pk=instance.pk)
    assert row.final_variables["wait"] == list(range(10))


def not_again(failures, error):
    return None


@pytest.mark.parametrize(("how", "plan"), [("failure", ONCE), ("refused", ONCE), ("late", ONCE), ("late", not_again)])
def test_the_way_for_failures(alias, start, handle, how, plan):
    flow = Flow("fails")
    function = handle(fails, retries=plan, **({"timeout": 0.3} if how == "late" else {}))
    first = flow.step(function, how, name="first")
    flow.step(note, "sorry", after=first.failed)
    instance = flow.start(using=alias)
    executor = start()
    until(lambda: executor.idle and state(alias, instance) == "completed")
    assert calls == [how, "sorry"]
    assert not DeadLetterJob.objects.using(alias).exists()


def test_the_result_of_one_that_was_cancelled_is_not_taken(alias, start, gate):
    flow = Flow("cancelled")
    flow.step(note, "next", after=flow.step(wait, 1))
    instance = flow.start(using=alias)
    executor = start()
    until(lambda: gate.now == 1)
    cancel(instance, using=alias)
    gate.open()
    until(lambda: executor.idle)
    assert (calls, state(alias, instance)) == ([1], "cancelled")
    assert not Job.objects.using(alias).exists()
    assert not TimerJob.objects.using(alias).exists()


def spin(context):
    """Ends as soon as it has exceeded its timeout."""
    until(lambda: context.timed_out)


def give_way(context):
    until(lambda: context.timed_out)
    raise ValueError("too late")


@pytest.mark.parametrize("function", [spin, give_way])
@pytest.mark.parametrize("atomic", [False, True])
def test_a_timeout_that_is_settled_late_leaves_no_dead_letter(alias, start, handle, monkeypatch, function, atomic):
    """The function ends before its failure is written; the way for failures waits for that."""
    ended, written = threading.Event(), settlement.write

    def write_late(using, outcomes, *more):
        if any(outcome.failure is not None for outcome in outcomes):
            assert ended.wait(TIMEOUT)
        written(using, outcomes, *more)

    taken = steps.take_timeout

    def take(*args):
        threading.Timer(0.1, ended.set).start()
        taken(*args)

    monkeypatch.setattr(settlement, "write", write_late)
    monkeypatch.setattr(steps, "take_timeout", take)
    monkeypatch.setattr(processes_jobs, "take_timeout", take)
    flow = Flow("late")
    first = flow.step(handle(function, retries=ONCE, timeout=0.2, atomic=atomic), name="first")
    flow.step(note, "sorry", after=first.failed)
    instance = flow.start(using=alias)
    executor = start()
    until(lambda: executor.idle and state(alias, instance) == "completed")
    assert calls == ["sorry"]
    assert not DeadLetterJob.objects.using(alias).exists()
