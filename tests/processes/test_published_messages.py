"""Messages that are published for events that do not interrupt: each reaches each of them exactly once."""

import base64
from datetime import timedelta
from itertools import permutations

import pytest
from django.db import OperationalError

from jobexec.models import BlockedJob, Job
from jobexec.operations import publish_message
from jobexec.operations.external.publish import publish_external_message
from jobexec.operations.messages.deliver import deliver as deliver_message
from jobexec.operations.sql.errors import is_conflict
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.models import EventSubscription, ProcessInstance, Variable
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.instances import cancel
from jobexec.processes.operations.start import start
from jobexec.processes.store.jobs import RECEIVE
from jobexec.testing import ManualExecutor, controlled_clock
from tests.processes.support.rows import assert_nothing_is_left, state
from tests.support.threads import together

from .gateways.models import xml

pytest.importorskip("lxml")

AMOUNTS = []
KEYED = (
    '<message id="m" name="paid"><extensionElements><zeebe:subscription correlationKey="=id"/></extensionElements>'
    "</message>"
)
EVENT = '<messageEventDefinition messageRef="m"/>'
NOTE = '<serviceTask id="note" camunda:delegateExpression="${tests.published.note}"/>'
MODELS = {
    "a boundary event": f'<userTask id="a"/>{NOTE}<boundaryEvent id="more" attachedToRef="a" cancelActivity="false">'
    f'{EVENT}</boundaryEvent><sequenceFlow id="g" sourceRef="more" targetRef="note"/>',
    "an event sub-process": '<userTask id="a"/><subProcess id="h" triggeredByEvent="true">'
    f'<startEvent id="more" isInterrupting="false">{EVENT}</startEvent>{NOTE}'
    '<sequenceFlow id="g" sourceRef="more" targetRef="note"/></subProcess>',
}


@service_task("tests.published.note")
def note(context):
    AMOUNTS.append(context.variables["amount"])


@pytest.fixture(autouse=True)
def no_amounts():
    AMOUNTS.clear()


@pytest.fixture(params=MODELS)
def deployed(alias, request):
    begin = '<startEvent id="s"/><sequenceFlow id="f" sourceRef="s" targetRef="a"/>'
    deploy(("order.bpmn", xml(begin + MODELS[request.param], before=KEYED)), using=alias)


def started(alias, id="1"):
    return start("order", variables={"id": id}, using=alias)


def publish(alias, amount, **given):
    publish_message("paid", key=given.pop("key", "1"), payload={"amount": amount}, using=alias, **given)


@pytest.mark.parametrize("ttl", [None, "PT1H"], ids=["not kept", "kept"])
@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "at once"])
def test_each_reaches_it_once(alias, deployed, run_jobs, ttl, at_once):
    instance, other = started(alias), started(alias, "2")
    for amount in (1, 2, 3):
        publish(alias, amount, ttl=ttl)
        if not at_once:
            run_jobs()
    run_jobs()
    assert sorted(AMOUNTS) == [1, 2, 3]
    assert state(alias, instance) == state(alias, other) == "active"
    for each in (instance, other):
        cancel(each)
    publish(alias, 4)
    run_jobs()
    assert_nothing_is_left(alias)
    assert len(AMOUNTS) == 3


def test_those_that_are_kept_reach_it_when_it_begins_to_wait(alias, deployed, run_jobs):
    with controlled_clock() as clock:
        publish(alias, 0, ttl="PT1M")
        clock.advance(61)
        for amount in (1, 2, 3):
            publish(alias, amount, ttl="PT1H")
        publish(alias, 9, ttl="PT1H", key="9")
        run_jobs()
        started(alias)
        run_jobs()
        assert sorted(AMOUNTS) == [1, 2, 3]
        publish(alias, 4)
        publish(alias, 5, ttl="PT1H")
        run_jobs()
        assert sorted(AMOUNTS) == [1, 2, 3, 4, 5]
        started(alias)
        run_jobs()
    assert sorted(AMOUNTS) == [1, 1, 2, 2, 3, 3, 4, 5, 5]


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
@pytest.mark.parametrize("ttl", [None, "PT1H"], ids=["not kept", "kept"])
def test_in_whichever_order_its_jobs_run(alias, deployed, order, ttl):
    """One job waited for the first message, and each message has a job of its own: two of the three are for one."""
    started(alias)
    publish(alias, 1, ttl=ttl)
    publish(alias, 2, ttl=ttl)
    while deliver_message(alias, 100).more:
        pass
    jobs = list(Job.objects.using(alias).order_by("rank", "id"))
    assert [job.handler_type == RECEIVE for job in jobs].count(True) == 1 and len(jobs) == 3
    for number, place in enumerate(order):
        jobs[place].rank = number
        jobs[place].save(using=alias, update_fields=["rank"])
    executor = ManualExecutor(alias)
    executor.run_until_empty()
    assert sorted(AMOUNTS) == [1, 2]
    publish(alias, 3, ttl=ttl)
    executor.run_until_empty()
    assert sorted(AMOUNTS) == [1, 2, 3]


def test_what_it_must_remember_does_not_grow(alias, deployed, run_jobs):
    started(alias)
    for amount in range(20):
        publish(alias, amount)
        run_jobs()
    assert sorted(AMOUNTS) == list(range(20))
    (received,) = EventSubscription.objects.using(alias).values_list("received", flat=True)
    assert received["waiting"] is False and len(received["numbers"]) == 1


def test_one_that_interrupts_is_reached_by_one_message(alias, run_jobs):
    body = MODELS["a boundary event"].replace(' cancelActivity="false"', "")
    begin = '<startEvent id="s"/><sequenceFlow id="f" sourceRef="s" targetRef="a"/>'
    deploy(("order.bpmn", xml(begin + body, before=KEYED)), using=alias)
    instance = started(alias)
    publish(alias, 1)
    publish(alias, 2, ttl=timedelta(hours=1))
    run_jobs()
    assert (AMOUNTS, state(alias, instance)) == ([1], "completed")


def test_what_they_bring_stays_encrypted_until_it_is_delivered(alias, deployed, settings):
    settings.JOBEXEC = {
        **settings.JOBEXEC,
        "ENCRYPTION_KEYS": {"2026": base64.urlsafe_b64encode(bytes(32)).decode()},
    }
    body = f'<startEvent id="s">{EVENT}</startEvent>{NOTE}<sequenceFlow id="f" sourceRef="s" targetRef="note"/>'
    deploy(("begins.bpmn", xml(body, before='<message id="m" name="paid"/>', key="begins")), using=alias)
    started(alias)
    publish(alias, 4711_0815, ttl="PT1H")
    while deliver_message(alias, 100).more:
        pass
    rows = list(Job.objects.using(alias).values())
    assert len(rows) == 3, "one waited, one is for the event, one is to begin a process"
    assert "47110815" not in str(rows)
    ManualExecutor(alias).run_until_empty()
    assert AMOUNTS == [47110815, 47110815]


def look(alias):
    try:
        deliver_message(alias, 2)
    except OperationalError as error:  # InnoDB may end one of two transactions
        assert is_conflict(error)


@pytest.mark.gate
@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")
def test_those_that_are_kept_and_come_while_it_begins_to_wait(alias, deployed):
    """Neither the publications nor the step that begins to wait see each other's open transactions."""
    for round in range(3):
        AMOUNTS.clear()
        key = f"round-{round}"
        publishers = [
            lambda first=first, key=key: [publish(alias, n, key=key, ttl="PT1H") for n in range(first, first + 5)]
            for first in (0, 5, 10)
        ]
        together(alias, *publishers, lambda key=key: started(alias, key), lambda: look(alias))
        ManualExecutor(alias).run_until_empty()
        publish(alias, 15, key=key)
        ManualExecutor(alias).run_until_empty()
        assert sorted(AMOUNTS) == list(range(16))


@pytest.mark.parametrize("key", ["", "4711"])
def test_each_message_starts_an_instance_also_without_a_key(alias, run_jobs, key):
    begin = f'<startEvent id="s">{EVENT}</startEvent><sequenceFlow id="f" sourceRef="s" targetRef="a"/>'
    deploy(("order.bpmn", xml(begin + '<userTask id="a"/>', before='<message id="m" name="paid"/>')), using=alias)
    for number in (1, 2):
        given = {"variables": {"number": number}, "ttl": timedelta(seconds=60)}
        publish_external_message(alias, "paid", key, **given)
    run_jobs()
    rows = ProcessInstance.objects.using(alias).filter(state="active")
    assert sorted(Variable.objects.using(alias).values_list("value", flat=True)) == [1, 2]
    assert rows.count() == 2


def test_a_message_without_a_key_reaches_no_job(alias, handle, run_jobs):
    job = handle(lambda: None, name="tests.waits").using(database=alias)
    job.using(wait_for=("paid", "1")).enqueue()
    job.enqueue()  # waits for nothing
    publish_external_message(alias, "paid", "", variables={}, ttl=timedelta(0))
    run_jobs()
    assert Job.objects.using(alias).count() + BlockedJob.objects.using(alias).count() == 1
