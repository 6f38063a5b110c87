"""What processes tell the rest of a project after the commit of a step."""

import logging

import pytest
from django.db import transaction

from jobexec import job
from jobexec.models import DeadLetterJob
from jobexec.operations.settle import fail_statement
from jobexec.processes import signals
from jobexec.processes.engine.exceptions import BpmnError
from jobexec.processes.flows.builder import Flow
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.models import ActivityInstance, ProcessInstance, UserTask
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.instances import cancel
from jobexec.processes.operations.start import start
from jobexec.processes.operations.user_tasks import claim, complete
from jobexec.processes.store import flush
from jobexec.signals import job_dead_lettered
from tests.processes.support.bpmn import around, process

pytest.importorskip("lxml")
pytestmark = pytest.mark.transactional

SIGNALS = {
    "process_started": "instances",
    "process_ended": "instances",
    "activity_ended": "activities",
    "task_created": "tasks",
    "incident_opened": "incidents",
}


@pytest.fixture
def heard():
    """Names of signals with what they brought, in their order."""
    found = []

    def receiver_of(name, argument):
        def receive(sender, using, **kwargs):
            rows = kwargs[argument]
            assert {type(row) for row in rows} == {sender}
            assert {row._state.db for row in rows} == {using}
            found.append((name, rows))

        return receive

    connected = [(getattr(signals, name), receiver_of(name, argument)) for name, argument in SIGNALS.items()]
    for signal, receive in connected:
        signal.connect(receive)
    yield found
    for signal, receive in connected:
        assert signal.disconnect(receive)
    assert not any(signal.receivers for signal, _ in connected)


def names(found):
    return [name for name, _ in found]


def approval(alias):
    deploy(("p.bpmn", process(around('<userTask id="x" name="Approve" camunda:assignee="kim"/>'))), using=alias)


@pytest.mark.every_database
def test_from_the_start_to_the_end(alias, heard):
    approval(alias)
    with transaction.atomic(using=alias):
        instance = start("p", business_key="4711", using=alias)
        assert heard == []
    assert names(heard) == ["process_started", "task_created", "activity_ended"]
    (started,), (task,), activities = (rows for _, rows in heard)
    stored = ProcessInstance.objects.using(alias).get()
    for field in ("id", "key", "business_key", "state", "definition_id", "root_id", "start_time"):
        assert getattr(started, field) == getattr(stored, field), field
    assert (task, task.name, task.assignee) == (UserTask.objects.using(alias).get(), "Approve", "kim")
    assert claim(task, "anna", override=True).assignee == "anna"
    assert [(row.element_id, row.state) for row in activities] == [("s", "completed")]
    del heard[:]
    complete(task, {"approved": True})
    assert names(heard) == ["activity_ended", "process_ended"]
    (activities, (ended,)) = (rows for _, rows in heard)
    assert [row.element_id for row in activities] == ["x", "e"]
    history = ActivityInstance.objects.using(alias).filter(element_id__in="xe").order_by("end_time", "pk")
    assert activities == list(history)
    stored = ProcessInstance.objects.using(alias).get()
    fields = [field.attname for field in ProcessInstance._meta.concrete_fields]
    assert {name: getattr(ended, name) for name in fields} == {name: getattr(stored, name) for name in fields}
    assert (ended.pk, ended.state, ended.final_variables) == (instance.pk, "completed", {"approved": True})


def test_what_is_rolled_back_is_not_told(alias, heard):
    approval(alias)
    with transaction.atomic(using=alias):
        start("p", using=alias)
        transaction.set_rollback(True, using=alias)
    assert heard == []


def test_an_instance_that_ends_in_its_first_step(alias, heard):
    deploy(("p.bpmn", process(around('<task id="x"/>'))), using=alias)
    start("p", using=alias)
    assert names(heard) == ["process_started", "activity_ended", "process_ended"]
    assert [rows[0].state for name, rows in heard if name != "activity_ended"] == ["completed"] * 2


def test_called_instances(alias, heard):
    called = process(around('<userTask id="x"/>')).replace(b'id="p"', b'id="called"')
    caller = process(around('<callActivity id="x" calledElement="called"/>'))
    deploy(("called.bpmn", called), ("p.bpmn", caller), using=alias)
    instance = start("p", using=alias)
    started = dict(heard)["process_started"]
    assert [row.definition_key for row in started] == ["p", "called"]
    del heard[:]
    cancel(instance, using=alias)
    ended = dict(heard)["process_ended"]
    assert {row.definition_key: row.state for row in ended} == {"p": "cancelled", "called": "cancelled"}
    for row in ended:
        stored = ProcessInstance.objects.using(alias).get(pk=row.pk)
        assert (row.key, row.delete_reason, row.end_time) == (stored.key, stored.delete_reason, stored.end_time)
    assert {row.state for row in dict(heard)["activity_ended"]} == {"cancelled"}


@service_task("tests.signals.fail")
def fail(context):
    raise ValueError("broken")


@service_task("tests.signals.refuse")
def refuse(context):
    raise BpmnError("NO", "not today")


@job(name="tests.signals.fails", retries="R1/PT0S")
def fails():
    raise ValueError("broken")


FAILING = {
    "tests.signals.fail": "broken",
    "tests.signals.refuse": "Nothing catches the error NO",
}


@pytest.mark.every_database
@pytest.mark.parametrize("handler", FAILING)
def test_incidents(alias, heard, run_jobs, handler):
    task = (
        f'<serviceTask id="x" camunda:delegateExpression="${{{handler}}}" camunda:asyncBefore="true">'
        "<extensionElements><camunda:failedJobRetryTimeCycle>R1/PT0S</camunda:failedJobRetryTimeCycle>"
        "</extensionElements></serviceTask>"
    )
    deploy(("p.bpmn", process(around(task))), using=alias)
    instance = start("p", using=alias)
    run_jobs()
    told = [rows for name, rows in heard if name == "incident_opened"]
    assert len(told) == 1
    ((incident,),) = told
    assert (incident.process_instance_id, incident.failed_activity_id) == (str(instance.pk), "x")
    assert FAILING[handler] in incident.message
    assert DeadLetterJob.objects.using(alias).get().pk == incident.job_id


def test_an_incident_of_a_flow_and_none_of_another_job(alias, heard, run_jobs):
    flow = Flow("shop")
    flow.step(fails, name="pack")
    flow.start(using=alias)
    fails.using(database=alias, process_instance_id="mine").enqueue()
    run_jobs()
    assert DeadLetterJob.objects.using(alias).count() == 2
    told = [rows for name, rows in heard if name == "incident_opened"]
    assert [[row.failed_activity_id for row in rows] for rows in told] == [["pack"]]


def test_a_receiver_that_fails_changes_nothing(alias, caplog):
    def broken(**kwargs):
        raise ValueError("a receiver")

    def other(instances, **kwargs):
        heard.append(instances)

    heard = []
    signals.process_started.connect(broken)
    signals.process_started.connect(other)
    approval(alias)
    try:
        with caplog.at_level(logging.ERROR):
            start("p", using=alias)
    finally:
        signals.process_started.disconnect(broken)
        signals.process_started.disconnect(other)
    assert ProcessInstance.objects.using(alias).count() == len(heard) == 1
    assert "a receiver" in caplog.text


def test_without_receivers_no_row_is_built(alias, monkeypatch):
    def built(*args, **kwargs):
        raise AssertionError("nobody hears of it")

    monkeypatch.setattr(flush, "announce", built)
    monkeypatch.setattr(flush, "stored", built)
    approval(alias)
    start("p", using=alias)
    complete(UserTask.objects.using(alias).get(), using=alias)
    assert ProcessInstance.objects.using(alias).get().state == "completed"


@pytest.mark.databases("postgresql")
def test_dead_letters_are_written_fast_while_nobody_hears_of_incidents(alias):
    def receive(**kwargs): ...

    assert fail_statement.is_possible(alias)
    for _ in range(2):
        signals.incident_opened.connect(receive)
        assert not fail_statement.is_possible(alias)
        assert signals.incident_opened.disconnect(receive)
        assert fail_statement.is_possible(alias)
    assert not job_dead_lettered.receivers
