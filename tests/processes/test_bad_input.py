"""What cannot be: refused with the element that is wrong, and nothing is deployed or started by half."""

import re

import pytest
from django.db import transaction

from jobexec import job
from jobexec.exceptions import InvalidJob
from jobexec.models import BlockedJob, DeadLetterJob, ExternalWorkerJob, Job, JobDefinition, TimerJob
from jobexec.processes.definition import InvalidProcess
from jobexec.processes.engine.exceptions import StepError
from jobexec.processes.exceptions import MismatchingMessage
from jobexec.processes.expressions import expression
from jobexec.processes.flows.builder import Edge, Flow
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.models import (
    EventSubscription,
    Execution,
    ProcessDefinition,
    ProcessDeployment,
    ProcessInstance,
    ProcessResource,
    UserTask,
    Variable,
)
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.events import correlate, signal
from jobexec.processes.operations.instances import cancel, set_variables
from jobexec.processes.operations.many import cancel_all
from jobexec.processes.operations.modify import modify
from jobexec.processes.operations.start import start
from jobexec.processes.operations.user_tasks import complete
from tests.processes.support.bpmn import around, definitions, process

pytest.importorskip("lxml")

DEPLOYED = (ProcessDeployment, ProcessResource, ProcessDefinition, JobDefinition)
STARTED = (ProcessInstance, Execution, Variable, UserTask, Job, TimerJob, ExternalWorkerJob, BlockedJob)
LARGE = "x" * 100_000


def rows(alias, *models):
    return {model.__name__ for model in models if model.objects.using(alias).exists()}


@service_task("tests.bad_input.nothing")
def nothing(context):
    pass


@job(name="tests.bad_input.answer", retries="R2/PT0S")
def answer(value):
    return value


# Categories.

ASYNC = '<task id="x" camunda:asyncBefore="true" jobexec:category="{}"/>'
INSIDE = (
    '<task id="x"><multiInstanceLoopCharacteristics camunda:asyncBefore="true" jobexec:category="{}">'
    "<loopCardinality>2</loopCardinality></multiInstanceLoopCharacteristics></task>"
)


@pytest.mark.parametrize("element", [ASYNC, INSIDE], ids=["activity", "inside a multi-instance"])
def test_a_category_that_no_node_serves(alias, settings, element):
    content = process(around(element.format("mail")))
    told = "x: The category of its jobs is 'mail'; expected one of default (setting CATEGORIES)."
    with pytest.raises(InvalidProcess, match=re.escape(told)) as caught:
        deploy(("p.bpmn", content), using=alias)
    assert [problem.line for problem in caught.value.problems] == [3]
    assert rows(alias, *DEPLOYED) == set()
    settings.JOBEXEC = {**settings.JOBEXEC, "CATEGORIES": ["default", "mail"]}
    deploy(("p.bpmn", content), using=alias)
    start("p", using=alias)
    assert set(Job.objects.using(alias).values_list("category", flat=True)) == {"mail"}


def test_a_category_by_an_expression_is_checked_when_it_has_a_value(alias):
    deploy(("p.bpmn", process(around(ASYNC.format("${which}")))), using=alias)
    with pytest.raises(InvalidJob, match="category: expected one of default"):
        start("p", variables={"which": "mail"}, using=alias)
    assert rows(alias, *STARTED) == set()
    start("p", variables={"which": "default"}, using=alias)


TIMED = (
    '<startEvent id="s" {}><timerEventDefinition><timeDuration>{}</timeDuration></timerEventDefinition></startEvent>'
)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (TIMED.format("", "${'soon'}"), "s: The timer expects a duration"),
        (TIMED.format("camunda:jobPriority=\"${'high'}\"", "PT1H"), "s: The options of its job are wrong"),
        (TIMED.format("jobexec:category=\"${'mail'}\"", "PT1H"), "s: category: expected one of default"),
        (TIMED.format("", "${pause}"), "s: Before an instance there are no variables"),
    ],
)
def test_a_start_timer_whose_expressions_give_what_is_wrong(alias, content, told):
    with pytest.raises(InvalidProcess, match=told):
        deploy(("p.bpmn", process(content)), using=alias)
    assert rows(alias, *DEPLOYED, *STARTED) == set()


# Files.

START = '<startEvent id="s"/>'
TASK = START + '<serviceTask id="x" {}/><sequenceFlow id="f" sourceRef="s" targetRef="x"/>'
MESSAGE = '<message id="m" name="paid"/>'
SUB = '<subProcess id="sub"><startEvent id="i" {}/></subProcess><sequenceFlow id="f" sourceRef="s" targetRef="sub"/>'
AT_START = '<startEvent id="{}"><messageEventDefinition messageRef="m"/></startEvent>'

FILES = {
    "broken XML": (b'<definitions><process id="p">', "file: The file is not well-formed XML"),
    "a DOCTYPE": (b'<!DOCTYPE d SYSTEM "http://127.0.0.1:9/x">' + process(START), "file: A DOCTYPE is not accepted"),
    "3 MB": (process(START) + b" " * 3_000_000, "file: The file has 3,000,"),
    "6,000 elements": (definitions('<message id="m"/>' * 6_000), "file: The file has more than 5,000 elements"),
    "an unknown handler": (
        process(TASK.format('camunda:class="org.acme.Gone"')),
        "x: No service task 'org.acme.Gone' is registered",
    ),
    "two plain start events": (
        process(START + '<startEvent id="t"/>'),
        "t: Its scope has another start event without an event definition",
    ),
    "two start events for one message": (
        process(AT_START.format("s") + AT_START.format("t"), top=MESSAGE),
        "t: Another start event waits for the message 'paid'",
    ),
    "a flow to nowhere": (
        process(START + '<sequenceFlow id="f" sourceRef="s" targetRef="nowhere"/>'),
        "f: Its target 'nowhere' does not exist in this process",
    ),
    "an expression with a method call": (
        process(TASK.format('camunda:expression="${order.delete()}"')),
        "x: No function 'order.delete' is registered in this project",
    ),
    "a call with the execution": (
        process(TASK.format('camunda:expression="${order.delete(execution)}"')),
        "x: .*'execution' is not a value",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_refused_with_all_that_is_deployed_with_it(alias, name):
    content, told = FILES[name]
    good = process(TASK.format('camunda:delegateExpression="${tests.bad_input.nothing}"')).replace(b'"p"', b'"good"')
    with pytest.raises(InvalidProcess, match=rf"bad\.bpmn: {told}"):
        deploy(("good.bpmn", good), ("bad.bpmn", content), using=alias)
    assert rows(alias, *DEPLOYED, EventSubscription) == set()
    assert len(deploy(("good.bpmn", good), using=alias)) == 1


def test_a_pattern_without_re2_is_refused(alias, monkeypatch):
    feel = expression._LANGUAGES["feel"]
    monkeypatch.setitem(expression._LANGUAGES, "feel", feel._replace(functions=feel.functions - {"matches"}))
    script = '<zeebe:script expression="=matches(text, &quot;without re2&quot;)" resultVariable="found"/>'
    task = f'<scriptTask id="x"><extensionElements>{script}</extensionElements></scriptTask>'
    content = process(around(task, leaves=False), "zeebe")
    with pytest.raises(InvalidProcess, match=r"x: matches\(\) needs google-re2: install jobexec with the extra re2"):
        deploy(("p.bpmn", content), using=alias)


# Flows.


def cycle(flow):
    first = flow.step(answer, 1)
    second = flow.step(answer, 2, after=first)
    first.after = (Edge(second),)


def cycle_beside_a_start(flow):
    start_here = flow.step(answer, 1, name="one")
    second = flow.step(answer, 2, after=start_here, name="two")
    third = flow.step(answer, 3, after=second, name="three")
    second.after = (Edge(start_here), Edge(third))


def step_of_another_flow(flow):
    flow.step(answer, 1, after=Flow("other").step(answer, 1), name="one")


def condition_over_another_flow(flow):
    flow.step(answer, 1, when=Flow("other").step(answer, 1).result > 1, name="one")


def condition_over_a_step_that_is_not_before(flow):
    first = flow.step(answer, 1, name="one")
    flow.step(answer, 2, when=first.result > 1, name="two")


def condition_over_an_unknown_variable(flow):
    flow.step(answer, 1, when=flow.variable("amount") > 1)


@pytest.mark.parametrize(
    ("describe", "told"),
    [
        (cycle, "answer: after: 'answer_2' does not come before it: a flow has no cycles"),
        (cycle_beside_a_start, "two: after: 'three' does not come before it: a flow has no cycles"),
        (step_of_another_flow, "one: after: <step answer of other> belongs to another flow"),
        (condition_over_another_flow, r"one: <\(answer > 1\)> belongs to another flow"),
        (condition_over_a_step_that_is_not_before, "two: It uses the result of 'one', which does not come before it"),
        (condition_over_an_unknown_variable, "flow: It has no variable 'amount'"),
    ],
)
def test_a_flow_is_refused(alias, describe, told):
    flow = Flow("wrong")
    with pytest.raises(InvalidProcess, match=told):
        describe(flow)
        flow.start(using=alias)
    assert rows(alias, *DEPLOYED, *STARTED) == set()


def test_arguments_of_a_flow_that_are_too_large(alias):
    flow = Flow("wrong")
    first = flow.step(answer, LARGE * 10, name="one")
    flow.step(answer, LARGE, after=first, name="two")
    text = "one: what the steps get is 1,100,0.. bytes of JSON, of which this one gets 1,000,0..; expected at most 1"
    with pytest.raises(InvalidJob, match=text):
        flow.start(using=alias)
    assert rows(alias, *DEPLOYED, *STARTED) == set()


@pytest.mark.parametrize("option", [{"business_key": LARGE}, {"tenant_id": LARGE}])
def test_a_flow_with_a_text_that_no_column_holds(alias, option):
    """Nor is its shape kept, also if the caller's transaction goes on."""
    flow = Flow("wrong", **option)
    flow.step(answer, 1)
    with transaction.atomic(alias):
        with pytest.raises(InvalidJob):
            flow.start(using=alias)
        assert rows(alias, *DEPLOYED, *STARTED) == set()
    assert rows(alias, *DEPLOYED, *STARTED) == set()


def test_a_result_that_is_too_large_is_an_incident_at_its_step(alias, run_jobs, monkeypatch):
    """The function has run. To run it again would only repeat its effects, so its retries are not spent."""
    monkeypatch.setattr(answer, "function", lambda value: LARGE)
    flow = Flow("large")
    flow.step(answer, "after", after=flow.step(answer, "small", name="one"))
    flow.start(using=alias)
    run_jobs()
    dead = DeadLetterJob.objects.using(alias).get()
    assert (dead.failed_activity_id, dead.attempts) == ("one", 1)
    assert (
        "its result cannot be kept: result of tests.bad_input.answer: expected at most 65,536 bytes of JSON"
        in dead.exception_message
    )


# Instances.

WAITS = (
    START + '<receiveTask id="wait" messageRef="m"/><userTask id="ask"/>'
    '<sequenceFlow id="f" sourceRef="s" targetRef="wait"/><sequenceFlow id="g" sourceRef="wait" targetRef="ask"/>'
)
TOO_LARGE = "letter: expected at most 65,536 bytes of JSON, got 100,002"


def test_a_variable_of_100_kb_is_refused_wherever_it_comes_from(alias):
    deploy(("p.bpmn", process(WAITS, top=MESSAGE)), using=alias)
    with pytest.raises(InvalidJob, match=TOO_LARGE):
        start("p", variables={"letter": LARGE}, using=alias)
    assert rows(alias, *STARTED) == set()
    instance = start("p", using=alias)
    with pytest.raises(InvalidJob, match=TOO_LARGE):
        set_variables(instance, {"letter": LARGE}, using=alias)
    with pytest.raises(InvalidJob, match=TOO_LARGE):
        correlate("paid", variables={"letter": LARGE}, using=alias)
    with pytest.raises(InvalidJob, match=TOO_LARGE):
        signal("anything", {"letter": LARGE}, using=alias)
    correlate("paid", using=alias)
    with pytest.raises(InvalidJob, match=TOO_LARGE):
        complete(UserTask.objects.using(alias).get(), {"letter": LARGE}, using=alias)
    assert rows(alias, Variable, Job) == set()
    assert UserTask.objects.using(alias).count() == 1


def test_a_correlation_that_fits_two_reaches_neither(alias):
    deploy(("p.bpmn", process(WAITS, top=MESSAGE)), using=alias)
    for _ in range(2):
        start("p", business_key="4711", using=alias)
    with pytest.raises(
        MismatchingMessage,
        match="The message 'paid' must match exactly one instance that waits for it; 2 do, which are wait of ",
    ):
        correlate("paid", business_key="4711", variables={"amount": 1}, using=alias)
    assert EventSubscription.objects.using(alias).filter(instance_id__isnull=False).count() == 2
    assert rows(alias, UserTask, Variable) == set()
    assert correlate("paid", business_key="4711", all=True, using=alias) == 2


def test_a_correlation_that_fits_more_than_one_transaction_takes_reaches_none(alias, monkeypatch):
    deploy(("p.bpmn", process(WAITS, top=MESSAGE)), using=alias)
    for _ in range(2):
        start("p", business_key="4711", using=alias)
    monkeypatch.setattr("jobexec.processes.operations.events.MOST_RECEIVERS", 1)
    for all in (True, False):
        with pytest.raises(MismatchingMessage, match="fits more than 1 that wait for it, and is delivered to none"):
            correlate("paid", business_key="4711", all=all, using=alias)
    assert EventSubscription.objects.using(alias).filter(instance_id__isnull=False).count() == 2


# Forms of start events.

FORM = '<camunda:formData><camunda:formField id="a" type="string" defaultValue="${{{}}}"/></camunda:formData>'
FORMED = '<startEvent id="s" {}><extensionElements>{}</extensionElements>{}</startEvent>'
NO_VARIABLES = "s: The form of a start event knows no variables"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (FORMED.format("", FORM.format("amount"), ""), NO_VARIABLES),
        (FORMED.format("", FORM.format("execution.id"), ""), NO_VARIABLES),
        (FORMED.format("", FORM.format("execution.getVariable('a')"), ""), NO_VARIABLES),
        (FORMED.format("", FORM.format("now()"), ""), None),
        (FORMED.format('camunda:formKey="${key}"', "", ""), NO_VARIABLES),
        (
            FORMED.format('camunda:formKey="key"', "", '<messageEventDefinition messageRef="m"/>'),
            "s: Only the plain start",
        ),
        (FORMED.format('camunda:assignee="kim"', "", ""), "s: The attribute camunda:assignee of startEvent is not"),
        (FORMED.format('camunda:dueDate="P3D"', "", ""), "s: The attribute camunda:dueDate of startEvent is not"),
        (START + SUB.format('camunda:formKey="key"'), "i: Only the plain start event of a process"),
        (START + SUB.format('camunda:initiator="who"'), "i: Only a start event of the process itself"),
    ],
)
def test_what_the_start_of_an_instance_cannot_do(alias, content, told):
    if told is None:
        assert len(deploy(("p.bpmn", process(content, top=MESSAGE)), using=alias)) == 1
        return
    with pytest.raises(InvalidProcess, match=told):
        deploy(("p.bpmn", process(content, top=MESSAGE)), using=alias)


# Texts.

LONG = "x" * 256
ASKS = START + '<userTask id="x" {}/><sequenceFlow id="f" sourceRef="s" targetRef="x"/>'


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (process(ASKS.format(f'name="{LONG}"')), "x: Its name is a string of at most 255 characters"),
        (process(ASKS.format(f'camunda:assignee="{LONG}"')), "x: Its assignee is a string of at most 255 characters"),
        (process(ASKS.format(f'camunda:formKey="{LONG}"')), "x: Its form_key is a string of at most 255 characters"),
        (process(ASKS.format('camunda:dueDate="soon"')), "x: Its due_date is a date or a time such as .*, not 'soon'"),
        (process(ASKS.format('camunda:priority="high"')), "x: Its priority is a whole number, not 'high'"),
        (process(ASKS.format("").replace('"x"', f'"{LONG}"')), "xxx: Its id has more than 255 characters"),
        (process(ASKS.format(""), attributes=f'name="{LONG}"'), "p: Its name has more than 255 characters"),
        (process(ASKS.format(""), attributes=f'camunda:versionTag="{LONG}"'), "p: Its version tag has more than 255"),
        (process(ASKS.format(f'jobexec:category="{LONG}"')), "x: Its category has more than 128 characters"),
        (process(TASK.format(f'camunda:type="external" camunda:topic="{LONG}"')), "x: Its topic has more than 255"),
        (
            process(AT_START.format("s"), top=f'<message id="m" name="{LONG}"/>'),
            "s: Its message name has more than 255",
        ),
    ],
)
def test_texts_that_no_column_holds_are_refused(alias, content, told):
    with pytest.raises(InvalidProcess, match=told):
        deploy(("p.bpmn", content), using=alias)
    assert rows(alias, *DEPLOYED, EventSubscription) == set()


def test_two_files_with_one_process(alias):
    other = process(ASKS.format('name="other"'))
    with pytest.raises(InvalidProcess, match=r"two\.bpmn: p: The file one\.bpmn of this deployment has a process"):
        deploy(("one.bpmn", process(ASKS.format(""))), ("two.bpmn", other), using=alias)
    assert rows(alias, *DEPLOYED) == set()


@pytest.mark.parametrize(
    ("form", "value", "told"),
    [
        ("dueDate", "soon", "x: Its due_date is a date or a time such as .*, not 'soon'"),
        ("followUpDate", 3, "x: Its follow_up_date is a date or a time such as .*, not 3"),
        ("priority", "high", "x: Its priority is a whole number, not 'high'"),
        ("priority", 2**31, "x: Its priority is a whole number, not 2147483648"),
        ("assignee", LONG, "x: Its assignee is a string of at most 255 characters"),
        ("formKey", LONG, "x: Its form_key is a string of at most 255 characters"),
    ],
)
def test_a_form_that_gets_what_it_cannot_hold(alias, form, value, told):
    deploy(("p.bpmn", process(ASKS.format(f'camunda:{form}="${{value}}"'))), using=alias)
    with pytest.raises(StepError, match=told):
        start("p", variables={"value": value}, using=alias)
    assert rows(alias, *STARTED) == set()


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"business_key": LONG}, "business_key: expected a string of at most 255 characters"),
        ({"business_key": "a\0"}, r"business_key: the character U\+0000 cannot be stored"),
        ({"tenant_id": LONG}, "tenant_id: expected a string of at most 64 characters"),
        ({"user": LONG}, "user: expected a string of at most 255 characters"),
    ],
)
def test_a_start_with_a_text_that_no_column_holds(alias, option, told):
    deploy(("p.bpmn", process(ASKS.format(""))), using=alias)
    with pytest.raises(InvalidJob, match=told):
        start("p", **option, using=alias)
    flow = Flow("f", business_key=LONG)
    flow.step(answer, 1)
    with pytest.raises(InvalidJob, match="business_key: expected a string of at most 255 characters"):
        flow.start(using=alias)
    assert rows(alias, *STARTED) == set()


def test_other_texts_that_no_column_holds(alias):
    deploy(("p.bpmn", process(ASKS.format(""))), using=alias)
    instance = start("p", business_key=4711, using=alias)
    assert instance.business_key == "4711"
    for change in (
        lambda: cancel(instance, LONG * 16, using=alias),
        lambda: modify(instance, using=alias).cancel("x").execute(LONG * 16),
        lambda: cancel_all(ProcessInstance.objects.using(alias), LONG * 16),
    ):
        with pytest.raises(InvalidJob, match="reason: expected a string of at most 4000 characters"):
            change()
    for name in (LONG, "a\0", None):
        with pytest.raises(InvalidJob, match=r"message: (expected a string|the character U\+0000)"):
            correlate(name, using=alias)
        with pytest.raises(InvalidJob, match=r"name: (expected a string|the character U\+0000)"):
            signal(name, using=alias)
    assert ProcessInstance.objects.using(alias).get().state == "active"
