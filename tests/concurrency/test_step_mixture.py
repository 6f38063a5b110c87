"""Whatever happens to process instances at the same moment: no deadlock, nothing lost, nothing twice."""

import random

import pytest
from django.db import connections, transaction
from django.db.utils import OperationalError

from jobexec.executor.execute_now import execute_now
from jobexec.models import JOB_TABLES, Job, TimerJob
from jobexec.operations import activate, suspend
from jobexec.operations.sql.errors import is_conflict
from jobexec.processes.definition import Call, Event, Flow, Kind, Mode, Node, Process, TimerKind, Trigger, Work
from jobexec.processes.engine.inputs import Cancelled, JobDone, Triggered
from jobexec.processes.exceptions import InstanceOver, MismatchingMessage, Suspended, TaskOver
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.handlers.stepping import proceed
from jobexec.processes.models import EventSubscription, Execution, ProcessDefinition, ProcessInstance, UserTask
from jobexec.processes.operations.check import check
from jobexec.processes.operations.events import correlate
from jobexec.processes.operations.flows import define, start_flow
from jobexec.processes.operations.instances import cancel, set_variables
from jobexec.processes.operations.user_tasks import complete
from tests.support.suite import tiers
from tests.support.threads import held, together

pytestmark = pytest.mark.transactional

#: How many pairs of events meet.
PAIRS = 1_000 if tiers.current().name == "nightly" else 40
WORK = Work(handler="tests.race", mode=Mode.OUTSIDE, arguments={"args": [], "kwargs": {}})


@service_task("tests.race")
def race(context):
    raise AssertionError("Here are run only jobs whose token has gone.")


@pytest.fixture(autouse=True)
def engines(settings):
    settings.JOBEXEC = {"ENGINES": {name: {"NOTIFY": False} for name in connections}}


def again(step):
    """On InnoDB and SQLite one of two transactions may be ended by the database; jobs try again, too."""
    while True:
        try:
            return step()
        except OperationalError as error:
            if not is_conflict(error):
                raise


def process(key, *nodes, flows):
    return Process(key, nodes, tuple(Flow(f"{a}-{b}", a, b) for a, b in flows))


def called(alias):
    """A process that waits for a message, and a task in it, under a key by which others call it."""
    model = process(
        "called",
        Node("s", Kind.START_EVENT),
        Node("inner", Kind.SERVICE_TASK, work=WORK),
        Node("wait", Kind.RECEIVE_TASK, event=Event(Trigger.MESSAGE, name="inner")),
        flows=[("s", "inner"), ("inner", "wait")],
    )
    if not ProcessDefinition.objects.using(alias).filter(key="called", version=1).exists():
        ProcessDefinition.objects.using(alias).filter(pk=define(alias, model)).update(version=1)


def mixed(alias):
    """Everything beside everything: jobs, a message, a task with a boundary timer, and a called process."""
    called(alias)
    late = Event(Trigger.TIMER, timer=TimerKind.DURATION, when="PT1H")
    model = process(
        "mixed",
        Node("s", Kind.START_EVENT),
        Node("fork", Kind.PARALLEL_GATEWAY),
        Node("work", Kind.SERVICE_TASK, work=WORK),
        Node("other", Kind.SERVICE_TASK, work=WORK),
        Node("paid", Kind.RECEIVE_TASK, event=Event(Trigger.MESSAGE, name="paid")),
        Node("ask", Kind.USER_TASK),
        Node("late", Kind.BOUNDARY_EVENT, attached_to="ask", event=late),
        Node("call", Kind.CALL_ACTIVITY, call=Call("called")),
        Node("merge", Kind.EXCLUSIVE_GATEWAY),
        Node("join", Kind.PARALLEL_GATEWAY),
        Node("end", Kind.END_EVENT),
        flows=[
            ("s", "fork"),
            *(("fork", name) for name in ("work", "other", "paid", "ask", "call")),
            *((name, "join") for name in ("work", "other", "paid", "merge", "call")),
            ("ask", "merge"),
            ("late", "merge"),
            ("join", "end"),
        ],
    )
    return start_flow(alias, model, {"count": 0})


def run(alias, root, token):
    """What an executor does with the job of a token: take it if it may run, then the step, then its end."""
    if not Job.objects.using(alias).filter(pk=token.job_id, lock_owner=None).update(lock_owner="me"):
        return None
    changes = proceed(alias, root, JobDone(token.pk, token.job_id))
    Job.objects.using(alias).filter(pk=token.job_id).delete()
    return changes


def jobs_left(alias):
    return {id for table in JOB_TABLES for id in table._base_manager.using(alias).values_list("pk", flat=True)}


def events(alias, root):
    """All that can happen to an instance now, and what may happen to it at any time."""
    found = []
    tokens = Execution.objects.using(alias).filter(root_id=root).order_by("pk")
    for token in tokens:
        if token.state == "outside":
            found.append(lambda token=token: run(alias, root, token))
        if token.element_id == "ask":
            event = Triggered(token.pk, "late", token.activity_id)
            found.append(lambda event=event: proceed(alias, root, event))
    for row in EventSubscription.objects.using(alias).filter(root_id=root).order_by("pk"):
        found.append(lambda row=row: correlate(row.name, instance=row.instance_id, using=alias))
    for task in UserTask.objects.using(alias).filter(root_id=root):
        found.append(lambda task=task: complete(task, using=alias))
    found.append(lambda: set_variables(root, {"count": 1}, using=alias))
    return found


def moves(alias, root):
    """Events that move the jobs of an instance from one table to another."""
    return [
        lambda: suspend(process_instance_id=str(root), using=alias),
        lambda: activate(process_instance_id=str(root), using=alias),
    ]


def run_those_without_tokens(alias):
    """A step never waits for a job that is just being moved when its token goes: that ends when it runs."""
    owners = {str(pk) for pk in Execution.objects.using(alias).values_list("pk", flat=True)}
    for table in JOB_TABLES:
        for id in list(table._base_manager.using(alias).exclude(execution_id__in=owners).values_list("pk", flat=True)):
            execute_now(id, using=alias)


def tried(event):
    """What has gone meanwhile is refused by name."""
    try:
        return again(event)
    except (MismatchingMessage, TaskOver, InstanceOver, Suspended):
        return None


@pytest.mark.every_database
@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_random_pairs_meet_without_a_deadlock_and_without_a_loss(alias):
    """In the nightly tier as many as take at most ten minutes on its three databases together; 10,000 take an hour."""
    chance = random.Random(5)
    roots = [mixed(alias).pk for _ in range(2)]
    for number in range(PAIRS):
        if not ProcessInstance.objects.using(alias).filter(pk__in=roots, state="active").exists():
            roots = [mixed(alias).pk for _ in range(2)]
        moving = [event for root in roots for event in moves(alias, root)]
        found = [event for root in roots for event in events(alias, root)] + moving
        if number % 8 == 7:
            found += [lambda root=root: proceed(alias, root, Cancelled(root)) for root in roots] * 3
        pair = [chance.choice(found), chance.choice(found)]
        together(alias, *(lambda event=event: tried(event) for event in pair))
        if any(event in moving for event in pair):
            run_those_without_tokens(alias)
        assert check(using=alias) == []
    for root in roots:
        again(lambda root=root: activate(process_instance_id=str(root), using=alias))
        again(lambda root=root: proceed(alias, root, Cancelled(root)))
    assert not Execution.objects.using(alias).exists()
    assert not jobs_left(alias)


@pytest.mark.every_database
def test_a_message_comes_with_a_cancellation(alias):
    root = mixed(alias).pk
    delivered, _ = together(
        alias,
        lambda: tried(lambda: correlate("paid", instance=root, using=alias)),
        lambda: again(lambda: cancel(root, using=alias)),
    )
    assert delivered in (1, None)
    assert ProcessInstance.objects.using(alias).get(pk=root).state == "cancelled"
    assert not EventSubscription.objects.using(alias).exists()
    assert check(using=alias) == []


@pytest.mark.every_database
def test_a_called_instance_ends_when_its_caller_is_cancelled(alias):
    root = mixed(alias).pk
    inner = Execution.objects.using(alias).get(element_id="inner")
    run(alias, root, inner)
    together(
        alias,
        lambda: tried(lambda: correlate("inner", using=alias)),
        lambda: again(lambda: proceed(alias, root, Cancelled(root))),
    )
    states = dict(ProcessInstance.objects.using(alias).values_list("definition_key", "state"))
    assert states["mixed"] == "cancelled"
    assert states["called"] in ("completed", "cancelled")
    assert not Execution.objects.using(alias).exists()


@pytest.mark.every_database
@pytest.mark.parametrize("how", ["done", "cancelled", "late"])
def test_jobs_are_suspended_while_a_step_makes_and_removes_some(alias, how):
    root = mixed(alias).pk
    work = Execution.objects.using(alias).get(element_id="work")
    ask = Execution.objects.using(alias).get(element_id="ask")
    Job.objects.using(alias).filter(pk=work.job_id).update(lock_owner="me")
    step = {
        "done": JobDone(work.pk, work.job_id),
        "cancelled": Cancelled(root),
        "late": Triggered(ask.pk, "late", ask.activity_id),
    }[how]
    _, changes = together(
        alias,
        lambda: again(lambda: suspend(process_instance_id=str(root), using=alias)),
        lambda: again(lambda: proceed(alias, root, step)),
    )
    assert changes is not None
    if how != "cancelled":
        assert check(using=alias) == []
    again(lambda: activate(process_instance_id=str(root), using=alias))
    proceed(alias, root, Cancelled(root))
    # A job that was just being moved when its token went is left, and finds out when it runs.
    left = jobs_left(alias) - {work.job_id}
    assert how == "cancelled" or not left
    for id in left:
        execute_now(id, using=alias)
    assert jobs_left(alias) <= {work.job_id}


@pytest.mark.gate
@pytest.mark.databases("postgresql")
def test_a_job_that_is_being_moved_when_its_token_goes_ends_when_it_runs(alias):
    """The suspension is not committed, so the step does not see it; on MariaDB it waits for it."""
    root = mixed(alias).pk
    with held(alias) as inside:
        assert inside(lambda: suspend(process_instance_id=str(root), using=alias)) > 0
        assert again(lambda: proceed(alias, root, Cancelled(root))) is not None
    assert not Execution.objects.using(alias).exists()
    activate(process_instance_id=str(root), using=alias)
    assert TimerJob.objects.using(alias).exists()
    for id in jobs_left(alias):
        execute_now(id, using=alias)
    assert not jobs_left(alias)
    assert ProcessInstance.objects.using(alias).get(pk=root).state == "cancelled"


@pytest.mark.every_database
def test_two_correlations_in_transactions_that_last(alias):
    """The second one waits for the first, and then finds nobody."""
    mixed(alias)

    def deliver():
        with transaction.atomic(using=alias):
            return correlate("paid", using=alias)

    assert sorted(map(str, together(alias, *(lambda: tried(deliver) for _ in range(3))))) == ["1", "None", "None"]
