"""What listeners and expressions know of the execution and of the user task that they are called for."""

import re

import pytest

from jobexec.processes.definition import InvalidProcess
from jobexec.processes.expressions.juel import OBJECTS
from jobexec.processes.handlers.registry import function, listener
from jobexec.processes.models import Execution, ProcessInstance, UserTask
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.instances import cancel
from jobexec.processes.operations.start import start
from jobexec.processes.operations.user_tasks import claim, complete
from tests.processes.support.bpmn import around, process

pytest.importorskip("lxml")

HEARD = []


@pytest.fixture(autouse=True)
def heard():
    HEARD.clear()


@function("tests.listeners.hear")
def hear(*values):
    HEARD.append(values)
    return True


@listener("tests.listeners.meet")
def meet(context):
    HEARD.append((context.event, context.task and (context.task.name, context.task.assignee)))


def task_listener(event, *values):
    return f'<camunda:taskListener event="{event}" expression="${{tests.listeners.hear({", ".join(values)})}}"/>'


def execution_listener(event, *values):
    return task_listener(event, *values).replace("taskListener", "executionListener")


def asks(*listeners, attributes=""):
    inside = f"<extensionElements>{''.join(listeners)}</extensionElements>"
    return around(f'<userTask id="x" name="Approve" {attributes}>{inside}</userTask>')


def deployed(alias, content, **kwargs):
    deploy(("p.bpmn", process(content, **kwargs)), using=alias)


def started(alias, content, **variables):
    deployed(alias, content)
    return start("p", business_key="4711", variables=variables, using=alias)


def test_a_task_listener_knows_its_task(alias):
    names = sorted(OBJECTS["task"])
    content = asks(
        task_listener("create", *(f"task.{name}" for name in names)),
        attributes='camunda:assignee="${boss}" camunda:priority="7" camunda:followUpDate="2030-01-31T12:00:00Z" '
        'camunda:dueDate="2030-01-30T12:00:00Z"',
    )
    instance = started(alias, content, boss="kim")
    row = UserTask.objects.using(alias).get()
    expected = {
        "assignee": "kim",
        "dueDate": row.due_date,
        "eventName": "create",
        "executionId": str(row.owner_id),
        "followUpDate": row.follow_up_date,
        "id": str(row.pk),
        "name": "Approve",
        "priority": 7,
        "processDefinitionId": instance.definition_id,
        "processInstanceId": str(instance.pk),
        "taskDefinitionKey": "x",
        "tenantId": None,
    }
    assert dict(zip(names, HEARD[0], strict=True)) == expected


@pytest.mark.every_database
@pytest.mark.parametrize("event", ["complete", "delete"])
def test_at_its_end_a_task_is_as_it_is_stored(alias, event):
    content = asks(task_listener(event, "task.eventName", "task.id", "task.assignee", "task.getPriority()", "amount"))
    instance = started(alias, content, amount=5)
    task = claim(UserTask.objects.using(alias).get(), "anna", using=alias)
    if event == "complete":
        complete(task, using=alias)
    else:
        cancel(instance, using=alias)
    assert [(event, str(task.pk), "anna", 50, 5)] == HEARD


def test_a_task_that_was_made_in_the_same_step(alias):
    """Its row is not written yet, and never will be: an error of the second listener interrupts it."""
    top = '<error id="no" name="no" errorCode="NO"/>'
    content = asks(
        task_listener("create", "task.name"),
        '<camunda:taskListener event="create" delegateExpression="${tests.listeners.refuse}"/>',
        task_listener("delete", "task.eventName", "task.assignee"),
        attributes='camunda:assignee="kim"',
    )
    content += '<boundaryEvent id="b" attachedToRef="x"><errorEventDefinition errorRef="no"/></boundaryEvent>'
    deployed(alias, content, top=top)
    start("p", using=alias)
    assert HEARD == [("Approve",), ("delete", "kim")]
    assert not UserTask.objects.using(alias).exists()


@listener("tests.listeners.refuse")
def refuse(context):
    from jobexec.processes import BpmnError

    raise BpmnError("NO")


def test_a_function_is_called_with_the_task(alias):
    named = 'delegateExpression="${tests.listeners.meet}"/>'
    content = asks(
        f'<camunda:taskListener event="create" {named}',
        f'<camunda:executionListener event="start" {named}',
        f'<camunda:taskListener event="complete" {named}',
        attributes='camunda:assignee="${boss}"',
    )
    started(alias, content, boss="kim")
    complete(UserTask.objects.using(alias).get(), using=alias)
    assert HEARD == [("start", None), ("create", ("Approve", "kim")), ("complete", ("Approve", "kim"))]


def test_an_execution_listener_knows_its_execution(alias):
    names = sorted(OBJECTS["execution"])
    instance = started(alias, asks(execution_listener("start", *(f"execution.{name}" for name in names))))
    token = Execution.objects.using(alias).get()
    expected = {
        "activityInstanceId": str(token.activity_id),
        "businessKey": "4711",
        "currentActivityId": "x",
        "currentActivityName": "Approve",
        "eventName": "start",
        "id": str(token.pk),
        "parentId": str(instance.pk),
        "processBusinessKey": "4711",
        "processDefinitionId": instance.definition_id,
        "processDefinitionKey": "p",
        "processInstanceId": str(instance.pk),
        "rootProcessInstanceId": str(instance.pk),
        "tenantId": None,
    }
    assert dict(zip(names, HEARD[0], strict=True)) == expected


def test_an_execution_in_a_called_instance_of_a_tenant(alias):
    heard = "execution.rootProcessInstanceId, execution.processDefinitionKey, execution.tenantId, execution.parentId"
    inner = f'<sequenceFlow id="f" sourceRef="s" targetRef="x"/><startEvent id="s"/><scriptTask id="x" \
        scriptFormat="juel" camunda:resultVariable="r"><script>${{tests.listeners.hear({heard})}}</script></scriptTask>'
    deploy(
        ("called.bpmn", process(inner).replace(b'id="p"', b'id="called"')),
        ("p.bpmn", process(around('<callActivity id="x" calledElement="called"/>'))),
        tenant_id="acme",
        using=alias,
    )
    instance = start("p", tenant_id="acme", using=alias)
    called = ProcessInstance.objects.using(alias).get(definition_key="called")
    assert [(str(instance.pk), "called", "acme", str(called.pk))] == HEARD


def test_outside_of_an_activity_the_activity_instance_is_that_of_the_scope(alias):
    """A condition is evaluated when its activity is over; Camunda then names the one around it."""
    condition = "<conditionExpression>${tests.listeners.hear(execution.activityInstanceId)}</conditionExpression>"
    content = (
        '<startEvent id="s"/><task id="t"/><subProcess id="sub"><startEvent id="s2"/><task id="t2"/>'
        f'<sequenceFlow id="f2" sourceRef="t2" targetRef="x">{condition}</sequenceFlow><userTask id="x"/>'
        '<sequenceFlow id="f3" sourceRef="s2" targetRef="t2"/></subProcess><sequenceFlow id="f4" sourceRef="s" '
        f'targetRef="t"/><sequenceFlow id="f" sourceRef="t" targetRef="sub">{condition}</sequenceFlow>'
    )
    instance = started(alias, content)
    scope = Execution.objects.using(alias).get(element_id="sub")
    assert [(str(instance.pk),), (str(scope.activity_id),)] == HEARD


TASK_ONLY = "'task' is known to the expressions of task listeners only"
EVENT_ONLY = "'execution.eventName' is known to the expressions of execution listeners only"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (asks(attributes='camunda:assignee="${task.name}"'), TASK_ONLY),
        (asks(execution_listener("end", "task.id")), TASK_ONLY),
        (asks(attributes="camunda:assignee=\"${task.getVariable('a')}\""), TASK_ONLY),
        (around('<serviceTask id="x" camunda:expression="${tests.listeners.hear(task.id)}"/>'), TASK_ONLY),
        (asks(task_listener("create", "execution.eventName")), EVENT_ONLY),
        (asks(attributes='camunda:assignee="${execution.eventName}"'), EVENT_ONLY),
        (asks(task_listener("create", "task.owner")), "task has no property 'owner' here"),
        (asks(task_listener("create", "task.description")), "task has no property 'description' here"),
    ],
)
def test_what_is_not_known_there_is_refused(alias, content, told):
    with pytest.raises(InvalidProcess, match=re.escape(told)) as caught:
        deployed(alias, content)
    (problem,) = caught.value.problems
    assert (problem.element, problem.line) == ("p.bpmn: x", 3)


def test_what_is_not_known_in_a_flow_or_a_process_is_refused(alias):
    flow = (
        '<startEvent id="s"/><task id="t"/><userTask id="x"/><sequenceFlow id="g" sourceRef="s" targetRef="t"/>'
        '<sequenceFlow id="f" sourceRef="t" targetRef="x">'
        "<conditionExpression>${task.name == 'a'}</conditionExpression></sequenceFlow>"
    )
    with pytest.raises(InvalidProcess, match=f"f: {TASK_ONLY}"):
        deployed(alias, flow)
    listeners = f"<extensionElements>{execution_listener('start', 'task.id')}</extensionElements>"
    with pytest.raises(InvalidProcess, match=f"p: {TASK_ONLY}"):
        deployed(alias, listeners + around("<task id='x'/>"))
