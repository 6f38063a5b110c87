"""Suspended processes and instances: nothing goes on from outside, and no job runs."""

from contextlib import suppress
from datetime import timedelta
from threading import Event
from types import SimpleNamespace

import pytest
from django.db import OperationalError

from jobexec import publish_message
from jobexec.exceptions import InvalidJob
from jobexec.models import AuditLog, DeadLetterJob, Job, OperatorType, SuspendedJob, Suspension, TimerJob
from jobexec.operations import suspend as suspend_jobs
from jobexec.operations.audit import acting
from jobexec.operations.manage import suspension_sweep
from jobexec.operations.values.operator import Operator
from jobexec.processes.exceptions import InstanceOver, Suspended, UnknownProcess
from jobexec.processes.models import ProcessInstance, UserTask
from jobexec.processes.operations import suspend as operation
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.events import correlate, signal
from jobexec.processes.operations.instances import cancel, set_variables
from jobexec.processes.operations.start import start
from jobexec.processes.operations.suspend import activate, suspend
from jobexec.processes.operations.user_tasks import claim, complete, throw_error
from jobexec.processes.store import lock
from jobexec.processes.store.suspensions import suspended_rows
from jobexec.testing import ManualExecutor, controlled_clock
from tests.processes.support.bpmn import around, definitions
from tests.support.threads import finish, held, wait_until_waiting
from tests.support.threads import start as beside

pytest.importorskip("lxml")

TOP = '<message id="m" name="paid"/><signal id="g" name="news"/>'
ORDER = (
    '<startEvent id="s"/><parallelGateway id="fork"/><userTask id="approve"/>'
    '<task id="later" camunda:asyncBefore="true"/>'
    '<intermediateCatchEvent id="wait"><messageEventDefinition messageRef="m"/></intermediateCatchEvent>'
    '<intermediateCatchEvent id="pause"><timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>'
    "</intermediateCatchEvent>"
    + "".join(
        f'<sequenceFlow id="f{n}" sourceRef="{a}" targetRef="{b}"/>'
        for n, (a, b) in enumerate(
            [("s", "fork"), ("fork", "approve"), ("fork", "later"), ("fork", "wait"), ("fork", "pause")]
        )
    )
)
STARTS = (
    '<startEvent id="s2"><messageEventDefinition messageRef="m2"/></startEvent>'
    '<startEvent id="s3"><signalEventDefinition signalRef="g"/></startEvent>'
    '<endEvent id="e"/><sequenceFlow id="g1" sourceRef="s2" targetRef="e"/>'
    '<sequenceFlow id="g2" sourceRef="s3" targetRef="e"/>'
)


@pytest.fixture
def order(alias):
    processes = (
        f'<process id="order" isExecutable="true">{ORDER}</process>'
        f'<process id="other" isExecutable="true">{STARTS}</process>'
        f'<process id="caller" isExecutable="true">{around(CALL)}</process>'
    )
    deploy(("p.bpmn", definitions(TOP + '<message id="m2" name="begin"/>' + processes)), using=alias)
    return start("order", using=alias)


CALL = '<callActivity id="x" calledElement="order"/>'
WAYS = {
    "instance": (lambda row: row, {}),
    "its id": (lambda row: row.pk, {}),
    "process": (lambda row: "order", {}),
    "version": (lambda row: "order", {"version": 1}),
    "process of no tenant": (lambda row: "order", {"tenant_id": ""}),
}


@pytest.mark.every_database
@pytest.mark.parametrize("way", WAYS)
def test_an_instance_that_is_suspended_stands_still(alias, order, way):
    chosen, scope = WAYS[way]
    (target, task) = chosen(order), UserTask.objects.using(alias).get()
    assert suspend(target, **scope, using=alias) == 2
    refused = rf"The process instance {order.pk} cannot go on: the .* is suspended"
    for act in (
        lambda: complete(task, using=alias),
        lambda: claim(task, "anna", using=alias),
        lambda: throw_error(task, "E1", using=alias),
        lambda: correlate("paid", using=alias),
    ):
        with pytest.raises(Suspended, match=refused):
            act()
    assert ManualExecutor(alias).run_until_empty() == []
    assert SuspendedJob.objects.using(alias).count() == 2
    set_variables(order, {"a": 1}, using=alias)
    assert activate(target, **scope, using=alias) == 2
    assert (Job.objects.using(alias).count(), TimerJob.objects.using(alias).count()) == (1, 1)
    claim(task, "anna", using=alias)
    complete(task, user="anna", using=alias)
    assert correlate("paid", using=alias) == 1
    assert len(ManualExecutor(alias).run_until_empty()) == 1
    assert not Suspension.objects.using(alias).exists()


@pytest.mark.parametrize("way", [way for way in WAYS if "process" in way or "version" in way])
def test_nothing_is_started_of_a_process_that_is_suspended(alias, order, way):
    chosen, scope = WAYS[way]
    suspend(chosen(order), **scope, using=alias)
    with pytest.raises(Suspended, match=r"No instance of order:1:\w+ can be started"):
        start("order", using=alias)
    with pytest.raises(Suspended, match="can be started"):
        start("caller", using=alias)
    assert ProcessInstance.objects.using(alias).count() == 1
    activate(chosen(order), **scope, using=alias)
    start("caller", using=alias)


@pytest.mark.gate
def test_nor_by_a_message_or_a_signal(alias, order, run_jobs):
    suspend("other", using=alias)
    with pytest.raises(Suspended):
        correlate("begin", using=alias)
    assert signal("news", using=alias) == 1
    run_jobs()
    assert not ProcessInstance.objects.using(alias).filter(definition_key="other").exists()
    activate("other", using=alias)
    run_jobs()
    assert ProcessInstance.objects.using(alias).filter(definition_key="other").count() == 1


@pytest.mark.gate
def test_an_instance_alone(alias, order):
    other = start("order", using=alias)
    suspend(order, using=alias)
    (task,) = UserTask.objects.using(alias).filter(instance_id=other.pk)
    complete(task, using=alias)
    assert len(ManualExecutor(alias).run_until_empty()) == 1
    start("order", using=alias)
    assert activate(other, using=alias) == 0, "that is another suspension"
    assert SuspendedJob.objects.using(alias).filter(process_instance_id=str(order.pk)).count() == 2
    cancel(order, using=alias)
    assert not SuspendedJob.objects.using(alias).exists()
    with pytest.raises(InstanceOver):
        suspend(order, using=alias)


def test_without_the_instances_that_there_are(alias, order):
    assert suspend("order", include_instances=False, using=alias) == 0
    complete(UserTask.objects.using(alias).get(), using=alias)
    assert len(ManualExecutor(alias).run_until_empty()) == 1
    with pytest.raises(Suspended):
        start("order", using=alias)


TIMED = (
    '<startEvent id="s"><timerEventDefinition><timeCycle>R/PT1H</timeCycle></timerEventDefinition></startEvent>'
    '<userTask id="x"/><sequenceFlow id="f" sourceRef="s" targetRef="x"/>'
)


@pytest.mark.parametrize("way", [way for way in WAYS if "process" in way or "version" in way])
@pytest.mark.parametrize("include", [False, True], ids=["without its instances", "with all"])
def test_a_timer_that_starts_instances_waits_for_the_activation(alias, run_jobs, way, include):
    """And then goes on in its cycle; the times that are over are left out."""
    _, scope = WAYS[way]
    with controlled_clock() as clock:
        deploy(("t.bpmn", definitions(f'<process id="timed" isExecutable="true">{TIMED}</process>')), using=alias)
        zero = clock.now
        clock.advance(600)
        suspend("timed", include_instances=include, **scope, using=alias)
        clock.advance(3600)
        run_jobs(advance=True)
        assert SuspendedJob.objects.using(alias).get().retries == 3
        clock.advance(7200)
        assert activate("timed", **scope, using=alias) == 1
        run_jobs()
        assert ProcessInstance.objects.using(alias).count() == 1
        assert TimerJob.objects.using(alias).get().due_date == zero.replace(microsecond=0) + timedelta(hours=4)
        assert not DeadLetterJob.objects.using(alias).exists()


def test_a_timer_that_is_about_to_start_an_instance_when_its_process_is_suspended(alias):
    with controlled_clock() as clock:
        deploy(("t.bpmn", definitions(f'<process id="timed" isExecutable="true">{TIMED}</process>')), using=alias)
        clock.advance(3601)
        executor = ManualExecutor(alias)
        executor.run_timers()
        runs = executor.acquire(1)
        suspend("timed", using=alias)
        executor.run_acquired(runs, [])
        executor.run_until_empty()
        assert SuspendedJob.objects.using(alias).get().retries == 3
        assert not ProcessInstance.objects.using(alias).exists()
        activate("timed", using=alias)
        executor.run_until_empty()
    assert ProcessInstance.objects.using(alias).count() == 1


@pytest.mark.parametrize("event", ["message", "signal"])
def test_so_does_an_event_that_starts_instances(alias, order, run_jobs, event):
    """Its job is there when the process is suspended without its instances, and has not begun."""
    if event == "signal":
        signal("news", {"a": 1}, using=alias)
    else:
        publish_message("begin", key="k", payload={"a": 1}, using=alias)
    suspend("other", include_instances=False, using=alias)
    run_jobs()
    assert SuspendedJob.objects.using(alias).get().process_definition_key == "other"
    activate("other", using=alias)
    run_jobs()
    found = ProcessInstance.objects.using(alias).get(definition_key="other")
    assert (found.state, found.final_variables) == ("completed", {"a": 1})


@pytest.mark.parametrize("event", ["message", "signal"])
def test_what_waits_for_the_activation_starts_the_version_that_was_deployed_meanwhile(alias, order, run_jobs, event):
    suspend("other", using=alias)
    if event == "signal":
        signal("news", {"a": 1}, using=alias)
    else:
        publish_message("begin", key="k", payload={"a": 1}, using=alias)
    run_jobs()
    repaired = TOP + f'<message id="m2" name="begin"/><process id="other" isExecutable="true">{STARTS}</process>'
    deploy(("repaired.bpmn", definitions(repaired)), using=alias)
    activate("other", using=alias)
    run_jobs()
    found = ProcessInstance.objects.using(alias).get(definition_key="other")
    assert found.definition_id.split(":")[1] == "2" and found.final_variables == {"a": 1}


def test_a_timer_whose_process_calls_one_that_is_suspended_fails(alias, order, run_jobs):
    called = TIMED.replace('<userTask id="x"/>', CALL)
    with controlled_clock() as clock:
        deploy(("t.bpmn", definitions(f'<process id="timed" isExecutable="true">{called}</process>')), using=alias)
        suspend("order", using=alias)
        clock.advance(3601)
        run_jobs(advance=True)
        assert DeadLetterJob.objects.using(alias).get().process_definition_key == "timed"


def test_at_a_date_and_until_one(alias, order):
    with controlled_clock() as clock:
        hour = timedelta(hours=1)
        assert suspend("order", at=clock.now + hour, until=clock.now + 2 * hour, using=alias) == 0
        start("order", using=alias)
        clock.advance(hour)
        with pytest.raises(Suspended):
            start("order", using=alias)
        executor = ManualExecutor(alias)
        executor.run_suspensions()
        assert executor.run_until_empty() == []
        clock.advance(hour)
        start("order", using=alias)
        executor.run_suspensions()
        assert len(executor.run_until_empty()) == 5, "three tasks and the timers of two"


def test_jobs_that_are_made_meanwhile_do_not_run(alias, order, run_jobs):
    content = around('<userTask id="x"/>').replace('<endEvent id="e"/>', '<task id="e" camunda:asyncBefore="true"/>')
    deploy(("q.bpmn", definitions(f'<process id="two" isExecutable="true">{content}</process>')), using=alias)
    instance = start("two", using=alias)
    suspend("two", include_instances=False, using=alias)
    complete(UserTask.objects.using(alias).get(instance_id=instance.pk), using=alias)
    suspend(order, using=alias)
    assert run_jobs() == []
    activate("two", using=alias)
    assert len(run_jobs()) == 1


@pytest.mark.every_database
def test_a_suspension_ends_with_its_instance(alias, order):
    """However it ends; that of another one stays."""
    other, last = start("order", using=alias), start("caller", using=alias)
    suspend(other, using=alias)
    suspend(order, using=alias)
    cancel(order, using=alias)
    called = ProcessInstance.objects.using(alias).get(parent_execution_id__isnull=False)
    suspend(called, using=alias)
    cancel(last, using=alias)
    ManualExecutor(alias).run_suspensions()
    assert list(Suspension.objects.using(alias).values_list("value", flat=True)) == [str(other.pk)]


@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.every_database
def test_a_job_that_is_being_suspended_when_its_instance_is_cancelled_goes_with_it(alias, order, monkeypatch, run_jobs):
    """The step skips its row, whose move is not committed: it would stay for ever."""
    moving, go_on = Event(), Event()
    move_all = suspension_sweep.move_all

    def move_slowly(*args, **kwargs):
        moved = move_all(*args, **kwargs)
        if moved:
            moving.set()
            go_on.wait(20)
        return moved

    monkeypatch.setattr(suspension_sweep, "move_all", move_slowly)
    suspending = beside(alias, lambda: suspend(order, using=alias))
    assert moving.wait(20), suspending
    cancelling = beside(alias, lambda: cancel(order, using=alias))
    with suppress(AssertionError):  # it waits only since suspensions end with their instances
        wait_until_waiting(alias, cancelling)
    go_on.set()
    finish(suspending)
    finish(cancelling)
    ManualExecutor(alias).run_suspensions()
    run_jobs()
    assert not SuspendedJob.objects.using(alias).exists()
    assert not Suspension.objects.using(alias).exists()


def test_what_is_wrong(alias, order):
    with pytest.raises(UnknownProcess, match="'nothing'"):
        suspend("nothing", using=alias)
    with pytest.raises(UnknownProcess, match="'order' is deployed for the tenant 'a'"):
        suspend("order", tenant_id="a", using=alias)
    with pytest.raises(UnknownProcess, match="in version 7"):
        activate("order", version=7, using=alias)
    with pytest.raises(ValueError, match="with the key of a process"):
        suspend(order, version=1, using=alias)
    with pytest.raises(InvalidJob, match="until"):
        suspend(order, until=order.start_time - timedelta(days=1), using=alias)
    assert not Suspension.objects.using(alias).exists()


def test_it_is_in_the_audit_log(alias, order):
    with acting(Operator(OperatorType.USER, "anna")):
        suspend(order, using=alias)
        activate("order", using=alias)
    found = AuditLog.objects.using(alias).order_by("pk").values_list("verb", "object_type", "object_id", "count")
    assert list(found) == [
        ("suspend", "suspension", str(order.pk), 2),
        ("activate", "suspension", "order", 0),
    ]


@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")
def test_a_step_that_does_not_end_is_no_error_of_the_suspension(alias, order, settings, monkeypatch):
    """The suspension holds already, and the step is the last one."""
    settings.JOBEXEC = {**settings.JOBEXEC, "PROCESSES": {"LOCK_TIMEOUT": 1}}
    with held(alias) as inside:
        real = operation.suspend_jobs

        def suspend_as_a_step_begins(**scope):
            moved = real(**scope)
            inside(lambda: lock.locked(alias, order.pk))
            return moved

        monkeypatch.setattr(operation, "suspend_jobs", suspend_as_a_step_begins)
        assert suspend(order, using=alias) == 2
    assert Suspension.objects.using(alias).get(live=True).value == str(order.pk)


def test_several_errors_of_one_page_are_all_told(alias, order, monkeypatch):
    from jobexec.processes.operations import many

    others = [start("order", using=alias) for _ in range(2)]

    def refuse(id, *args, **named):
        raise ValueError(f"not {id}")

    monkeypatch.setattr(many, "cancel", refuse)
    ids = [str(each.pk) for each in (order, *others)]
    with pytest.raises(ExceptionGroup, match="3 of 3 instances could not be cancelled") as caught:
        many.cancel_page(SimpleNamespace(using=alias), ids, "")
    assert [str(error) for error in caught.value.exceptions] == [f"not {id}" for id in ids]

    def lose(id, *args, **named):
        calls.append(id)
        raise OperationalError("server closed the connection")

    calls = []
    monkeypatch.setattr(many, "cancel", lose)
    with pytest.raises(OperationalError):
        many.cancel_page(SimpleNamespace(using=alias), ids, "")
    assert len(calls) == 1


def test_a_suspended_name_of_ordinary_jobs_is_no_instance(alias, order):
    suspend_jobs(process_instance_id="order-17", using=alias)
    suspend(order, using=alias)
    rows = ProcessInstance.objects.using(alias)
    assert list(rows.filter(suspended_rows(alias))) == [order]
    assert not rows.exclude(suspended_rows(alias)).exists()
