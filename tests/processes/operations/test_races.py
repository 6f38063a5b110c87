"""Operators and steps at the same time: nobody waits for another in two orders, and nothing is left half done."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from django.db import OperationalError, connections

from jobexec.exceptions import JobExecError
from jobexec.models import SuspendedJob
from jobexec.operations import clean_up_history
from jobexec.operations.sql.errors import is_conflict
from jobexec.processes.engine.exceptions import StepError
from jobexec.processes.exceptions import InstanceOver
from jobexec.processes.models import Execution, ProcessInstance, UserTask
from jobexec.processes.operations.check import check
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.instances import cancel, set_variables
from jobexec.processes.operations.modify import modify, restart
from jobexec.processes.operations.start import start
from jobexec.processes.operations.suspend import activate, suspend
from jobexec.processes.operations.user_tasks import claim, complete
from jobexec.testing import ManualExecutor
from tests.processes.support.bpmn import definitions, process
from tests.support.threads import together

pytestmark = [pytest.mark.transactional, pytest.mark.every_database, pytest.mark.databases("postgresql", "mariadb")]
pytest.importorskip("lxml")

LISTENER = '<extensionElements><camunda:taskListener event="assignment" expression="${task.id}"/></extensionElements>'
MODEL = (
    f'<startEvent id="s"/><parallelGateway id="fork"/><userTask id="a">{LISTENER}</userTask>'
    '<task id="b" camunda:asyncBefore="true"/>'
    '<parallelGateway id="join"/><userTask id="c"/>'
    + "".join(
        f'<sequenceFlow id="f{n}" sourceRef="{a}" targetRef="{b}"/>'
        for n, (a, b) in enumerate(
            [("s", "fork"), ("fork", "a"), ("fork", "b"), ("a", "join"), ("b", "join"), ("join", "c")]
        )
    )
)


def complete_one(alias, instance):
    task = UserTask.objects.using(alias).filter(instance_id=instance.pk).first()
    if task is not None:
        complete(task, {"n": random.random()}, using=alias)


def claim_one(alias, instance):
    task = UserTask.objects.using(alias).filter(instance_id=instance.pk).first()
    if task is not None:
        claim(task, random.choice(["anna", "bert"]), override=True, using=alias)


def run_some(alias, instance):
    try:
        ManualExecutor(alias, reraise=False).run_due(3)
    except OperationalError as error:
        # A page of InnoDB keeps the entries of rows that it skipped, and may then wait for a suspension, whose holder
        # waits for them ("Surprises of the databases" in locking.md). The acquisition loop tries again.
        if connections[alias].vendor == "postgresql" or not is_conflict(error):
            raise


def restart_one(alias, instance):
    over = start("p", using=alias)
    cancel(over, using=alias)
    restart(over, before="a", using=alias)


ACTS = [
    complete_one,
    claim_one,
    run_some,
    lambda alias, instance: suspend(instance, using=alias),
    lambda alias, instance: activate(instance, using=alias),
    lambda alias, instance: suspend("p", using=alias),
    lambda alias, instance: activate("p", using=alias),
    lambda alias, instance: set_variables(instance, {"x": 1}, using=alias),
    lambda alias, instance: modify(instance, using=alias).cancel("b").start_before("b").execute(),
    lambda alias, instance: modify(instance, using=alias).start_after("a").execute(),
    lambda alias, instance: cancel(instance, using=alias),
    restart_one,
    lambda alias, instance: clean_up_history(alias),
]


@pytest.mark.gate
def test_no_deadlock_and_all_rows_fit_together(alias, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "PROCESSES": {"HISTORY_TIME_TO_LIVE": 0}}
    deploy(("p.bpmn", process(MODEL)), using=alias)
    instances = [start("p", using=alias) for _ in range(3)]
    done = [0] * len(ACTS)

    def work(seed):
        chosen = random.Random(seed)
        try:
            for _ in range(60):
                number, at = chosen.randrange(len(ACTS)), chosen.randrange(len(instances))
                # What is refused is fine; a deadlock, which is an OperationalError, is not.
                with suppress(JobExecError, StepError, ProcessInstance.DoesNotExist):
                    try:
                        ACTS[number](alias, instances[at])
                        done[number] += 1
                    except InstanceOver:
                        instances[at] = start("p", using=alias)  # refused while the process is suspended
        finally:
            connections[alias].close()

    with ThreadPoolExecutor(4) as threads:
        for future in [threads.submit(work, seed) for seed in range(4)]:
            future.result()
    # A suspension may have stood in the way of a rare one each time.
    refused = [act for act, times in zip(ACTS, done, strict=True) if not times]
    assert len(refused) < 2, "each of these succeeded this often: " + ", ".join(map(str, done))
    for act in refused:
        activate("p", using=alias)
        act(alias, start("p", using=alias))
    activate("p", using=alias)
    for row in ProcessInstance.objects.using(alias).filter(end_time=None):
        activate(row, using=alias)
    ManualExecutor(alias, reraise=False).run_due()  # a job that was being moved when its token went ends when it runs
    assert check(using=alias) == []
    for row in ProcessInstance.objects.using(alias).filter(end_time=None):
        cancel(row, using=alias)
    clean_up_history(alias)
    assert not ProcessInstance.objects.using(alias).exists()


CALLER = (
    '<process id="caller" isExecutable="true"><startEvent id="s"/><callActivity id="x" calledElement="called"/>'
    '<userTask id="next"/><sequenceFlow id="f1" sourceRef="s" targetRef="x"/>'
    '<sequenceFlow id="f2" sourceRef="x" targetRef="next"/></process>'
    '<process id="called" isExecutable="true"><startEvent id="cs"/><userTask id="work"/>'
    '<sequenceFlow id="g" sourceRef="cs" targetRef="work"/></process>'
)


@pytest.mark.gate
def test_a_called_instance_ends_while_its_caller_is_suspended(alias):
    """Whoever comes first, nothing is lost: the caller has gone on before, or waits with a job that is held."""
    deploy(("p.bpmn", definitions(CALLER)), using=alias)
    callers = [start("caller", using=alias) for _ in range(12)]
    tasks = {row.root_id: row for row in UserTask.objects.using(alias)}
    suspend(callers[0], using=alias)
    complete(tasks[callers[0].pk], using=alias)
    for caller in callers[1:-1]:
        together(
            alias,
            lambda: suspend(caller, using=alias),  # noqa: B023
            lambda: complete(tasks[caller.pk], using=alias),  # noqa: B023
        )
    complete(tasks[callers[-1].pk], using=alias)
    suspend(callers[-1], using=alias)
    ManualExecutor(alias).run_until_empty()
    at = dict(Execution.objects.using(alias).values_list("instance_id", "element_id"))
    assert (at[callers[0].pk], at[callers[-1].pk], len(at)) == ("x", "next", len(callers))
    waiting = [str(id) for id, element in at.items() if element == "x"]
    assert set(SuspendedJob.objects.using(alias).values_list("process_instance_id", flat=True)) == set(waiting)
    assert ProcessInstance.objects.using(alias).filter(definition_key="called", state="completed").count() == 12
    for caller in callers:
        activate(caller, using=alias)
    ManualExecutor(alias).run_until_empty()
    assert set(Execution.objects.using(alias).values_list("element_id", flat=True)) == {"next"}
    assert check(using=alias) == []
