"""BPMN files from their deployment to the end of their instances."""

import html
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections

from jobexec import publish_message
from jobexec.exceptions import DuplicateHandler, InvalidJob, JobNotFound
from jobexec.handlers.context import current_job
from jobexec.models import (
    BlockedJob,
    DeadLetterJob,
    ExternalWorkerJob,
    FailureGroup,
    Incident,
    Job,
    JobDefinition,
    JobLog,
    TimerJob,
)
from jobexec.operations import requeue, retry_now
from jobexec.operations.external.fetch import activate_jobs
from jobexec.operations.external.settle import complete_external_job, fail_external_job
from jobexec.operations.external.throw_error import throw_external_error
from jobexec.operations.external.types import Fetch
from jobexec.processes.definition import InvalidProcess
from jobexec.processes.engine.exceptions import BpmnError, StepError
from jobexec.processes.exceptions import InstanceOver, MismatchingMessage, UnknownProcess
from jobexec.processes.handlers.registry import function, listener, service_task
from jobexec.processes.models import (
    EventSubscription,
    Execution,
    ProcessDefinition,
    ProcessInstance,
    ProcessResource,
    UserTask,
    Variable,
)
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.events import correlate, signal
from jobexec.processes.operations.instances import cancel, set_retries, set_variables
from jobexec.processes.operations.start import start
from jobexec.processes.operations.user_tasks import complete
from jobexec.testing import ManualExecutor, controlled_clock
from tests.processes.support.bpmn import around, process
from tests.processes.support.rows import assert_nothing_is_left, elements, final, state

pytest.importorskip("lxml")

DONE = []


@pytest.fixture(autouse=True)
def done():
    DONE.clear()


@service_task("tests.bpmn.note", aliases=["org.acme.Note"])
def note(context):
    DONE.append(context.element_id)


@service_task("tests.bpmn.sell")
def sell(context):
    if context.variables["stock"] < 1:
        raise BpmnError("OUT_OF_STOCK", "nothing left")
    context.variables["parcel"] = 17


@service_task("tests.bpmn.broken")
def broken(context):
    raise ValueError("broken")


@function("tests.twice")
def twice(number):
    return number * 2


@function("tests.pause")
def pause():
    return timedelta(days=1)


@listener("tests.bpmn.audit")
def audit(context):
    DONE.append(f"{context.event} {context.element_id}")


NAMESPACES = (
    'xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:camunda="http://camunda.org/schema/1.0/bpmn" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:jobexec="urn:jobexec:bpmn" '
    'xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" '
    'targetNamespace="tests"'
)


def xml(body, before="", key="order", attributes=""):
    process = f'<process id="{key}" isExecutable="true" {attributes}>{body}</process>'
    return f'<?xml version="1.0"?><definitions {NAMESPACES}>{before}{process}</definitions>'.encode()


def flows(*pairs):
    return "".join(f'<sequenceFlow id="f{n}" sourceRef="{a}" targetRef="{b}"/>' for n, (a, b) in enumerate(pairs))


def deployed(alias, *args, **kwargs):
    return deploy(("order.bpmn", xml(*args, **kwargs)), using=alias)


def note_task(id, attributes=""):
    return f'<serviceTask id="{id}" camunda:delegateExpression="${{tests.bpmn.note}}" {attributes}/>'


def test_what_is_not_asynchronous_runs_in_the_callers_transaction(alias):
    deployed(alias, '<startEvent id="s"/>' + note_task("a") + '<endEvent id="e"/>' + flows(("s", "a"), ("a", "e")))
    instance = start("order", using=alias)
    assert (DONE, instance.state) == (["a"], "completed")


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16", "ISO-8859-1"])
def test_the_text_of_a_file_is_stored_as_utf_8(alias, encoding):
    text = xml('<startEvent id="s" name="größer"/>').decode().replace('"?>', f'" encoding="{encoding}"?>')
    for _ in range(2):  # a file that has not changed makes no new version
        deploy(("order.bpmn", text.encode(encoding)), using=alias)
    assert ProcessResource.objects.using(alias).get().text == text.replace(encoding, "UTF-8")


def test_a_message_that_is_thrown_needs_no_name(alias):
    sent = '<messageEventDefinition camunda:delegateExpression="${tests.bpmn.note}"/>'
    body = f'<intermediateThrowEvent id="m">{sent}</intermediateThrowEvent><endEvent id="e">{sent}</endEvent>'
    deployed(alias, '<startEvent id="s"/>' + body + flows(("s", "m"), ("m", "e")))
    assert (start("order", using=alias).state, DONE) == ("completed", ["m", "e"])


def variables(alias, scope):
    return dict(Variable.objects.using(alias).filter(scope_id=scope).values_list("name", "value"))


LOCAL = (
    '<extensionElements><camunda:inputOutput><camunda:inputParameter name="a">1</camunda:inputParameter>'
    "</camunda:inputOutput>{}</extensionElements>"
)
LOCAL_INS = '<camunda:in source="a" target="b" local="true"/><camunda:in source="n" target="m" local="true"/>'


@pytest.mark.parametrize("passed", [LOCAL_INS, '<camunda:in variables="all" local="true"/>'], ids=["names", "all"])
def test_what_is_passed_locally_is_of_the_element_itself(alias, passed):
    """``n`` is a variable of the process, ``a`` one of the element that calls, or throws."""
    child = '<process id="child" isExecutable="true"><startEvent id="t"/><userTask id="u"/>{}</process>'
    signal = (
        f'<signalEventDefinition signalRef="g"><extensionElements>{passed}</extensionElements></signalEventDefinition>'
    )
    body = (
        '<startEvent id="s"/><callActivity id="c" calledElement="child">'
        + LOCAL.format(passed)
        + f'</callActivity><endEvent id="e">{LOCAL.format("")}{signal}</endEvent>'
        '<subProcess id="h" triggeredByEvent="true"><startEvent id="got" isInterrupting="false">'
        '<signalEventDefinition signalRef="g"/></startEvent><userTask id="after"/>'
        '<sequenceFlow id="z" sourceRef="got" targetRef="after"/></subProcess>'
    )
    flow = '<sequenceFlow id="y" sourceRef="t" targetRef="u"/>'
    deployed(alias, body + flows(("s", "c"), ("c", "e")), before=child.format(flow) + '<signal id="g" name="go"/>')
    expected = {"b": "1", "m": None} if passed == LOCAL_INS else {"a": "1"}
    start("order", variables={"n": 5}, using=alias)
    called = ProcessInstance.objects.using(alias).get(definition_key="child")
    assert variables(alias, called.pk) == expected
    complete(UserTask.objects.using(alias).get())
    assert variables(alias, UserTask.objects.using(alias).get().instance_id) == {"n": 5, **expected}


def fork(extra=""):
    asynchronous = 'camunda:asyncBefore="true"'
    return (
        '<startEvent id="s"/><parallelGateway id="fork"/>'
        + "".join(note_task(id, asynchronous + extra) for id in ("hotel", "flight", "ticket"))
        + '<parallelGateway id="join"/>'
        + note_task("bill")
        + '<endEvent id="e"/>'
        + flows(
            ("s", "fork"),
            *(("fork", id) for id in ("hotel", "flight", "ticket")),
            *((id, "join") for id in ("hotel", "flight", "ticket")),
            ("join", "bill"),
            ("bill", "e"),
        )
    )


def test_a_condition_calls_a_function_of_the_project(alias):
    deployed(
        alias,
        '<startEvent id="s"/><exclusiveGateway id="x" default="low"/>'
        + note_task("cheap")
        + note_task("dear")
        + '<sequenceFlow id="low" sourceRef="x" targetRef="cheap"/>'
        '<sequenceFlow id="high" sourceRef="x" targetRef="dear"><conditionExpression '
        'xsi:type="tFormalExpression">${tests.twice(amount) &gt; 100}</conditionExpression></sequenceFlow>'
        + flows(("s", "x")),
    )
    start("order", variables={"amount": 51}, using=alias)
    assert DONE == ["dear"]


@pytest.mark.gate
def test_a_failing_task_is_tried_again_and_becomes_an_incident_at_its_element(alias, run_jobs):
    deployed(
        alias,
        '<startEvent id="s"/><serviceTask id="pay" camunda:asyncBefore="true" camunda:delegateExpression='
        '"${tests.bpmn.broken}"><extensionElements><camunda:failedJobRetryTimeCycle>R2/PT0S'
        '</camunda:failedJobRetryTimeCycle></extensionElements></serviceTask><endEvent id="e"/>'
        + flows(("s", "pay"), ("pay", "e")),
    )
    instance = start("order", using=alias)
    run_jobs()
    dead = DeadLetterJob.objects.using(alias).get()
    assert (dead.attempts, dead.failed_activity_id, dead.exception_message) == (2, "pay", "ValueError: broken")
    incident = Incident.objects.using(alias).get()
    assert (incident.failed_activity_id, incident.process_instance_id) == ("pay", str(instance.pk))
    assert elements(alias) == ["pay"]


@pytest.mark.gate
def test_an_error_takes_the_way_of_the_event_that_catches_it(alias, run_jobs):
    body = (
        '<startEvent id="s"/><serviceTask id="sell" camunda:asyncBefore="true" camunda:delegateExpression='
        '"${tests.bpmn.sell}"/><boundaryEvent id="out" attachedToRef="sell"><errorEventDefinition errorRef="oos"/>'
        "</boundaryEvent>"
        + note_task("order_more")
        + '<endEvent id="e"/>'
        + flows(("s", "sell"), ("sell", "e"), ("out", "order_more"))
    )
    deployed(alias, body, before='<error id="oos" errorCode="OUT_OF_STOCK"/>')
    good = start("order", variables={"stock": 1}, using=alias)
    start("order", variables={"stock": 0}, using=alias)
    run_jobs()
    assert final(alias, good) == {"stock": 1, "parcel": 17}
    assert DONE == ["order_more"]
    assert_nothing_is_left(alias)


@pytest.mark.gate
def test_an_error_that_nobody_catches_is_an_incident_that_can_be_retried(alias, run_jobs):
    deployed(
        alias,
        '<startEvent id="s"/><serviceTask id="sell" camunda:asyncBefore="true" camunda:delegateExpression='
        '"${tests.bpmn.sell}"/><endEvent id="e"/>' + flows(("s", "sell"), ("sell", "e")),
    )
    instance = start("order", variables={"stock": 0}, using=alias)
    run_jobs()
    incident = Incident.objects.using(alias).get()
    assert (incident.type, incident.failed_activity_id) == ("unhandledError", "sell")
    set_variables(instance, {"stock": 3}, using=alias)
    requeue(DeadLetterJob.objects.using(alias).get())
    run_jobs()
    assert state(alias, instance) == "completed"
    assert_nothing_is_left(alias)


@service_task("tests.bpmn.far")
def far(context):
    """Says what it sees outside of the step: variables, fields, and that no transaction is open."""
    DONE.append((context.element_id, context.arguments, connections[context.job.using].in_atomic_block))
    if context.variables["amount"] > 9:
        raise BpmnError("TOO_MUCH", "no", {"limit": 9})
    if context.variables["amount"] < 0:
        raise ValueError("no amount")
    context.variables["seen"] = context.variables["amount"]
    return {"receipt": "r1"}


@service_task("tests.bpmn.far_async")
async def far_async(context):
    return {"receipt": context.business_key}


def outside(name="far", extra=""):
    return (
        f'<startEvent id="s"/><serviceTask id="pay" jobexec:transaction="outside" {extra} '
        f'camunda:delegateExpression="${{tests.bpmn.{name}}}"><extensionElements><camunda:field name="currency" '
        'stringValue="EUR"/><camunda:failedJobRetryTimeCycle>R2/PT0S</camunda:failedJobRetryTimeCycle>'
        '</extensionElements></serviceTask><boundaryEvent id="refused" attachedToRef="pay"><errorEventDefinition '
        'errorRef="e1"/></boundaryEvent><endEvent id="e"/><endEvent id="no"/>'
        + flows(("s", "pay"), ("pay", "e"), ("refused", "no"))
    )


TOO_MUCH = '<error id="e1" errorCode="TOO_MUCH"/>'


def run_outside(alias, run_jobs, name="far", extra="", **variables):
    deployed(alias, outside(name, extra), before=TOO_MUCH)
    instance = start("order", business_key="4711", variables=variables, using=alias)
    assert DONE == []
    run_jobs()
    return ProcessInstance.objects.using(alias).get(pk=instance.pk)


@pytest.mark.transactional
def test_a_service_task_outside_runs_in_a_job_without_a_transaction(alias, run_jobs):
    row = run_outside(alias, run_jobs, amount=5)
    assert DONE == [("pay", {"currency": "EUR"}, False)]
    assert (row.end_element, row.final_variables) == ("e", {"amount": 5, "seen": 5, "receipt": "r1"})
    assert_nothing_is_left(alias)


@pytest.mark.gate
def test_a_service_task_outside_may_be_a_coroutine_and_have_a_result_variable(alias, run_jobs):
    row = run_outside(alias, run_jobs, "far_async", 'camunda:resultVariable="answer" camunda:asyncBefore="true"')
    assert row.final_variables == {"answer": {"receipt": "4711"}}


def test_the_limit_of_a_tenant_holds_for_a_service_task_outside(alias, run_jobs, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "RESOURCES": {"tenant:acme": {"limit": 1}}}
    deploy(("order.bpmn", xml(outside(), before=TOO_MUCH)), tenant_id="acme", using=alias)
    start("order", variables={"amount": 5}, tenant_id="acme", using=alias)
    assert BlockedJob.objects.using(alias).get().resource == "tenant:acme"
    run_jobs()
    assert len(DONE) == 1


@service_task("tests.bpmn.apart", aliases=["org.acme.Apart"], transaction=False, timeout="PT30S")
def apart(context):
    DONE.append((context.element_id, current_job().work.timeout, connections[context.job.using].in_atomic_block))
    return {"receipt": "r2"}


@pytest.mark.transactional
@pytest.mark.parametrize("name", ["${tests.bpmn.apart}", "org.acme.Apart"])
def test_a_service_task_may_say_itself_that_it_runs_without_a_transaction(alias, run_jobs, name):
    task = f'<serviceTask id="pay" camunda:{"class" if "org" in name else "delegateExpression"}="{name}"/>'
    deployed(alias, f'<startEvent id="s"/>{task}<endEvent id="e"/>' + flows(("s", "pay"), ("pay", "e")))
    row = start("order", using=alias)
    assert DONE == []
    assert JobDefinition.objects.using(alias).filter(pk="order#pay#run").exists()
    run_jobs()
    assert [("pay", timedelta(seconds=30), False)] == DONE
    assert final(alias, row) == {"receipt": "r2"}
    assert_nothing_is_left(alias)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"transaction": "outside"}, ValueError, "transaction: expected True or False, got 'outside'"),
        ({"timeout": 5}, ValueError, "timeout: expected transaction=False"),
        ({"transaction": False, "timeout": "soon"}, InvalidJob, "timeout"),
    ],
)
def test_wrong_options_of_a_service_task(options, error, words):
    with pytest.raises(error, match=words):
        service_task("tests.bpmn.wrong", **options)


def test_an_error_of_a_service_task_outside_is_caught(alias, run_jobs):
    row = run_outside(alias, run_jobs, amount=10)
    assert (row.end_element, row.final_variables) == ("no", {"amount": 10, "limit": 9})
    assert_nothing_is_left(alias)


@pytest.mark.gate
def test_a_failing_service_task_outside_is_an_incident_and_is_repaired(alias, run_jobs):
    row = run_outside(alias, run_jobs, amount=-1)
    dead = DeadLetterJob.objects.using(alias).get()
    assert (dead.handler_type, dead.failed_activity_id, dead.attempts) == ("step:tests.bpmn.far", "pay", 2)
    set_variables(row, {"amount": 1}, using=alias)
    requeue(dead)
    run_jobs()
    assert final(alias, row) == {"amount": 1, "seen": 1, "receipt": "r1"}


IBAN, TOKEN = "DE89370400440532013000", "token-7f3a9"


@service_task("tests.bpmn.tells")
@service_task("tests.bpmn.tells_outside", transaction=False)
def tells(context):
    if context.variables.get("how") == "uncaught":
        raise BpmnError("REFUSED", f"the bank refused {context.variables['iban']}")
    try:
        raise KeyError(context.variables["api_token"])
    except KeyError as error:
        raise ValueError(f"the bank refused {context.variables['iban']}") from error


@function("tests.bpmn.quote")
def quote(iban):
    raise ValueError(f"no account {iban!r}")


@service_task("tests.bpmn.tells_later", transaction=False)
async def tells_later(context):
    tells(context)


@pytest.mark.parametrize(
    ("task", "extra"),
    [
        ('camunda:delegateExpression="${tests.bpmn.tells}"', {}),
        ('camunda:delegateExpression="${tests.bpmn.tells}"', {"how": "uncaught"}),
        ('camunda:delegateExpression="${tests.bpmn.tells}" camunda:exclusive="false"', {}),
        ('camunda:delegateExpression="${tests.bpmn.tells_outside}"', {}),
        ('camunda:delegateExpression="${tests.bpmn.tells_outside}"', {"how": "uncaught"}),
        ('camunda:delegateExpression="${tests.bpmn.tells_later}"', {}),
        ('camunda:expression="${iban - 1}"', {}),
        ('camunda:expression="${tests.bpmn.quote(iban)}"', {}),
    ],
)
@pytest.mark.transactional
def test_failures_do_not_quote_sensitive_variables(alias, run_jobs, settings, caplog, task, extra):
    """The arguments of the jobs are ids; what they read are variables."""
    settings.JOBEXEC = {**settings.JOBEXEC, "PROCESSES": {"SENSITIVE": ["iban"]}}
    retries = "<camunda:failedJobRetryTimeCycle>R1/PT0S</camunda:failedJobRetryTimeCycle>"
    body = (
        f'<startEvent id="s"/><serviceTask id="a" camunda:asyncBefore="true" {task}><extensionElements>{retries}'
        '</extensionElements></serviceTask><endEvent id="e"/>' + flows(("s", "a"), ("a", "e"))
    )
    deployed(alias, body)
    start("order", variables={"iban": IBAN, "api_token": TOKEN, **extra}, using=alias)
    run_jobs()
    dead = DeadLetterJob.objects.using(alias).get()
    incident = Incident.objects.using(alias).get()
    logged = JobLog.objects.using(alias).values_list("exception_message", "exception_stack")
    texts = [dead.exception_message, dead.exception_stack, incident.message, *(text for row in logged for text in row)]
    assert "●●●" in dead.exception_message
    assert [text for text in [*texts, caplog.text] if IBAN in text or TOKEN in text] == []
    assert FailureGroup.objects.using(alias).filter(pk=dead.fingerprint).exists() or not dead.handler_type.endswith(
        "retry"
    )


@pytest.mark.parametrize(
    ("dialect", "element"),
    [
        ("zeebe", '<scriptTask id="x">{}</scriptTask>=assert(1, false, "bad " + iban)'),
        ("zeebe", '<scriptTask id="x">{}</scriptTask>=matches("a", "(" + iban)'),
        ("camunda", '<userTask id="x" camunda:priority="${iban}"/>'),
        ("camunda", '<userTask id="x" camunda:dueDate="${card.iban}"/>'),
        ("camunda", '<task id="x" camunda:asyncBefore="true" camunda:jobPriority="${iban}"/>'),
        ("camunda", '<callActivity id="x" calledElement="${iban}"/>'),
        (
            "camunda",
            '<task id="x"><multiInstanceLoopCharacteristics><loopCardinality>${iban}</loopCardinality>'
            "</multiInstanceLoopCharacteristics></task>",
        ),
    ],
)
def test_errors_to_callers_do_not_quote_sensitive_variables(alias, settings, dialect, element):
    settings.JOBEXEC = {**settings.JOBEXEC, "PROCESSES": {"SENSITIVE": ["iban"]}}
    element, _, expression = element.partition("</scriptTask>")
    if expression:
        script = f'<zeebe:script expression="{html.escape(expression)}" resultVariable="found"/>'
        element = element.format(f"<extensionElements>{script}</extensionElements>") + "</scriptTask>"
    deploy(("p.bpmn", process(around(element, leaves=False), dialect)), using=alias)
    with pytest.raises((StepError, UnknownProcess)) as caught:
        start("p", variables={"iban": IBAN, "card": {"iban": IBAN}}, using=alias)
    assert IBAN not in str(caught.value)
    assert "●●●" in str(caught.value)


def test_an_expression_of_a_call_is_that_of_the_caller(alias):
    out = '<camunda:out sourceExpression="${a + 1}" target="b"/>'
    call = f'<callActivity id="x" calledElement="c"><extensionElements>{out}</extensionElements></callActivity>'
    deploy(("c.bpmn", process('<startEvent id="s"/>').replace(b'"p"', b'"c"')), using=alias)
    deploy(("p.bpmn", process(around(call))), using=alias)
    with pytest.raises(StepError, match=r"^x: .*there is no variable 'a'"):
        start("p", using=alias)


def test_what_is_sensitive_inside_of_a_variable_is_not_kept_either(alias, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "PROCESSES": {"SENSITIVE": ["iban"]}}
    deploy(("p.bpmn", process('<startEvent id="s"/>')), using=alias)
    instance = start("p", variables={"iban": IBAN, "cards": [{"my_iban": IBAN, "bank": "x"}]}, using=alias)
    expected = {"iban": "●●●", "cards": [{"my_iban": "●●●", "bank": "x"}]}
    assert ProcessInstance.objects.using(alias).get(pk=instance.pk).final_variables == expected


def test_a_service_task_outside_whose_instance_is_cancelled_meanwhile(alias, run_jobs):
    deployed(alias, outside(), before=TOO_MUCH)
    instance = start("order", variables={"amount": 1}, using=alias)
    cancel(instance)
    run_jobs()
    assert DONE == []


def test_a_file_names_service_tasks_and_no_jobs(alias):
    body = '<startEvent id="s"/><serviceTask id="a" camunda:class="jobexec.processes.timer"/>' + flows(("s", "a"))
    with pytest.raises(InvalidProcess, match=r"a: No service task 'jobexec\.processes\.timer' is registered"):
        deployed(alias, body)


EXTERNAL = (
    '<startEvent id="s"/><serviceTask id="pay" camunda:type="external" camunda:topic="charge"/><endEvent id="e"/>'
    + flows(("s", "pay"), ("pay", "e"))
)


def test_an_external_worker_carries_the_process_on(alias, run_jobs):
    deployed(alias, EXTERNAL)
    instance = start("order", variables={"amount": 5}, using=alias)
    job = ExternalWorkerJob.objects.using(alias).get()
    assert (job.handler_type, job.handler_configuration["variables"]) == ("charge", {"amount": 5})
    complete_external_job(alias, job.job_key, {"receipt": "r1"})
    run_jobs()
    assert state(alias, instance) == "completed"
    assert final(alias, instance) == {"amount": 5, "receipt": "r1"}
    assert_nothing_is_left(alias)


ENDS = {
    "completes": lambda alias, key: complete_external_job(alias, key, {"receipt": "r1"}, worker="w"),
    "fails": lambda alias, key: fail_external_job(alias, key, retries=0, message="no", worker="w"),
    "throws": lambda alias, key: throw_external_error(alias, key, code="NO_MONEY", worker="w"),
}


@pytest.mark.every_database
@pytest.mark.transactional
@pytest.mark.parametrize("end", ENDS)
def test_an_instance_is_cancelled_while_a_worker_has_its_job(alias, run_jobs, end):
    """The job goes although the worker holds it, and its answer is that the job is not there any more."""
    deployed(alias, EXTERNAL)
    instance = start("order", variables={"amount": 5}, using=alias)
    (held,) = activate_jobs(alias, Fetch(type="charge", worker="w", timeout=timedelta(minutes=5)))
    assert ExternalWorkerJob.objects.using(alias).get().lock_owner == "w"
    cancel(instance, "changed my mind")
    assert_nothing_is_left(alias)
    with pytest.raises(JobNotFound):
        ENDS[end](alias, held.key)
    run_jobs()
    found = ProcessInstance.objects.using(alias).get()
    assert (found.state, found.final_variables) == ("cancelled", {"amount": 5})
    assert not Incident.objects.using(alias).exists()
    assert_nothing_is_left(alias)


@pytest.mark.parametrize("throws", [False, True], ids=["it completes its job", "it throws an error"])
def test_the_limit_of_a_tenant_holds_back_the_jobs_of_workers_but_not_their_processes(
    alias, run_jobs, settings, throws
):
    settings.JOBEXEC = {**settings.JOBEXEC, "RESOURCES": {"tenant:*": {"limit": 1}}}
    deploy(("order.bpmn", xml(EXTERNAL)), tenant_id="acme", using=alias)
    for _ in range(2):
        start("order", tenant_id="acme", using=alias)
    run_jobs()
    job = ExternalWorkerJob.objects.using(alias).get()
    assert BlockedJob.objects.using(alias).get().resource == job.resource == "tenant:acme"
    if throws:
        throw_external_error(alias, job.job_key, code="NO_MONEY")
    else:
        complete_external_job(alias, job.job_key, {})
    assert Job.objects.using(alias).get(pk=job.pk).resource is None
    run_jobs()
    row = ProcessInstance.objects.using(alias).get(pk=job.process_instance_id)
    assert (row.state, Incident.objects.using(alias).count()) == (("active", 1) if throws else ("completed", 0))
    assert ExternalWorkerJob.objects.using(alias).exclude(pk=job.pk).get().tenant_id == "acme"


def test_the_plan_of_a_file_says_how_often_a_worker_may_fail_and_not_when(alias):
    cycle = "<camunda:failedJobRetryTimeCycle>R5/PT1H</camunda:failedJobRetryTimeCycle>"
    within = f"<extensionElements>{cycle}</extensionElements></serviceTask>"
    deployed(alias, EXTERNAL.replace('topic="charge"/>', f'topic="charge">{within}'))
    start("order", using=alias)
    job = ExternalWorkerJob.objects.using(alias).get()
    assert job.retries == 5
    fail_external_job(alias, job.job_key, retries=4)
    assert ExternalWorkerJob.objects.using(alias).get().available_at is None


HELD = (
    '<startEvent id="s"/><parallelGateway id="fork"/><serviceTask id="a" camunda:type="external" camunda:topic="one"/>'
    '<serviceTask id="b" camunda:type="external" camunda:topic="two"/><serviceTask id="c" camunda:asyncBefore="true" '
    'camunda:delegateExpression="${tests.bpmn.note}"/><boundaryEvent id="late" attachedToRef="a">'
    "<timerEventDefinition><timeDuration>PT1M</timeDuration></timerEventDefinition></boundaryEvent>"
    '<boundaryEvent id="told" attachedToRef="b"><messageEventDefinition messageRef="m"/></boundaryEvent>'
    + flows(("s", "fork"), ("fork", "a"), ("fork", "b"), ("fork", "c"))
)


@pytest.mark.every_database
@pytest.mark.transactional
def test_nothing_waits_for_a_job_that_a_worker_holds(alias):
    """As in Camunda 7 and Zeebe, whatever the model says of its exclusive jobs: a worker may hold one for hours."""
    deployed(alias, HELD, before='<message id="m" name="told"/>')
    with controlled_clock() as time:
        instance = start("order", using=alias)
        for topic in ("one", "two"):
            assert activate_jobs(alias, Fetch(type=topic, worker="w", timeout=timedelta(hours=10)))
        held = dict(ExternalWorkerJob.objects.using(alias).values_list("handler_type", "job_key"))
        ManualExecutor(alias).run_due()
        assert DONE == ["c"], "the other branch"
        correlate("told", instance=instance, using=alias)
        time.advance(timedelta(minutes=2))
        ManualExecutor(alias).run_due()
    assert not Execution.objects.using(alias).exists(), "the timer and the message have interrupted their tasks"
    for key in held.values():
        with pytest.raises(JobNotFound):
            complete_external_job(alias, key, {"late": True}, worker="w")


@pytest.mark.parametrize("how", ["the worker's job", "the step after it"])
def test_the_incident_of_a_worker_is_at_its_element(alias, run_jobs, how):
    no_way = '<sequenceFlow id="no" sourceRef="pay" targetRef="e"><conditionExpression>${false}</conditionExpression>'
    body = '<startEvent id="s"/><serviceTask id="pay" camunda:type="external" camunda:topic="charge"/>'
    body += '<endEvent id="e"/>' + flows(("s", "pay")) + no_way + "</sequenceFlow>"
    deployed(alias, body)
    instance = start("order", using=alias)
    (job,) = activate_jobs(alias, Fetch(type="charge", worker="w", timeout=timedelta(minutes=5)))
    if how == "the worker's job":
        fail_external_job(alias, job.key, retries=0, message="no", worker="w")
    else:
        complete_external_job(alias, job.key, {}, worker="w")
        with controlled_clock() as time:
            for _ in range(5):
                run_jobs()
                time.advance(timedelta(days=1))
    assert DeadLetterJob.objects.using(alias).get().failed_activity_id == "pay"
    assert Incident.objects.using(alias).get().failed_activity_id == "pay"
    assert set_retries(instance, 1, element="e", using=alias) == 0
    assert set_retries(instance, 1, element="pay", using=alias) == 1


def test_the_incident_of_a_signal_is_at_the_element_that_waits(alias, run_jobs):
    body = (
        '<startEvent id="s"/><intermediateCatchEvent id="wait"><signalEventDefinition signalRef="g"/>'
        '</intermediateCatchEvent><serviceTask id="a" camunda:delegateExpression="${tests.bpmn.broken}"/>'
        + flows(("s", "wait"), ("wait", "a"))
    )
    deployed(alias, body, before='<signal id="g" name="news"/>')
    instance = start("order", using=alias)
    signal("news", using=alias)
    with controlled_clock() as time:
        for _ in range(5):
            run_jobs()
            time.advance(timedelta(days=1))
    assert DeadLetterJob.objects.using(alias).get().failed_activity_id == "wait"
    assert set_retries(instance, 1, element="wait", using=alias) == 1


@pytest.mark.parametrize(("payload", "expected"), [(None, "mine"), ({}, "mine"), ([1], [1]), ({"payload": 2}, 2)])
def test_a_message_without_a_payload_sets_no_variable(alias, run_jobs, payload, expected):
    body = (
        '<startEvent id="s"/><intermediateCatchEvent id="wait"><messageEventDefinition messageRef="m"/>'
        '</intermediateCatchEvent><userTask id="a"/>' + flows(("s", "wait"), ("wait", "a"))
    )
    subscription = '<extensionElements><zeebe:subscription correlationKey="=key"/></extensionElements>'
    deployed(alias, body, before=f'<message id="m" name="paid">{subscription}</message>')
    instance = start("order", variables={"key": "4711", "payload": "mine"}, using=alias)
    publish_message("paid", key="4711", payload=payload, using=alias)
    run_jobs()
    assert UserTask.objects.using(alias).get().element_id == "a"
    assert Variable.objects.using(alias).get(instance_id=instance.pk, name="payload").value == expected


def test_of_what_a_worker_sends_only_the_outputs_of_zeebe_leave_its_task(alias, run_jobs):
    task = EXTERNAL.replace(
        'topic="charge"/>',
        'topic="charge"><extensionElements><zeebe:ioMapping><zeebe:input source="=order.total" target="bill.amount"/>'
        '<zeebe:output source="=status" target="payment"/><zeebe:output source="=receipt" target="order.receipt"/>'
        "</zeebe:ioMapping></extensionElements></serviceTask>",
    )
    deployed(alias, task)
    instance = start("order", variables={"status": "new", "order": {"total": 5}}, using=alias)
    (job,) = activate_jobs(alias, Fetch(type="charge", worker="w", timeout=timedelta(minutes=5)))
    assert job.variables == {"bill": {"amount": 5}}
    complete_external_job(alias, job.key, {"status": "paid", "receipt": "r1"}, worker="w")
    run_jobs()
    order = {"total": 5, "receipt": "r1"}
    assert final(alias, instance) == {"status": "new", "payment": "paid", "order": order}


def test_what_a_worker_did_not_send_is_not_written_back(alias, run_jobs):
    deployed(alias, EXTERNAL)
    instance = start("order", variables={"amount": 5}, using=alias)
    set_variables(instance, {"amount": 6}, using=alias)
    complete_external_job(alias, ExternalWorkerJob.objects.using(alias).get().job_key, {})
    run_jobs()
    assert final(alias, instance) == {"amount": 6}


def test_an_error_of_a_worker_that_nobody_catches_is_an_incident_at_its_element(alias, run_jobs):
    deployed(alias, EXTERNAL)
    instance = start("order", using=alias)
    throw_external_error(alias, ExternalWorkerJob.objects.using(alias).get().job_key, code="NO_MONEY")
    run_jobs()
    assert Incident.objects.using(alias).get().failed_activity_id == "pay"
    requeue(DeadLetterJob.objects.using(alias).get())
    run_jobs()
    complete_external_job(alias, ExternalWorkerJob.objects.using(alias).get().job_key, {})
    run_jobs()
    assert state(alias, instance) == "completed"


@service_task("tests.bpmn.poor", transaction=False)
def poor(context):
    raise BpmnError("NO_MONEY")


@pytest.mark.transactional
@pytest.mark.parametrize("caught", [False, True], ids=["an incident", "it is caught"])
@pytest.mark.parametrize("by", ["worker", "handler"])
@pytest.mark.parametrize("event", ["intermediateThrowEvent", "endEvent"])
def test_an_error_of_a_message_that_is_thrown(alias, run_jobs, event, by, caught):
    work = {"worker": 'camunda:type="external" camunda:topic="send"', "handler": 'camunda:class="tests.bpmn.poor"'}
    inner = (
        f'<subProcess id="sub"><startEvent id="s2"/><{event} id="pay"><messageEventDefinition messageRef="m" {work[by]}'
        f'/></{event}><sequenceFlow id="g1" sourceRef="s2" targetRef="pay"/></subProcess><userTask id="b"/>'
    )
    if caught:
        inner += '<boundaryEvent id="late" attachedToRef="sub"><errorEventDefinition/></boundaryEvent>'
    pairs = [("s", "sub"), ("sub", "b"), *([("late", "b")] if caught else [])]
    deployed(alias, f'<startEvent id="s"/>{inner}' + flows(*pairs), before=MESSAGE)
    start("order", using=alias)
    run_jobs()
    if by == "worker":
        throw_external_error(alias, ExternalWorkerJob.objects.using(alias).get().job_key, code="NO_MONEY")
        run_jobs()
    incidents = list(Incident.objects.using(alias).values_list("failed_activity_id", flat=True))
    assert (elements(alias), incidents) == ((["b"], []) if caught else (["pay", "sub"], ["pay"]))


MESSAGE = '<message id="m" name="paid"/>'
RECEIVE = '<startEvent id="s"/><receiveTask id="wait" messageRef="m"/><endEvent id="e"/>' + flows(
    ("s", "wait"), ("wait", "e")
)


def test_a_message_reaches_the_one_that_waits(alias):
    deployed(alias, RECEIVE, before=MESSAGE)
    first, second = (start("order", business_key=key, using=alias) for key in ("a", "b"))
    with pytest.raises(MismatchingMessage, match="2 do"):
        correlate("paid", using=alias)
    correlate("paid", business_key="a", variables={"amount": 9}, using=alias)
    assert (state(alias, first), state(alias, second)) == ("completed", "active")
    assert final(alias, first) == {"amount": 9}
    with pytest.raises(MismatchingMessage, match="0 do"):
        correlate("paid", business_key="a", using=alias)


def test_a_message_starts_an_instance_of_the_latest_version(alias):
    body = '<startEvent id="s"><messageEventDefinition messageRef="m"/></startEvent>' + note_task("a")
    deployed(alias, body + flows(("s", "a")), before=MESSAGE)
    deployed(alias, body + note_task("b") + flows(("s", "a"), ("a", "b")), before=MESSAGE)
    correlate("paid", business_key="new", using=alias)
    assert DONE == ["a", "b"]
    assert ProcessInstance.objects.using(alias).get().business_key == "new"


@pytest.mark.gate
def test_a_signal_reaches_all(alias, run_jobs):
    body = (
        '<startEvent id="s"/><intermediateCatchEvent id="wait"><signalEventDefinition signalRef="go"/>'
        '</intermediateCatchEvent><endEvent id="e"/>' + flows(("s", "wait"), ("wait", "e"))
    )
    deployed(alias, body, before='<signal id="go" name="go"/>')
    instances = [start("order", using=alias) for _ in range(3)]
    assert signal("go", {"colour": "red"}, using=alias) == 3
    run_jobs()
    assert [final(alias, each) for each in instances] == [{"colour": "red"}] * 3
    assert_nothing_is_left(alias)


@function("tests.bpmn.opening")
def opening(hours):
    return f"PT{hours}H"


@function("tests.bpmn.in_an_hour")
def in_an_hour(moment):
    return moment + timedelta(hours=1)


@pytest.mark.parametrize(
    ("dialect", "kind", "when"),
    [
        ("camunda", "timeDate", "${tests.bpmn.in_an_hour(now())}"),
        ("camunda", "timeDuration", "${tests.bpmn.opening(1)}"),
        ("zeebe", "timeDate", '=now() + duration("PT1H")'),
    ],
)
def test_a_start_timer_may_call_functions(alias, dialect, kind, when):
    body = f'<startEvent id="s"><timerEventDefinition><{kind}>{when}</{kind}></timerEventDefinition></startEvent>'
    with controlled_clock() as time:
        deploy(("p.bpmn", process(body, dialect)), using=alias)
        assert TimerJob.objects.using(alias).get().due_date == time.now + timedelta(hours=1)


def test_a_timer_starts_an_instance_again_and_again(alias, run_jobs):
    with controlled_clock() as clock:
        deployed(
            alias,
            '<startEvent id="s"><timerEventDefinition><timeCycle>R2/PT1H</timeCycle></timerEventDefinition>'
            "</startEvent>" + note_task("a") + flows(("s", "a")),
        )
        for expected in (1, 2, 2):
            clock.advance(3601)
            run_jobs()
            assert len(DONE) == expected
    assert not TimerJob.objects.using(alias).exists()


REMINDS = (
    '<startEvent id="s"/><userTask id="x"/><boundaryEvent id="late" attachedToRef="x" cancelActivity="false">{0}'
    '</boundaryEvent><serviceTask id="a" camunda:delegateExpression="${{{1}}}"/>'
)
STARTS = '<startEvent id="late">{0}</startEvent><serviceTask id="a" camunda:delegateExpression="${{{1}}}"/>'


def cycle(alias, at, text, task="tests.bpmn.note"):
    """A timer that starts instances, or reminds of a user task, and its job."""
    timer = f"<timerEventDefinition><timeCycle>{text}</timeCycle></timerEventDefinition>"
    pairs = [("late", "a")] if at == "process" else [("s", "x"), ("late", "a")]
    deployed(alias, (STARTS if at == "process" else REMINDS).format(timer, task) + flows(*pairs))
    if at == "activity":
        start("order", using=alias)
    return TimerJob.objects.using(alias).get()


def due_dates(alias, zero):
    """In hours; of jobs that are due already, too."""
    found = [row for table in (Job, TimerJob) for row in table.objects.using(alias)]
    return [(row.due_date - zero) / timedelta(hours=1) for row in found]


@pytest.mark.parametrize("at", ["activity", "process"])
def test_a_cycle_goes_on_after_its_timer_was_made_to_run_now(alias, run_jobs, at):
    """That was the time that was planned; the next is the one after it."""
    with controlled_clock(datetime(2026, 1, 1, tzinfo=UTC)) as clock:
        retry_now(cycle(alias, at, "R2/PT1H"))
        run_jobs()
        assert (len(DONE), due_dates(alias, clock.now)) == (1, [2])
        clock.advance(7201)
        run_jobs()
    assert len(DONE) == 2
    assert not TimerJob.objects.using(alias).exists()


@pytest.mark.parametrize(("text", "due"), [("R/PT1H", [4]), ("R3/PT1H", [2])], ids=["endless", "counted"])
@pytest.mark.parametrize("at", ["activity", "process"])
def test_a_cycle_goes_on_after_its_dead_letter_was_requeued(alias, run_jobs, at, text, due):
    """Times that are over are left out, unless the cycle counts them."""
    with controlled_clock(datetime(2026, 1, 1, tzinfo=UTC)) as clock:
        zero = clock.now
        cycle(alias, at, text, "tests.bpmn.unless_done")
        clock.advance(3601)
        run_jobs(advance=True)
        clock.advance(2 * 3600)
        DONE.append("repaired")
        requeue(DeadLetterJob.objects.using(alias).get())
        ManualExecutor(alias).run_due()
        assert due_dates(alias, zero) == due


@pytest.mark.parametrize("at", ["activity", "process"])
def test_a_retry_does_not_shift_a_cycle(alias, at):
    with controlled_clock(datetime(2026, 1, 1, tzinfo=UTC)) as clock:
        zero = clock.now
        cycle(alias, at, "R3/PT1H", "tests.bpmn.unless_done")
        clock.advance(3601)
        executor = ManualExecutor(alias, reraise=False)
        executor.run_due()
        DONE.append("repaired")
        clock.advance(2 * 3600)  # the retry runs late
        executor.run_due()
        assert due_dates(alias, zero) == [2]


@pytest.mark.parametrize("at", ["activity", "process"])
def test_a_timer_that_does_not_say_for_when_it_was_planned_goes_on(alias, run_jobs, at):
    """Its job was made by an earlier version."""
    with controlled_clock(datetime(2026, 1, 1, tzinfo=UTC)) as clock:
        row = cycle(alias, at, "R/PT1H")
        zero, configuration = clock.now, row.handler_configuration
        kwargs = {name: value for name, value in configuration["kwargs"].items() if name != "planned"}
        TimerJob.objects.using(alias).update(handler_configuration={"args": [], "kwargs": kwargs})
        clock.advance(3600)
        run_jobs()
        assert due_dates(alias, zero) == [2]
        clock.advance(1800)
        TimerJob.objects.using(alias).update(handler_configuration={"args": [], "kwargs": kwargs})
        retry_now(TimerJob.objects.using(alias).get())
        run_jobs()
        assert due_dates(alias, zero) == [2.5]
    assert len(DONE) == 2


@service_task("tests.bpmn.unless_done")
def unless_done(context):
    if not DONE:
        raise ValueError("not yet")


@pytest.mark.parametrize("at", ["activity", "process"])
def test_the_jobs_of_a_timer_start_event_have_its_options(alias, settings, at):
    """Each of them, also those that follow in a cycle, whatever became of the one before."""
    settings.JOBEXEC = {**settings.JOBEXEC, "CATEGORIES": ["default", "mail"]}
    plan = "<extensionElements><camunda:failedJobRetryTimeCycle>R7/PT0S</camunda:failedJobRetryTimeCycle>"
    plan += "</extensionElements>"
    timer = "<timerEventDefinition><timeCycle>R2/PT1H</timeCycle></timerEventDefinition></startEvent>"
    of_event = f'<startEvent id="s" camunda:jobPriority="${{2 + 3}}" jobexec:category="mail">{plan}{timer}'
    of_process = f'{plan}<startEvent id="s" jobexec:category="mail">{timer}'
    task = '<serviceTask id="a" camunda:delegateExpression="${tests.bpmn.broken_once}"/>'
    body = (of_event if at == "activity" else of_process) + task + flows(("s", "a"))
    with controlled_clock() as clock:
        deployed(alias, body, attributes='camunda:jobPriority="5"' if at == "process" else "")
        for _ in range(2):
            row = TimerJob.objects.using(alias).get()
            assert (row.priority, row.category, row.retry_plan, row.retries) == (5, "mail", "R7/PT0S", 7)
            DONE.clear()
            clock.advance(3601)
            ManualExecutor(alias, reraise=False).run_until_empty()
            assert DONE == ["failed", "done"]


@service_task("tests.bpmn.broken_once")
def broken_once(context):
    DONE.append("done" if DONE else "failed")
    if DONE == ["failed"]:
        raise ValueError("once")


def test_a_timer_that_runs_while_a_later_version_is_deployed_is_its_last(alias):
    timer = '<startEvent id="s"><timerEventDefinition><timeCycle>R/PT1H</timeCycle></timerEventDefinition></startEvent>'
    with controlled_clock() as clock:
        deployed(alias, timer + note_task("a") + flows(("s", "a")))
        clock.advance(3601)
        executor = ManualExecutor(alias)
        executor.run_timers()
        runs = executor.acquire(1)
        (latest,) = deployed(alias, timer + note_task("b") + flows(("s", "b")))
        executor.run_acquired(runs, [])
    assert len(DONE) == 1
    assert TimerJob.objects.using(alias).get().process_definition_id == latest.pk


def test_a_call_activity_passes_variables(alias, run_jobs):
    deployed(
        alias,
        '<startEvent id="s"/><callActivity id="call" calledElement="child"><extensionElements>'
        '<camunda:in source="amount" target="price"/><camunda:out source="price" target="paid"/>'
        '</extensionElements></callActivity><endEvent id="e"/>' + flows(("s", "call"), ("call", "e")),
    )
    with pytest.raises(UnknownProcess, match="child"):
        start("order", variables={"amount": 5}, using=alias)
    assert not ProcessInstance.objects.using(alias).exists()
    deployed(
        alias,
        '<startEvent id="s"/>' + note_task("inside", 'camunda:asyncBefore="true"') + flows(("s", "inside")),
        key="child",
    )
    instance = start("order", variables={"amount": 5}, using=alias)
    assert ProcessInstance.objects.using(alias).count() == 2
    run_jobs()
    assert final(alias, instance) == {"amount": 5, "paid": 5}
    assert_nothing_is_left(alias)


def test_cancelling_takes_everything_away(alias):
    deployed(alias, fork())
    instance = start("order", using=alias)
    cancel(instance, "changed my mind")
    found = ProcessInstance.objects.using(alias).get()
    assert (found.state, found.delete_reason) == ("cancelled", "changed my mind")
    assert_nothing_is_left(alias)
    with pytest.raises(InstanceOver):
        cancel(instance)


def test_listeners_are_called(alias):
    deployed(
        alias,
        '<startEvent id="s"/><task id="a"><extensionElements>'
        '<camunda:executionListener event="start" delegateExpression="${tests.bpmn.audit}"/>'
        '<camunda:executionListener event="end" delegateExpression="${tests.bpmn.audit}"/>'
        "</extensionElements></task>" + flows(("s", "a")),
    )
    start("order", using=alias)
    assert DONE == ["start a", "end a"]


@listener("tests.bpmn.protest")
def protest(context):
    raise BpmnError("TOO_MUCH")


@pytest.mark.transactional
@pytest.mark.parametrize("amount", [5, 10], ids=["it returns", "it throws"])
def test_a_function_outside_does_not_run_again_for_an_error_of_a_listener_of_the_process(alias, run_jobs, amount):
    """Nothing catches it, as in Camunda, although the task has an event that does catch such errors."""
    extensions = '<camunda:executionListener event="end" delegateExpression="${tests.bpmn.protest}"/>'
    deployed(alias, f"<extensionElements>{extensions}</extensionElements>{outside()}", before=TOO_MUCH)
    instance = start("order", variables={"amount": amount}, using=alias)
    run_jobs()
    assert len(DONE) == 1
    assert state(alias, instance) == "active"
    told = "It has run, but the process cannot continue after it: UncaughtError: order: Nothing catches"
    assert told in Incident.objects.using(alias).get().message


def test_a_file_that_did_not_change_makes_no_version(alias):
    (first,) = deployed(alias, fork())
    assert deployed(alias, fork()) == []
    (second,) = deployed(alias, fork(' camunda:exclusive="false"'))
    assert (first.version, second.version) == (1, 2)
    assert ProcessDefinition.objects.using(alias).count() == 2


def test_a_name_has_one_function():
    with pytest.raises(DuplicateHandler, match=r"tests\.bpmn\.note"):
        service_task("tests.bpmn.note")(lambda context: None)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            '<startEvent id="s"/><serviceTask id="a" camunda:class="org.acme.Gone"/>'
            '<sequenceFlow id="f" sourceRef="s" targetRef="a"/>',
            "a: No service task 'org.acme.Gone'",
        ),
        ('<startEvent id="s"/><startEvent id="t"/>', "another start event"),
        ('<startEvent id="s"/><sequenceFlow id="f" sourceRef="s" targetRef="nowhere"/>', "nowhere"),
        ('<startEvent id="s"/><complexGateway id="c"/>', "c"),
        (
            '<startEvent id="s"/><task id="a" camunda:asyncBefore="true"><extensionElements>'
            "<camunda:failedJobRetryTimeCycle>soon</camunda:failedJobRetryTimeCycle></extensionElements></task>"
            '<sequenceFlow id="f" sourceRef="s" targetRef="a"/>',
            "a: failedJobRetryTimeCycle",
        ),
        (
            '<startEvent id="s"><timerEventDefinition><timeDuration>five</timeDuration></timerEventDefinition>'
            "</startEvent>",
            "s: The timer expects a duration",
        ),
        (
            '<startEvent id="s"/><serviceTask id="a" camunda:expression="${order.delete()}"/>'
            '<sequenceFlow id="f" sourceRef="s" targetRef="a"/>',
            "a: ",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_element(alias, body, told):
    with pytest.raises(InvalidProcess, match=told):
        deployed(alias, body)
    assert not ProcessDefinition.objects.using(alias).exists()


@pytest.mark.parametrize(
    ("due", "days"),
    [
        ("P3D", 3),
        ("-P3D", -3),
        ("${wait}", 2),
        ("${tests.pause()}", 1),
        ("=duration(wait)", 2),
        ("=duration(&quot;PT12H&quot;) * -1", -0.5),
        ("2030-01-31T12:00:00Z", None),
        ("2030-01-31T12:00:00", None),
        ("2030-01-31T13:00:00+01:00[Europe/Berlin]", None),
        ("${at}", None),
        ("=date and time(at)", None),
        ("=@&quot;2030-01-31T13:00:00@Europe/Berlin&quot;", None),
    ],
)
def test_a_task_is_due_at_a_time_or_after_a_duration(alias, due, days):
    deployed(alias, f'<startEvent id="s"/><userTask id="ask" camunda:dueDate="{due}"/>' + flows(("s", "ask")))
    start("order", variables={"wait": "P2D", "at": "2030-01-31T12:00:00+00:00"}, using=alias)
    task = UserTask.objects.using(alias).get()
    expected = datetime(2030, 1, 31, 12, tzinfo=UTC) if days is None else task.create_time + timedelta(days=days)
    assert task.due_date == expected


NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("timer", "value", "expected"),
    [
        ("timeDuration", '=duration("P1M")', datetime(2026, 2, 28, 12, tzinfo=UTC)),
        ("timeDuration", '=@"P1Y" + @"P1M"', datetime(2027, 2, 28, 12, tzinfo=UTC)),
        ("timeDuration", '=@"PT1H" * 1.5', datetime(2026, 1, 31, 13, 30, tzinfo=UTC)),
        ("timeDate", '=now() + @"P1M"', datetime(2026, 2, 28, 12, tzinfo=UTC)),
        ("timeDate", '=@"2026-07-01"', datetime(2026, 7, 1, tzinfo=UTC)),
        ("timeDate", '=@"2026-07-01T12:00:00@Europe/Berlin"', datetime(2026, 7, 1, 10, tzinfo=UTC)),
        ("timeDate", "2026-07-01T12:00:00+02:00[Europe/Berlin]", datetime(2026, 7, 1, 10, tzinfo=UTC)),
        ("timeDate", "2026-12-02T08:09:40+02:00[Europe/Berlin]", datetime(2026, 12, 2, 6, 9, 40, tzinfo=UTC)),
        ("timeDate", "2026-07-01T12:00:00Z[UTC]", datetime(2026, 7, 1, 12, tzinfo=UTC)),
        ("timeCycle", "R3/2026-07-01T12:00:00+02:00[Europe/Berlin]/P1D", datetime(2026, 7, 1, 10, tzinfo=UTC)),
        ("timeCycle", '="R/" + string(@"PT1H")', datetime(2026, 1, 31, 13, tzinfo=UTC)),
    ],
)
def test_times_of_timers(alias, run_jobs, timer, value, expected):
    event = f"<timerEventDefinition><{timer}>{value}</{timer}></timerEventDefinition>"
    body = (
        '<startEvent id="s"/><userTask id="a"/><endEvent id="e"/>'
        f'<boundaryEvent id="late" attachedToRef="a" cancelActivity="{str(timer != "timeCycle").lower()}">{event}'
        "</boundaryEvent>"
    )
    with controlled_clock(NOW) as clock:
        deployed(alias, body + flows(("s", "a"), ("late", "e")))
        start("order", using=alias)
        assert TimerJob.objects.using(alias).get().due_date == expected
        clock.advance(expected - NOW)
        run_jobs()
        assert UserTask.objects.using(alias).exists() == (timer == "timeCycle")


@pytest.mark.parametrize(
    ("timer", "value", "expected"),
    [
        ("timeDate", "2026-07-01T12:00:00", datetime(2026, 7, 1, 10, tzinfo=UTC)),
        ("timeDate", "2026-07-01", datetime(2026, 6, 30, 22, tzinfo=UTC)),
        ("timeDate", '=@"2026-07-01T12:00:00"', datetime(2026, 7, 1, 10, tzinfo=UTC)),
        ("timeDate", '=today() + @"P1D"', datetime(2026, 2, 1, 23, tzinfo=UTC)),
        ("timeDate", '=if now().hour = 0 then @"2026-07-01" else now()', datetime(2026, 6, 30, 22, tzinfo=UTC)),
        ("timeCycle", "R3/2026-07-01T12:00:00/P1D", datetime(2026, 7, 1, 10, tzinfo=UTC)),
        ("timeCycle", "0 12 * * *", datetime(2026, 2, 1, 11, tzinfo=UTC)),
    ],
)
def test_times_are_of_the_time_zone_of_the_project(alias, settings, timer, value, expected):
    settings.TIME_ZONE = "Europe/Berlin"
    event = f"<timerEventDefinition><{timer}>{value}</{timer}></timerEventDefinition>"
    body = f'<startEvent id="s"/><intermediateCatchEvent id="late">{event}</intermediateCatchEvent><endEvent id="e"/>'
    with controlled_clock(datetime(2026, 1, 31, 23, 30, tzinfo=UTC)):
        deployed(alias, body + flows(("s", "late"), ("late", "e")))
        start("order", using=alias)
        assert TimerJob.objects.using(alias).get().due_date == expected


@pytest.mark.parametrize("value", ["2026-07-01T12:00:00+02:00[Europe/Berlim]", "2026-07-01T12:00:00[Europe/Berlin]"])
def test_a_time_with_a_zone_that_says_no_moment(alias, value):
    event = f"<timerEventDefinition><timeDate>{value}</timeDate></timerEventDefinition>"
    with pytest.raises(InvalidProcess, match="s: The timer expects a date or a time"):
        deployed(alias, f'<startEvent id="s">{event}</startEvent>')


def test_who_has_started_it_is_a_variable(alias):
    body = '<startEvent id="s" camunda:initiator="starter"/><userTask id="ask" camunda:assignee="${starter}"/>'
    deployed(alias, body + flows(("s", "ask")))
    start("order", user="anna", using=alias)
    assert UserTask.objects.using(alias).get().assignee == "anna"


def test_an_error_that_is_interrupted_in_the_same_step_is_no_incident(alias):
    """Two branches of one step: nothing catches the error of the first one, and the second one ends the process."""
    body = (
        '<startEvent id="s"/><parallelGateway id="x"/>'
        '<serviceTask id="sell" camunda:delegateExpression="${tests.bpmn.sell}"/><task id="b"/>'
        '<endEvent id="stop"><terminateEventDefinition/></endEvent>'
    )
    deployed(alias, body + flows(("s", "x"), ("x", "sell"), ("x", "b"), ("b", "stop")))
    instance = start("order", variables={"stock": 0}, using=alias)
    assert state(alias, instance) == "terminated"
    assert not Incident.objects.using(alias).exists()
    assert_nothing_is_left(alias)


HOURLY = "<timerEventDefinition><timeCycle>R/PT1H</timeCycle></timerEventDefinition>"


@pytest.mark.parametrize(
    ("body", "pairs", "ends"),
    [
        (
            f'<boundaryEvent id="late" attachedToRef="a" cancelActivity="false">{HOURLY}</boundaryEvent>'
            '<endEvent id="stop"><terminateEventDefinition/></endEvent>',
            [("late", "b"), ("b", "stop")],
            "terminated",
        ),
        (
            '<subProcess id="h" triggeredByEvent="true">'
            f'<startEvent id="late" isInterrupting="false">{HOURLY}</startEvent>'
            '<endEvent id="bad"><errorEventDefinition errorRef="e1"/></endEvent>'
            '<sequenceFlow id="g" sourceRef="late" targetRef="bad"/></subProcess>'
            '<subProcess id="k" triggeredByEvent="true">'
            '<startEvent id="caught"><errorEventDefinition errorRef="e1"/></startEvent><userTask id="c"/>'
            '<sequenceFlow id="k1" sourceRef="caught" targetRef="c"/></subProcess>',
            [("a", "b")],
            "active",
        ),
    ],
    ids=["its branch ends the process", "its branch interrupts the process"],
)
def test_a_cycle_is_over_with_the_step_that_ends_what_it_belongs_to(alias, run_jobs, body, pairs, ends):
    with controlled_clock() as clock:
        given = '<startEvent id="s"/><userTask id="a"/>' + note_task("b") + body + flows(("s", "a"), *pairs)
        deployed(alias, given, before='<error id="e1" errorCode="E1"/>')
        instance = start("order", using=alias)
        assert TimerJob.objects.using(alias).count() == 1
        clock.advance(3601)
        run_jobs()
    assert (state(alias, instance), TimerJob.objects.using(alias).count()) == (ends, 0)


KEYED = (
    '<message id="m" name="paid"><extensionElements><zeebe:subscription correlationKey="=id"/></extensionElements>'
    "</message>"
)


@pytest.mark.parametrize("end", ["cancel", "complete"])
@pytest.mark.parametrize("event", ["timer", "message"])
def test_what_an_event_sub_process_of_the_whole_process_waits_for_is_gone_with_the_instance(alias, event, end):
    events = {"timer": HOURLY, "message": '<messageEventDefinition messageRef="m"/>'}
    body = (
        '<startEvent id="s"/><userTask id="a"/><subProcess id="h" triggeredByEvent="true">'
        f'<startEvent id="late" isInterrupting="false">{events[event]}</startEvent></subProcess>'
    )
    deployed(alias, body + flows(("s", "a")), before=KEYED)
    instance = start("order", variables={"id": 1}, using=alias)
    if end == "cancel":
        cancel(instance)
    else:
        complete(UserTask.objects.using(alias).get())
    assert not EventSubscription.objects.using(alias).exists()
    assert_nothing_is_left(alias)


@pytest.mark.parametrize(
    "element",
    [
        '<subProcess id="x" {async}><startEvent id="xs"/>{task}<sequenceFlow id="g" sourceRef="xs" targetRef="b"/>'
        "</subProcess>",
        '<serviceTask id="x" camunda:delegateExpression="${{tests.bpmn.note}}" {async}>'
        "<multiInstanceLoopCharacteristics><loopCardinality>2</loopCardinality></multiInstanceLoopCharacteristics>"
        "</serviceTask>",
    ],
    ids=["sub-process", "multi-instance"],
)
def test_a_job_that_is_not_exclusive_begins_tokens_whose_tasks_it_runs(alias, run_jobs, element):
    given = {"async": 'camunda:asyncBefore="true" camunda:exclusive="false"', "task": note_task("b")}
    deployed(alias, '<startEvent id="s"/>' + element.format(**given) + flows(("s", "x")))
    instance = start("order", using=alias)
    ManualExecutor(alias).run_due(3)
    assert state(alias, instance) == "completed"
    assert DONE in (["b"], ["x", "x"])


@pytest.mark.parametrize("wait", ["", "<userTask id='w'/>"], ids=["in one step", "after a wait"])
@pytest.mark.parametrize(
    ("source", "condition"),
    [
        ("=amount * 1.19", "=x &gt; 100"),
        ("=[amount * 1.5]", "=x[1] = 148.5"),
        ("=duration(&quot;P1M&quot;)", "=x = &quot;P1M&quot; and duration(x) = @&quot;P1M&quot;"),
        ("=date(&quot;2026-01-02&quot;)", "=x = &quot;2026-01-02&quot; and date(x) = @&quot;2026-01-02&quot;"),
        ("=time(now())", "=time(x) != null"),
        ("=[1..3]", "=x = &quot;[1..3]&quot;"),
    ],
    ids=["number", "list", "duration", "date", "time", "range"],
)
def test_a_result_of_feel_is_the_same_before_and_after_it_is_stored(alias, source, condition, wait):
    """No matter whether a wait comes between them."""
    body = (
        '<startEvent id="s"/><scriptTask id="a"><extensionElements>'
        f'<zeebe:script expression="{source}" resultVariable="x"/></extensionElements></scriptTask>{wait}'
        '<exclusiveGateway id="g" default="no"/><endEvent id="e"/><userTask id="other"/>'
        '<sequenceFlow id="no" sourceRef="g" targetRef="other"/><sequenceFlow id="yes" sourceRef="g" targetRef="e">'
        f"<conditionExpression>{condition}</conditionExpression></sequenceFlow>"
    )
    deployed(alias, body + flows(("s", "a"), *((("a", "w"), ("w", "g")) if wait else [("a", "g")])))
    instance = start("order", variables={"amount": 99}, using=alias)
    if wait:
        complete(UserTask.objects.using(alias).get())
    assert state(alias, instance) == "completed"
