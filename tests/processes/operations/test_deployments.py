"""Deployment-aware nodes: the jobs of a process belong to the code that has deployed its file."""

import pytest
from django.db import connections

from jobexec import job
from jobexec.models import JOB_TABLES, Deployment
from jobexec.operations.nodes.deployments import retire_deployments
from jobexec.processes.flows.builder import Flow
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.models import ProcessDefinition
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.events import signal
from jobexec.processes.operations.start import start
from tests.processes.support.bpmn import definitions

pytest.importorskip("lxml")

KEY = '<extensionElements><zeebe:subscription correlationKey="=&quot;17&quot;"/></extensionElements>'
ZEEBE = 'xmlns:zeebe="http://camunda.org/schema/zeebe/1.0"'
TOP = f'<message id="m" name="paid" {ZEEBE}>{KEY}</message><signal id="g" name="news"/>'
KINDS = {
    "later": '<task id="x" camunda:asyncBefore="true"/>',
    "timer": '<intermediateCatchEvent id="x"><timerEventDefinition><timeDuration>PT1H</timeDuration>'
    "</timerEventDefinition></intermediateCatchEvent>",
    "message": '<intermediateCatchEvent id="x"><messageEventDefinition messageRef="m"/></intermediateCatchEvent>',
    "external": '<serviceTask id="x" camunda:type="external" camunda:topic="pack"/>',
    "outside": '<serviceTask id="x" camunda:delegateExpression="${tests.deployments.outside}"/>',
}


@service_task("tests.deployments.outside", transaction=False)
def outside(context):
    """Never called."""


@job(name="tests.deployments.step")
def step():
    """Never called."""


@job(name="tests.deployments.of_all", deployment=None)
def of_all(number=0):
    """Never called."""


@pytest.fixture
def code(settings):
    """The code of this process is that of a deployment."""

    def of(deployment):
        settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}, "DEPLOYMENT": deployment}

    return of


def deployments(alias):
    found = (table._base_manager.using(alias).values_list("deployment_id", flat=True) for table in JOB_TABLES)
    return sorted(id for rows in found for id in rows)


def deployed(alias, content):
    ends = '<sequenceFlow id="a" sourceRef="s" targetRef="x"/><sequenceFlow id="b" sourceRef="x" targetRef="e"/>'
    body = f'<startEvent id="s"/>{content}<endEvent id="e"/>{ends}'
    deploy(("p.bpmn", definitions(f'{TOP}<process id="order" isExecutable="true">{body}</process>')), using=alias)


@pytest.mark.parametrize("kind", KINDS)
def test_its_jobs_belong_to_the_code_that_has_deployed_it(alias, code, kind):
    code("shop:2")
    deployed(alias, KINDS[kind])
    code("shop:3")
    start("order", using=alias)
    assert deployments(alias) == ["shop:2"]


@pytest.mark.parametrize(
    "event",
    [
        "<timerEventDefinition><timeCycle>R/PT1H</timeCycle></timerEventDefinition>",
        '<signalEventDefinition signalRef="g"/>',
    ],
)
def test_so_do_the_jobs_of_its_start_events(alias, code, event):
    code("shop:2")
    body = f'<startEvent id="s">{event}</startEvent><endEvent id="e"/>'
    body += '<sequenceFlow id="a" sourceRef="s" targetRef="e"/>'
    deploy(("p.bpmn", definitions(f'{TOP}<process id="order" isExecutable="true">{body}</process>')), using=alias)
    code("shop:3")
    signal("news", using=alias)
    assert deployments(alias) == ["shop:2"]


def test_those_of_what_was_deployed_without_one_belong_to_the_code_that_takes_the_step(alias, code):
    code(None)
    deployed(alias, KINDS["later"])
    code("shop:3")
    start("order", using=alias)
    assert deployments(alias) == ["shop:3"]


def test_so_do_those_of_flows_whose_shape_all_versions_share(alias, code):
    for deployment in ("shop:2", "shop:3"):
        code(deployment)
        flow = Flow("order")
        flow.step(step)
        flow.step(of_all)
        flow.start(using=alias)
    assert deployments(alias) == ["", "", "shop:2", "shop:3"]  # and a function of all versions stays one


def test_what_a_definition_names_is_not_retired(alias, code):
    Deployment.objects.using(alias).bulk_create(
        [Deployment(id=f"shop:{version}", name="shop", version=version) for version in "12"]
    )
    code("shop:1")
    deployed(alias, KINDS["later"])
    result = retire_deployments(["shop:1", "shop:2"], using=alias)
    assert (result.changed, result.skipped) == (["shop:2"], {"shop:1": "process definitions refer to it"})
    ProcessDefinition.objects.using(alias).all().delete()
    assert retire_deployments(["shop:1"], using=alias).changed == ["shop:1"]
