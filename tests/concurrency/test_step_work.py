"""The work of tasks whose jobs are not exclusive: beside each other, once, and undone if its token has gone."""

import threading
from datetime import date

import pytest
from django.db import connections, transaction

from demo_project.bookings.models import Booking
from jobexec.exceptions import RetryIn
from jobexec.executor.execute_now import execute_now
from jobexec.models import Job, TimerJob
from jobexec.processes.definition import Expression, Flow, JobOptions, Kind, Node, Process, Work
from jobexec.processes.handlers import environment
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.models import Execution, ProcessInstance, UserTask, Variable
from jobexec.processes.operations.check import check
from jobexec.processes.operations.flows import start_flow
from jobexec.processes.operations.instances import cancel, set_variables
from jobexec.processes.store.lock import locked_now
from tests.support.threads import together

pytestmark = [pytest.mark.transactional, pytest.mark.databases("postgresql", "mariadb")]

#: What handlers do after they have written; by element.
DURING = {}


@pytest.fixture(autouse=True)
def engines(settings):
    settings.JOBEXEC = {"ENGINES": {name: {"NOTIFY": False} for name in connections}}
    DURING.clear()
    environment._took.pop("tests.work.beside", None)  # it may have been quick in the test before


@service_task("tests.work.beside")
def beside(context):
    using = context.job.using
    Booking.objects.using(using).create(
        visitor=context.element_id, city="Athens", arrival=date(2026, 5, 1), departure=date(2026, 5, 2)
    )
    found = DURING[context.element_id](context)
    return {"common": found} if found is not None else {context.element_id: "done"}


def forked(alias):
    work = Work(handler="tests.work.beside")
    tasks = [Node(name, Kind.SERVICE_TASK, work=work, jobs=JobOptions(before=True, exclusive=False)) for name in "ab"]
    pairs = [("s", "fork"), ("fork", "a"), ("fork", "b"), ("a", "join"), ("b", "join"), ("join", "after")]
    nodes = [Node("s", Kind.START_EVENT), Node("fork", Kind.PARALLEL_GATEWAY), *tasks]
    nodes += [Node("join", Kind.PARALLEL_GATEWAY), Node("after", Kind.USER_TASK)]
    process = Process("work", tuple(nodes), tuple(Flow(f"{a}-{b}", a, b) for a, b in pairs))
    return start_flow(alias, process, {"common": 0})


def run(alias, element):
    return execute_now(Job.objects.using(alias).get(failed_activity_id=element).pk, using=alias)


def written(alias):
    return sorted(Booking.objects.using(alias).values_list("visitor", flat=True))


def test_two_branches_work_at_the_same_time_and_their_join_fires_once(alias):
    instance = forked(alias)
    both = threading.Barrier(2)
    for element in "ab":
        DURING[element] = lambda context: both.wait(30) and None
    together(alias, *(lambda element=element: run(alias, element) for element in "ab"))
    assert written(alias) == ["a", "b"]
    assert UserTask.objects.using(alias).count() == 1
    assert Execution.objects.using(alias).get(instance_id=instance.pk).element_id == "after"
    assert check(using=alias) == []


def test_an_operator_does_not_wait_for_the_work(alias):
    """And what was cancelled meanwhile has no effects; its job ends well."""
    instance = forked(alias)
    DURING["a"] = lambda context: together(alias, lambda: cancel(instance.pk, using=alias)) and None
    run(alias, "a")
    assert ProcessInstance.objects.using(alias).get().state == "cancelled"
    assert written(alias) == []
    assert not Job.objects.using(alias).exists()


def test_work_to_which_its_step_does_not_come_any_more_is_undone(alias):
    """Another transaction has changed what a gateway before it asks: the job runs again, and takes the other way."""
    work = Work(handler="tests.work.beside")
    ways = [Flow("f1", "s", "x"), Flow("go", "x", "a", condition=Expression("${common == 0}")), Flow("stay", "x", "b")]
    nodes = [
        Node("s", Kind.START_EVENT),
        Node("x", Kind.EXCLUSIVE_GATEWAY, default="stay", jobs=JobOptions(before=True, exclusive=False)),
        Node("a", Kind.SERVICE_TASK, work=work),
        Node("b", Kind.USER_TASK),
    ]
    instance = start_flow(alias, Process("ways", tuple(nodes), tuple(ways)), {"common": 0})
    DURING["a"] = lambda context: together(alias, lambda: set_variables(instance.pk, {"common": 1}, using=alias)) and 5
    with pytest.raises(RetryIn):
        run(alias, "x")
    assert written(alias) == []
    row = (Job.objects.using(alias).all() or TimerJob.objects.using(alias)).get()
    assert row.retries == 3
    execute_now(row.pk, using=alias)
    assert written(alias) == []
    assert UserTask.objects.using(alias).get().element_id == "b"


def test_a_variable_that_two_change_at_once_is_lost_by_neither(alias):
    """The later one is rolled back and runs again, and spends no retry."""
    instance = forked(alias)

    def add(context):
        if context.element_id == "a" and not done:
            done.append(together(alias, lambda: set_variables(instance.pk, {"common": 10}, using=alias)))
        return context.variables["common"] + 1

    done = []
    DURING["a"] = add
    with pytest.raises(RetryIn):
        run(alias, "a")
    assert written(alias) == []
    row = (Job.objects.using(alias).filter(failed_activity_id="a") or TimerJob.objects.using(alias)).get()
    assert row.retries == 3
    execute_now(row.pk, using=alias)
    assert written(alias) == ["a"]
    assert Variable.objects.using(alias).get(name="common").value == 11


@pytest.fixture
def alone(alias):
    """An instance with one task, whose job is exclusive."""
    work = Work(handler="tests.work.beside")
    nodes = (
        Node("s", Kind.START_EVENT),
        Node("a", Kind.SERVICE_TASK, work=work, jobs=JobOptions(before=True)),
        Node("after", Kind.USER_TASK),
    )
    return start_flow(alias, Process("alone", nodes, (Flow("f", "s", "a"), Flow("g", "a", "after"))), {"common": 0})


def test_an_operator_does_not_wait_for_an_exclusive_job_either(alias, alone):
    DURING["a"] = lambda context: together(alias, lambda: cancel(alone.pk, using=alias)) and None
    run(alias, "a")
    assert ProcessInstance.objects.using(alias).get().state == "cancelled"
    assert written(alias) == []


@pytest.mark.parametrize("took", [0.001, 1.0])
def test_only_quick_work_of_an_exclusive_job_is_done_under_the_lock(alias, alone, monkeypatch, took):
    monkeypatch.setitem(environment._took, "tests.work.beside", took)
    free = []

    def look(context):
        free.append(locked_now(alias, [alone.pk])[0])

    DURING["a"] = lambda context: together(alias, lambda: transactional(alias, look, context)) and None
    run(alias, "a")
    assert [bool(found) for found in free] == [took == 1.0]
    assert UserTask.objects.using(alias).count() == 1


def transactional(alias, function, *args):
    with transaction.atomic(alias):
        function(*args)
