"""Each kind of job that an element has is a job definition, which operators suspend and give a priority."""

import pytest
from django.db import transaction

from jobexec import job, operations
from jobexec.models import JOB_TABLES, ExternalWorkerJob, Job, JobDefinition
from jobexec.operations.batches.definitions import override_priority
from jobexec.operations.external.settle import complete_external_job
from jobexec.operations.manage.priority_overrides import apply_overrides
from jobexec.processes.definition import InvalidProcess
from jobexec.processes.flows.builder import Flow
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.start import start
from jobexec.testing import ManualExecutor
from tests.processes.support.bpmn import definitions

pytest.importorskip("lxml")


@service_task("tests.definitions.outside")
def outside(context):
    pass


TIMER = "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>"
FORK = (
    "task",
    "many",
    "gate",
    "wait",
    "part",
    "ext",
    "paid",
)
BODY = (
    '<startEvent id="s"/><parallelGateway id="fork"/>'
    f'<startEvent id="nightly">{TIMER}</startEvent><endEvent id="ne"/>'
    '<sequenceFlow id="n" sourceRef="nightly" targetRef="ne"/>'
    '<task id="task" camunda:asyncBefore="true" camunda:jobPriority="7" camunda:exclusive="false"/>'
    '<task id="many" camunda:asyncAfter="true"><multiInstanceLoopCharacteristics camunda:asyncBefore="true">'
    "<loopCardinality>2</loopCardinality></multiInstanceLoopCharacteristics></task>"
    f'<eventBasedGateway id="gate"/><intermediateCatchEvent id="first">{TIMER}</intermediateCatchEvent>'
    f'<intermediateCatchEvent id="second">{TIMER}</intermediateCatchEvent>'
    '<sequenceFlow id="g1" sourceRef="gate" targetRef="first"/>'
    '<sequenceFlow id="g2" sourceRef="gate" targetRef="second"/>'
    f'<intermediateCatchEvent id="wait">{TIMER}</intermediateCatchEvent>'
    '<subProcess id="part"><startEvent id="ps"/><userTask id="pt"/>'
    '<sequenceFlow id="pf" sourceRef="ps" targetRef="pt"/>'
    f'<subProcess id="late" triggeredByEvent="true"><startEvent id="ls">{TIMER}</startEvent></subProcess></subProcess>'
    f'<boundaryEvent id="edge" attachedToRef="part">{TIMER}</boundaryEvent>'
    '<serviceTask id="ext" camunda:type="external" camunda:topic="pay" camunda:taskPriority="${5}"/>'
    '<serviceTask id="out" camunda:delegateExpression="${tests.definitions.outside}" jobexec:transaction="outside"/>'
    '<sequenceFlow id="o" sourceRef="part" targetRef="out"/>'
    '<receiveTask id="paid" messageRef="m"/>'
    + '<sequenceFlow id="f0" sourceRef="s" targetRef="fork"/>'
    + "".join(f'<sequenceFlow id="f-{id}" sourceRef="fork" targetRef="{id}"/>' for id in FORK)
)
KEYED = (
    '<message id="m" name="paid"><extensionElements><zeebe:subscription correlationKey="=1" '
    'xmlns:zeebe="http://camunda.org/schema/zeebe/1.0"/></extensionElements></message>'
)


def file(body=BODY, attributes=""):
    return definitions(
        f'{KEYED}<process id="p" isExecutable="true" camunda:jobPriority="2" {attributes}>{body}</process>'
    )


EXPECTED = {
    "p#nightly#timer": "jobexec.processes.start",
    "p#task#continue": "jobexec.processes.continue",
    "p#many#continue": "jobexec.processes.continue",
    "p#many#inner": "jobexec.processes.continue",
    "p#first#timer": "jobexec.processes.timer",
    "p#second#timer": "jobexec.processes.timer",
    "p#wait#timer": "jobexec.processes.timer",
    "p#ls#timer": "jobexec.processes.timer",
    "p#edge#timer": "jobexec.processes.timer",
    "p#ext#external": "pay",
    "p#out#run": "step:tests.definitions.outside",
    "p#paid#message": "jobexec.processes.receive",
}


def ids(alias):
    found = set()
    for table in JOB_TABLES:
        found |= set(table._base_manager.using(alias).values_list("job_definition_id", flat=True))
    return found


@pytest.mark.every_database
def test_each_has_one_and_each_job_names_its_own(alias):
    deploy(("p.bpmn", file()), using=alias)
    rows = JobDefinition.objects.using(alias)
    assert dict(rows.values_list("id", "handler_type")) == EXPECTED
    assert set(rows.values_list("process_definition_key", flat=True)) == {"p"}
    start("p", using=alias)
    named = ids(alias)
    while Job.objects.using(alias).filter(failed_activity_id="many").exists():
        assert ManualExecutor(alias).run_due()
        named |= ids(alias)
    assert named == EXPECTED.keys() - {"p#out#run"}


def test_what_they_say(alias):
    deploy(("p.bpmn", file(attributes='camunda:failedJobRetryTimeCycle="R5/PT1M"')), using=alias)

    def row(id):
        found = JobDefinition.objects.using(alias).get(pk=id)
        return found.priority, found.retry_plan, found.exclusive, found.atomic, found.category

    assert row("p#task#continue") == (7, "R5/PT1M", False, True, "default")
    assert row("p#wait#timer") == (2, "R5/PT1M", True, True, "default")
    assert row("p#ext#external") == (0, "R5/PT1M", False, False, "default")
    assert row("p#out#run") == (2, "R5/PT1M", True, False, "default")


def test_several_processes_and_later_versions(alias):
    two = definitions(
        "".join(
            f'<process id="{key}" isExecutable="true"><startEvent id="s"/><task id="t" camunda:asyncBefore="true"/>'
            '<sequenceFlow id="f" sourceRef="s" targetRef="t"/></process>'
            for key in ("a", "b")
        )
    )
    deploy(("two.bpmn", two), using=alias)
    ids = JobDefinition.objects.using(alias).values_list("id", flat=True)
    assert set(ids) == {"a#t#continue", "b#t#continue"}
    operations.override_priority("a#t#continue", 50, using=alias)
    deploy(("two.bpmn", two.replace(b'asyncBefore="true"', b'asyncBefore="true" camunda:jobPriority="3"')), using=alias)
    found = JobDefinition.objects.using(alias).get(pk="a#t#continue")
    assert (found.priority, found.overriding_priority) == (3, 50)


@pytest.mark.gate
def test_operators_suspend_and_override_one_activity(alias):
    deploy(("p.bpmn", file()), using=alias)
    operations.override_priority("p#task#continue", 50, using=alias)
    operations.suspend(job_definition_id="p#many#inner", using=alias)
    start("p", using=alias)
    executor = ManualExecutor(alias)
    apply_overrides(alias)
    assert Job.objects.using(alias).get(job_definition_id="p#task#continue").priority == 50
    assert len(executor.run_until_empty()) == 1, "the task"
    assert operations.activate(job_definition_id="p#many#inner", using=alias) == 2
    assert len(executor.run_until_empty()) == 3, "both instances, and then the body"


@pytest.mark.gate
def test_what_follows_a_worker_belongs_to_the_same_definition(alias):
    deploy(("p.bpmn", file()), using=alias)
    start("p", using=alias)
    ManualExecutor(alias).run_until_empty()
    complete_external_job(alias, ExternalWorkerJob.objects.using(alias).get().job_key, {})
    operations.suspend(job_definition_id="p#ext#external", using=alias)
    assert ManualExecutor(alias).run_until_empty() == []
    operations.activate(job_definition_id="p#ext#external", using=alias)
    assert len(ManualExecutor(alias).run_until_empty()) == 1


@pytest.mark.parametrize(("before", "element"), [('camunda:jobPriority="7"', "task"), ('camunda:jobPriority="2"', "p")])
def test_a_priority_that_is_too_high_is_refused(alias, before, element):
    wrong = file().replace(before.encode(), b'camunda:jobPriority="9999999999"')
    with pytest.raises(InvalidProcess, match=rf"{element}: The priority of its jobs is 9999999999; expected a whole"):
        deploy(("p.bpmn", wrong), using=alias)


@job(name="tests.definitions.charge", priority=3, retries="R7/PT1M")
def charge(number):
    return number


def started(alias, *steps):
    flow = Flow("shop")
    for name in steps:
        flow.step(charge.using(priority=9).s(5) if name == "urgent" else charge.s(5), name=name)
    return flow.start(using=alias)


@pytest.mark.every_database
@pytest.mark.transactional
def test_they_say_what_the_latest_shape_of_a_flow_says(alias):
    row = JobDefinition.objects.using(alias).filter(pk="shop#urgent#run")
    with transaction.atomic(using=alias):
        started(alias, "charge", "urgent")
    override_priority("shop#urgent#run", 1, using=alias)
    flow = Flow("shop")
    flow.step(charge.using(priority=4).s(5), name="urgent")
    with transaction.atomic(using=alias):
        flow.start(using=alias)
        assert row.get().priority == 9, "it is not locked for as long as the caller takes"
    assert (row.get().priority, row.get().overriding_priority) == (4, 1)
    assert JobDefinition.objects.using(alias).filter(pk="shop#charge#run").exists()


@pytest.mark.every_database
def test_each_step_of_a_flow_has_one(alias):
    started(alias, "charge", "urgent")
    rows = {row.pk: row for row in JobDefinition.objects.using(alias).filter(process_definition_key="shop")}
    assert set(rows) == {"shop#charge#run", "shop#urgent#run"}
    first = rows["shop#charge#run"]
    assert (first.handler_type, first.priority, first.retry_plan) == ("step:tests.definitions.charge", 3, "R7/PT1M")
    assert (first.atomic, rows["shop#urgent#run"].priority) == (False, 9)
    operations.suspend(job_definition_id="shop#charge#run", using=alias)
    override_priority("shop#urgent#run", 1, using=alias)
    started(alias, "charge", "urgent", "ship")
    assert JobDefinition.objects.using(alias).filter(pk="shop#ship#run").exists()
    kept = JobDefinition.objects.using(alias).get(pk="shop#urgent#run")
    assert kept.overriding_priority == 1, "another shape leaves it alone"
    done = ManualExecutor(alias).run_until_empty()
    assert len(done) == 3, "two urgent ones, and one that ships"
    held = [row.job_definition_id for table in JOB_TABLES for row in table._base_manager.using(alias)]
    assert held == ["shop#charge#run"] * 2
