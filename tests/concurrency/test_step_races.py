"""Steps of process instances beside each other: a join fires once, and of two events for one token one counts."""

import pytest
from django.contrib.auth.models import User
from django.db import connections, transaction
from django.db.utils import OperationalError

from jobexec import job
from jobexec.models import Job
from jobexec.operations.sql.errors import is_conflict
from jobexec.processes.definition import Event, Flow, Kind, Mode, Node, Process, TimerKind, Trigger, Work
from jobexec.processes.engine.inputs import Cancelled, Completed, JobDone, JobFailed, Triggered
from jobexec.processes.exceptions import MismatchingMessage, TaskOver
from jobexec.processes.flows import builder, compiling
from jobexec.processes.flows.terms import item
from jobexec.processes.handlers.stepping import proceed
from jobexec.processes.models import Execution, ProcessInstance, UserTask, Variable
from jobexec.processes.operations.events import correlate
from jobexec.processes.operations.flows import start_flow
from jobexec.processes.operations.user_tasks import claim, complete
from jobexec.processes.store import items
from tests.support.threads import finish, held, start, together, wait_until_waiting

pytestmark = pytest.mark.transactional


@job(name="tests.races.of_list")
def of_list(number):
    return number


@pytest.fixture(autouse=True)
def engines(settings):
    settings.JOBEXEC = {"ENGINES": {name: {"NOTIFY": False} for name in connections}}


def process(*nodes, flows):
    made = tuple(Flow(f"{a}-{b}", a, b) for a, b in flows)
    return Process("race", nodes, made)


def again(step):
    """On InnoDB and SQLite one of two transactions may be ended by the database."""
    while True:
        try:
            return step()
        except OperationalError as error:
            if not is_conflict(error):
                raise


WAITS = (Node("s", Kind.START_EVENT), Node("a", Kind.USER_TASK))


def fork(count):
    branches = [f"b{number}" for number in range(count)]
    work = Work(handler="tests.race", mode=Mode.OUTSIDE, arguments={"args": [], "kwargs": {}})
    return process(
        Node("s", Kind.START_EVENT),
        Node("fork", Kind.PARALLEL_GATEWAY),
        *(Node(name, Kind.SERVICE_TASK, work=work) for name in branches),
        Node("join", Kind.PARALLEL_GATEWAY),
        Node("after", Kind.USER_TASK),
        flows=[
            ("s", "fork"),
            *(("fork", name) for name in branches),
            *((name, "join") for name in branches),
            ("join", "after"),
        ],
    )


@pytest.mark.every_database
def test_a_join_of_branches_that_end_together_fires_once(alias):
    instance = start_flow(alias, fork(8), {})
    waiting = list(Execution.objects.using(alias).filter(state="outside").values_list("pk", "job_id"))
    assert len(waiting) == 8
    together(
        alias,
        *(lambda t=token, j=job: again(lambda: proceed(alias, instance.pk, JobDone(t, j))) for token, job in waiting),
    )
    assert UserTask.objects.using(alias).count() == 1
    assert list(Execution.objects.using(alias).values_list("element_id", flat=True)) == ["after"]


@pytest.mark.every_database
def test_of_two_reports_on_one_job_one_counts(alias):
    instance = start_flow(alias, fork(1), {})
    token, job = Execution.objects.using(alias).values_list("pk", "job_id").get(state="outside")
    event = JobDone(token, job, {"a": 1})
    changed = together(alias, *(lambda: again(lambda: proceed(alias, instance.pk, event)) for _ in range(4)))
    assert sum(each is not None for each in changed) == 1
    assert UserTask.objects.using(alias).count() == 1


def task_with_timer():
    late = Event(Trigger.TIMER, timer=TimerKind.DURATION, when="PT1H")
    return process(
        Node("s", Kind.START_EVENT),
        Node("ask", Kind.USER_TASK),
        Node("late", Kind.BOUNDARY_EVENT, attached_to="ask", event=late),
        Node("done", Kind.USER_TASK),
        Node("escalated", Kind.USER_TASK),
        flows=[("s", "ask"), ("ask", "done"), ("late", "escalated")],
    )


@pytest.mark.every_database
def test_a_task_is_completed_or_times_out(alias):
    instance = start_flow(alias, task_with_timer(), {})
    token = Execution.objects.using(alias).get(element_id="ask")
    events = [Completed(token.pk, token.activity_id), Triggered(token.pk, "late", token.activity_id)]
    changed = together(
        alias, *(lambda event=event: again(lambda: proceed(alias, instance.pk, event)) for event in events)
    )
    assert sum(each is not None for each in changed) == 1
    assert UserTask.objects.using(alias).get().element_id in ("done", "escalated")
    assert Execution.objects.using(alias).count() == 1


@pytest.mark.gate
@pytest.mark.every_database
def test_whatever_comes_with_a_cancellation_nothing_is_left(alias):
    instance = start_flow(alias, fork(6), {})
    waiting = list(Execution.objects.using(alias).filter(state="outside").values_list("pk", "job_id"))

    def run(token, job):
        """The step, and then the end of its job."""
        again(lambda: proceed(alias, instance.pk, JobDone(token, job)))
        Job.objects.using(alias).filter(pk=job).delete()

    runs = [lambda token=token, job=job: run(token, job) for token, job in waiting]
    together(alias, *runs, lambda: again(lambda: proceed(alias, instance.pk, Cancelled(instance.pk))))
    assert ProcessInstance.objects.using(alias).get().state == "cancelled"
    assert not Execution.objects.using(alias).exists()
    assert not UserTask.objects.using(alias).exists()
    assert not Job.objects.using(alias).exists()


@pytest.mark.every_database
def test_of_two_messages_one_is_delivered(alias):
    paid = Event(Trigger.MESSAGE, name="paid")
    waits = process(
        Node("s", Kind.START_EVENT),
        Node("wait", Kind.RECEIVE_TASK, event=paid),
        Node("after", Kind.USER_TASK),
        flows=[("s", "wait"), ("wait", "after")],
    )
    start_flow(alias, waits, {})

    def deliver():
        try:
            return again(lambda: correlate("paid", using=alias))
        except MismatchingMessage:
            return 0

    assert sorted(together(alias, deliver, deliver)) == [0, 1]
    assert UserTask.objects.using(alias).count() == 1


@pytest.mark.databases("postgresql", "mariadb")
def test_a_step_waits_for_no_job_that_a_node_holds(alias):
    """It leaves the job where it is; the job then finds that its token is gone."""
    instance = start_flow(alias, fork(2), {})
    job = Job.objects.using(alias).first()
    with transaction.atomic(using=alias):
        Job.objects.using(alias).select_for_update().get(pk=job.pk)
        ((changes),) = together(alias, lambda: again(lambda: proceed(alias, instance.pk, Cancelled(instance.pk))))
    assert changes is not None
    assert list(Job.objects.using(alias).values_list("pk", flat=True)) == [job.pk]


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_a_result_that_is_just_being_kept_does_not_outlive_the_list(alias, monkeypatch, how):
    """Whether the token is gone, or goes on: the step waits for the result, and the next one is not kept."""
    monkeypatch.setattr(compiling, "BATCH_FROM", 1)
    flow = builder.Flow("list")
    mapped = flow.map(of_list, item, over=[1, 2])
    flow.wait("never", key="k", after=mapped.failed)
    instance = flow.start(using=alias)
    token, batch = Execution.objects.using(alias).values_list("pk", "job_id").get()
    first, second = Job.objects.using(alias).filter(batch_id=batch).values_list("pk", flat=True)
    event = Cancelled(instance.pk) if how == "cancelled" else JobFailed(token, batch)
    with held(alias) as inside:
        assert inside(lambda: items.is_awaited(alias, token, batch))
        step = start(alias, lambda: proceed(alias, instance.pk, event))
        wait_until_waiting(alias, step)
        assert inside(lambda: items.keep_item(alias, instance.pk, token, first, batch, 1))
    assert finish(step) is not None
    assert not items.keep_item(alias, instance.pk, token, second, batch, 2)
    assert not Variable.objects.using(alias).filter(scope_id=token).exists()
    assert Execution.objects.using(alias).filter(pk=token).exists() is (how == "failed")


def test_a_rolled_back_start_leaves_nothing(alias):
    with pytest.raises(RuntimeError), transaction.atomic(using=alias):
        start_flow(alias, fork(2), {})
        raise RuntimeError
    assert not ProcessInstance.objects.using(alias).exists()
    assert not Job.objects.using(alias).exists()
    start_flow(alias, fork(2), {})  # its shape is stored now, although this process had stored it before
    assert Job.objects.using(alias).count() == 2


@pytest.mark.databases("postgresql", "mariadb")
def test_a_task_that_another_user_is_claiming_is_not_completed(alias):
    start_flow(alias, process(*WAITS, flows=[("s", "a")]), {})
    task = UserTask.objects.using(alias).get()
    with held(alias) as inside:
        inside(lambda: claim(task, "bob", using=alias))
        future = start(alias, lambda: complete(task, user=User(username="alice"), using=alias))
        wait_until_waiting(alias, future)
    with pytest.raises(TaskOver, match="another user has it"):
        finish(future)
    assert UserTask.objects.using(alias).get().assignee == "bob"
