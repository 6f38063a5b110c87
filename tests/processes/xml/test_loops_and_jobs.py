"""Multi-instance, asynchronous continuations, retries, priorities, mappings and listeners."""

import pytest

from jobexec.processes.definition import Expression, JobOptions, Language, Listener, Loop, Mapping, When
from tests.processes.support.bpmn import activity, read_process

VENDORS = ["camunda", "flowable", "activiti"]


def juel(text):
    return Expression(text)


def feel(text):
    return Expression(text, Language.FEEL)


def loop(attributes="", inside="", dialect="camunda", extensions=""):
    extra = f"<extensionElements>{extensions}</extensionElements>" if extensions else ""
    name = "multiInstanceLoopCharacteristics"
    return activity("task", dialect, inside=f"<{name} {attributes}>{extra}{inside}</{name}>").loop


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("", JobOptions()),
        ('V:async="true"', JobOptions(before=True)),
        ('V:asyncBefore="true"', JobOptions(before=True)),
        ('V:asyncAfter="true"', JobOptions(after=True)),
        ('V:async="true" V:asyncBefore="true"', JobOptions(before=True)),
        ('V:async="true" V:asyncBefore="false"', JobOptions(before=True)),
        ('V:asyncAfter="true" V:asyncLeave="true"', JobOptions(after=True)),
        ('V:asyncLeave="true"', JobOptions(after=True)),
        ('V:asyncBefore="true" V:exclusive="false"', JobOptions(before=True, exclusive=False)),
        ('V:asyncBefore="1" V:exclusive="0"', JobOptions(before=True, exclusive=False)),
        ('V:jobPriority="7"', JobOptions(priority=7)),
        ('V:jobPriority="${p}"', JobOptions(priority=juel("${p}"))),
        ('V:taskPriority="7"', JobOptions(priority=7)),
        ('jobexec:category="slow"', JobOptions(category="slow")),
        ('V:category="slow"', JobOptions(category="slow")),
    ],
)
def test_job_options(vendor, attributes, expected):
    assert activity(f"task {attributes.replace('V:', vendor + ':')}", vendor).jobs == expected


@pytest.mark.parametrize(
    ("dialect", "extension"),
    [
        ("camunda", "<camunda:failedJobRetryTimeCycle>R5/PT5M</camunda:failedJobRetryTimeCycle>"),
        ("camunda", "<fox:failedJobRetryTimeCycle>R5/PT5M</fox:failedJobRetryTimeCycle>"),
        ("flowable", "<flowable:failedJobRetryTimeCycle> R5/PT5M </flowable:failedJobRetryTimeCycle>"),
    ],
)
def test_retry_plan(dialect, extension):
    assert activity("task", dialect, extensions=extension).jobs.retry_plan == "R5/PT5M"


def test_retry_plan_as_an_expression_and_of_the_process():
    cycle = "<camunda:failedJobRetryTimeCycle>${plan}</camunda:failedJobRetryTimeCycle>"
    assert activity("task", extensions=cycle).jobs.retry_plan == juel("${plan}")
    found = read_process(f'<extensionElements>{cycle}</extensionElements><startEvent id="s"/>')
    assert found.retry_plan == juel("${plan}")


def test_priority_of_zeebe():
    extensions = '<zeebe:taskDefinition type="t"/><zeebe:priorityDefinition priority="=p"/>'
    assert activity("serviceTask", "zeebe", extensions=extensions).jobs.priority == feel("=p")


@pytest.mark.parametrize(
    "vendor",
    VENDORS,
)
def test_loop_over_a_collection(vendor):
    attributes = f'isSequential="true" {vendor}:collection="items" {vendor}:elementVariable="item"'
    condition = '<completionCondition xsi:type="tFormalExpression">${nrOfCompletedInstances > 2}</completionCondition>'
    assert loop(attributes, condition, vendor) == Loop(
        sequential=True,
        collection=juel("${items}"),
        item="item",
        completion=juel("${nrOfCompletedInstances > 2}"),
    )


def test_loop_by_number():
    assert loop(inside="<loopCardinality>3</loopCardinality>") == Loop(cardinality=3)
    assert loop(inside="<loopCardinality>${n}</loopCardinality>") == Loop(cardinality=juel("${n}"))
    assert loop('camunda:collection="${order.items}"') == Loop(collection=juel("${order.items}"))


def test_jobs_of_the_instances_inside():
    cycle = "<camunda:failedJobRetryTimeCycle>R1/PT1S</camunda:failedJobRetryTimeCycle>"
    found = loop('camunda:collection="a" camunda:asyncBefore="true" camunda:exclusive="false"', extensions=cycle)
    assert found.jobs == JobOptions(before=True, exclusive=False, retry_plan="R1/PT1S")


def test_loop_of_zeebe():
    extensions = (
        '<zeebe:loopCharacteristics inputCollection="=items" inputElement="item" outputCollection="results" '
        'outputElement="=item * 2"/>'
    )
    condition = "<completionCondition>=count(results) > 2</completionCondition>"
    assert loop("", condition, "zeebe", extensions) == Loop(
        collection=feel("=items"),
        item="item",
        result=feel("=item * 2"),
        results="results",
        completion=feel("=count(results) > 2"),
        first=1,
    )


@pytest.mark.parametrize(
    ("output", "name"),
    [
        ("=res", "res"),
        ("=res.total", "res"),
        ("=res + 1", None),
        ("=item", None),
        ("=loopCounter", None),
        ("=item.total", None),
    ],
)
def test_the_variable_of_a_result_belongs_to_each_instance(output, name):
    extensions = (
        f'<zeebe:loopCharacteristics inputCollection="=items" inputElement="item" outputElement="{output}" '
        'outputCollection="all"/>'
    )
    assert loop("", "", "zeebe", extensions).result_name == name


def test_mappings_of_camunda():
    extensions = (
        "<camunda:inputOutput>"
        '<camunda:inputParameter name="text">Order ${id}</camunda:inputParameter>'
        '<camunda:inputParameter name="empty"/>'
        '<camunda:inputParameter name="list"><camunda:list><camunda:value>1</camunda:value>'
        "<camunda:value>${b}</camunda:value></camunda:list></camunda:inputParameter>"
        '<camunda:inputParameter name="map"><camunda:map><camunda:entry key="k">v</camunda:entry>'
        '<camunda:entry key="l"><camunda:list/></camunda:entry></camunda:map></camunda:inputParameter>'
        '<camunda:outputParameter name="r">${result}</camunda:outputParameter>'
        "</camunda:inputOutput>"
    )
    node = activity("task", extensions=extensions)
    assert node.inputs == (
        Mapping("text", juel("Order ${id}")),
        Mapping("empty"),
        Mapping("list", ["1", juel("${b}")]),
        Mapping("map", {"k": "v", "l": []}),
    )
    assert node.outputs == (Mapping("r", juel("${result}")),)


def test_mappings_of_zeebe():
    extensions = (
        '<zeebe:ioMapping><zeebe:input source="=a.b" target="c"/><zeebe:input source="text" target="t"/>'
        '<zeebe:output source="=r" target="order.result"/></zeebe:ioMapping>'
    )
    node = activity("task", "zeebe", extensions=extensions)
    assert node.inputs == (Mapping("c", feel("=a.b"), zeebe=True), Mapping("t", "text", zeebe=True))
    assert node.outputs == (Mapping("order.result", feel("=r"), zeebe=True),)
    assert node.keeps_variables


def test_listeners():
    extensions = (
        '<camunda:executionListener event="start" delegateExpression="${audit}"/>'
        '<camunda:executionListener event="end" class="org.acme.Audit"/>'
        '<camunda:executionListener event="end" expression="${note(1)}"/>'
        '<camunda:taskListener event="create" delegateExpression="#{audit}"/>'
        '<camunda:taskListener event="complete" class="A"/>'
    )
    assert activity("userTask", extensions=extensions).listeners == (
        Listener(When.START, "audit"),
        Listener(When.END, "org.acme.Audit"),
        Listener(When.END, None, juel("${note(1)}")),
        Listener(When.CREATE, "audit"),
        Listener(When.COMPLETE, "A"),
    )


def test_listener_to_all_events():
    found = activity("userTask", "flowable", extensions='<flowable:taskListener event="all" class="A"/>').listeners
    assert {listener.when for listener in found} == {When.CREATE, When.ASSIGNMENT, When.COMPLETE, When.DELETE}


def test_listeners_of_a_flow_and_of_the_process():
    listener = '<extensionElements><camunda:executionListener event="{}" class="A"/></extensionElements>'
    found = read_process(
        listener.format("start")
        + '<startEvent id="s"/><sequenceFlow id="f" sourceRef="s" targetRef="e">'
        + listener.format("take")
        + '</sequenceFlow><endEvent id="e"/>'
    )
    assert found.flow("f").listeners == (Listener(When.TAKE, "A"),)
    assert found.listeners == (Listener(When.START, "A"),)


def test_a_listener_of_a_flow_needs_no_event():
    found = read_process(
        '<startEvent id="s"/><sequenceFlow id="f" sourceRef="s" targetRef="e"><extensionElements>'
        '<camunda:executionListener class="A"/></extensionElements></sequenceFlow><endEvent id="e"/>'
    )
    assert found.flow("f").listeners == (Listener(When.TAKE, "A"),)


def test_categories_of_flowable():
    extension = "<flowable:jobCategory>slow</flowable:jobCategory>"
    assert activity("task", "flowable", extensions=extension).jobs.category == "slow"
    node = activity('userTask flowable:category="purchases"', "flowable")
    assert (node.jobs.category, node.properties) == (None, {"category": "purchases"})
