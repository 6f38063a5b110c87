"""Why an instance waits."""

import pytest
from django.db import connections

from jobexec import clock, publish_message
from jobexec.models import DeadLetterJob, ExternalWorkerJob, Job, SuspendedJob
from jobexec.operations import suspend
from jobexec.processes.flows.builder import Flow
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.models import Execution, ProcessInstance, UserTask
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.events import correlate
from jobexec.processes.operations.instances import cancel
from jobexec.processes.operations.query import view_of
from jobexec.processes.operations.start import start
from jobexec.processes.operations.user_tasks import claim, complete
from jobexec.processes.operations.why import shortened, why
from jobexec.processes.store import definitions

from .admin.pages import DRAWN, notes, shop

pytest.importorskip("lxml")

HEAD = """<?xml version="1.0"?><definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="tests"
xmlns:camunda="http://camunda.org/schema/1.0/bpmn" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0">"""


@service_task("tests.why.do")
def do(context):
    pass


def deployed(alias, body, *flows, head=""):
    body += "".join(f'<sequenceFlow id="{a}_{b}" sourceRef="{a}" targetRef="{b}"/>' for a, b in flows)
    text = f'{HEAD}{head}<process id="p" isExecutable="true">{body}</process></definitions>'
    deploy(("p.bpmn", text.encode()), using=alias)


def reasons(alias, instance):
    process = definitions.process(alias, instance.definition_id)
    return why(view_of(alias, instance.pk), process, clock.now(alias))


def codes(alias, instance):
    return [(reason.code, reason.details.get("element")) for reason in reasons(alias, instance)]


@pytest.mark.gate
@pytest.mark.every_database
def test_an_order_says_all_it_waits_for(alias, run_jobs):
    deploy(("order.bpmn", DRAWN), using=alias)
    order = start("order", variables={"amount": 5}, using=alias)
    assert ("executable", "reserve") in codes(alias, order)
    run_jobs()
    found = {reason.code: reason for reason in reasons(alias, order)}
    assert next(iter(found)) == "dead_letter"  # what needs an operator comes first
    assert set(found) == {"dead_letter", "task", "timer_beside", "message"}
    dead = found["dead_letter"]
    assert "Reserve the stock (reserve) has an incident: ValueError: the warehouse does not answer." in dead.text
    assert dead.details["job"] == str(DeadLetterJob.objects.using(alias).get().pk)
    assert "is an unclaimed task" in found["task"].text
    assert "Candidates: managers." in found["task"].text
    assert found["task"].details["task"] == str(UserTask.objects.using(alias).get().pk)
    assert "Wait for the payment (paid) has been waiting for the message paid since" in found["message"].text
    assert found["timer_beside"].details["element"] == "late"
    claim(UserTask.objects.using(alias).get(), "anna", using=alias)
    assert "is a task of anna" in {each.code: each for each in reasons(alias, order)}["task"].text


@pytest.mark.gate
def test_what_is_not_read_is_said(alias, monkeypatch):
    deploy(("order.bpmn", DRAWN), using=alias)
    order = start("order", variables={"amount": 5}, using=alias)
    assert view_of(alias, order.pk).cut == ()
    monkeypatch.setattr("jobexec.processes.operations.query.MOST_ROWS", 1)
    view = view_of(alias, order.pk)
    assert {"executions", "activity instances"} <= set(view.cut)
    assert len(view.executions) == len(view.activities) == 1
    last = reasons(alias, order)[-1]
    assert last.code == "cut" and "more rows than are read" in last.text and "executions" in last.text
    cancel(order, using=alias)
    assert [code for code, _ in codes(alias, order)] == ["over", "cut"]


def test_of_a_job_that_is_not_read_nobody_says_that_it_does_not_exist(alias, monkeypatch):
    branches = "".join(f'<serviceTask id="t{n}" camunda:type="external" camunda:topic="t"/>' for n in range(3))
    body = f'<startEvent id="s"/><parallelGateway id="g"/>{branches}'
    deployed(alias, body, ("s", "g"), *(("g", f"t{n}") for n in range(3)))
    instance = start("p", using=alias)
    monkeypatch.setattr("jobexec.processes.operations.query.MOST_ROWS", 2)
    latest = ExternalWorkerJob.objects.using(alias).order_by("pk").last()
    first = view_of(alias, instance.pk).executions[0]
    assert latest.pk != first.job_id
    Execution.objects.using(alias).filter(pk=first.pk).update(job_id=latest.pk)  # the old token has a new job
    assert [code for code, _ in codes(alias, instance)] == ["waits", "worker", "cut"]


@pytest.mark.gate
def test_a_join_names_what_is_missing(alias):
    deploy(("order.bpmn", DRAWN), using=alias)
    order = start("order", variables={"amount": 5}, using=alias)
    complete(UserTask.objects.using(alias).get(), {"comment": "x"}, using=alias)
    join = next(each for each in reasons(alias, order) if each.code == "join")
    missing = "Reserve the stock (reserve), Wait for the payment (paid)"
    assert join.text == f"join joins several paths and waits for: {missing}."
    correlate("paid", instance=order.pk, using=alias)
    texts = [each.text for each in reasons(alias, order) if each.code == "join"]
    assert texts == ["join joins several paths and waits for: Reserve the stock (reserve)."]


def test_the_inclusive_join_of_a_flow_waits_for_what_can_still_come(alias, run_jobs):
    flow = shop().start(using=alias)
    run_jobs()
    found = reasons(alias, flow)
    assert [(each.code, each.details["element"]) for each in found] == [("retry", "pack"), ("join", "join.ship")]
    assert "attempt 1 of its job failed" in found[0].text
    assert "ValueError: broken" in found[0].text
    assert found[1].text == "join.ship joins several paths and waits for: pack."


def test_a_called_instance(alias):
    deploy(("order.bpmn", DRAWN), using=alias)
    order = start("order", variables={"amount": 2000}, using=alias)
    reserve = Execution.objects.using(alias).get(element_id="reserve")
    Job.objects.using(alias).filter(pk=reserve.job_id).delete()
    assert ("no_job", "reserve") in codes(alias, order)
    assert codes(alias, order)[0] == ("no_job", "reserve")
    cancel(order, using=alias)
    assert codes(alias, order) == [("over", None)]
    call = '<startEvent id="s"/><callActivity id="c" calledElement="delivery"/><endEvent id="e"/>'
    deployed(alias, call, ("s", "c"), ("c", "e"))
    parent = start("p", using=alias)
    (reason,) = reasons(alias, parent)
    child = ProcessInstance.objects.using(alias).get(definition_key="delivery")
    assert (reason.code, reason.details["instance"]) == ("called", str(child.pk))
    assert "c has been waiting for the called instance delivery" in reason.text


def test_a_message_with_a_key_a_timer_and_a_signal(alias, run_jobs):
    catch = '<intermediateCatchEvent id="{}">{}</intermediateCatchEvent>'
    body = '<startEvent id="s"/><eventBasedGateway id="g"/><endEvent id="e"/>'
    body += catch.format("m", '<messageEventDefinition messageRef="M"/>')
    body += catch.format("t", "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>")
    body += catch.format("n", '<signalEventDefinition signalRef="S"/>')
    flows = [("s", "g"), ("g", "m"), ("g", "t"), ("g", "n"), ("m", "e"), ("t", "e"), ("n", "e")]
    key = '<extensionElements><zeebe:subscription correlationKey="=order"/></extensionElements>'
    deployed(alias, body, *flows, head=f'<message id="M" name="paid">{key}</message><signal id="S" name="stop"/>')
    found = start("p", variables={"order": "4711"}, using=alias)
    texts = {each.code: each.text for each in reasons(alias, found)}
    assert set(texts) == {"message_beside", "signal_beside", "timer_beside"}
    assert "m has been waiting for the message paid with the key 4711 since" in texts["message_beside"]
    assert "n has been waiting for the signal stop since" in texts["signal_beside"]
    assert "t fires on" in texts["timer_beside"]
    publish_message("paid", key="4711", payload={}, using=alias)
    run_jobs()
    assert codes(alias, found) == [("over", None)]


def test_a_worker_and_a_suspended_job(alias):
    body = """<startEvent id="s"/><parallelGateway id="g"/><endEvent id="e"/>
    <serviceTask id="w" camunda:type="external" camunda:topic="print"/>
    <serviceTask id="j" camunda:asyncBefore="true" camunda:delegateExpression="${tests.why.do}"/>"""
    flows = [("s", "g"), ("g", "w"), ("g", "j"), ("w", "e"), ("j", "e")]
    deployed(alias, body, *flows)
    found = start("p", using=alias)
    assert sorted(codes(alias, found)) == [("executable", "j"), ("worker", "w")]
    suspend(Job.objects.using(alias).all(), using=alias)
    assert SuspendedJob.objects.using(alias).count() == 1
    ExternalWorkerJob.objects.using(alias).update(lock_owner="printer-1")
    texts = sorted(each.text for each in reasons(alias, found))
    assert texts == ["j: its job is suspended.", "w: the worker printer-1 holds its job."]


def test_many_alike_are_counted(alias):
    flow = Flow("many")
    flow.map(notes, over=list(range(20)), name="each")
    found = reasons(alias, flow.start(using=alias))
    assert len(found) == 20
    texts = [each.text for each in shortened(found)]
    assert texts == ["each: its job waits for an executor."] * 3 + ["17 more like this."]


def test_the_number_of_statements_does_not_grow(alias, django_assert_num_queries):
    deploy(("order.bpmn", DRAWN), using=alias)
    order = start("order", variables={"amount": 5}, using=alias)
    view, process = view_of(alias, order.pk), definitions.process(alias, order.definition_id)
    with django_assert_num_queries(1, connection=connections[alias]):
        why(view, process, order.start_time)
