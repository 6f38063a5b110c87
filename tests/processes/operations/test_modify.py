"""Where an instance stands, changed by hand; and an instance that has ended, run again."""

import pytest

from jobexec import job
from jobexec.exceptions import DoNotRetry, InvalidJob
from jobexec.models import AuditLog, DeadLetterJob, Incident, Job, OperatorType
from jobexec.operations.audit import acting
from jobexec.operations.values.operator import Operator
from jobexec.processes.engine.exceptions import StepError
from jobexec.processes.exceptions import InstanceOver, InstanceRunning, Suspended
from jobexec.processes.flows.builder import Flow
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.models import ActivityInstance, Execution, ProcessInstance, UserTask
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.instances import cancel, set_retries, set_variables
from jobexec.processes.operations.modify import modify, restart
from jobexec.processes.operations.start import start
from jobexec.processes.operations.suspend import activate, suspend
from jobexec.processes.operations.user_tasks import claim, complete, release
from tests.processes.support.bpmn import around, process

DONE = []
#: The branches that fail.
BROKEN = set()


@pytest.fixture(autouse=True)
def done():
    DONE.clear()
    BROKEN.clear()


@service_task("tests.modify.pay")
def pay(context):
    DONE.append(context.element_id)
    raise ValueError("no money")


@job(name="tests.modify.step")
def step(name, fail=False):
    DONE.append(name)
    if fail:
        raise ValueError("broken")
    return name


ORDER = (
    '<startEvent id="s"/><serviceTask id="pay" camunda:asyncBefore="true" '
    'camunda:delegateExpression="${tests.modify.pay}" camunda:failedJobRetryTimeCycle="R1/PT1S"/>'
    '<userTask id="ship"/><endEvent id="e"/><boundaryEvent id="late" attachedToRef="ship"><timerEventDefinition>'
    '<timeDuration>PT1H</timeDuration></timerEventDefinition></boundaryEvent><endEvent id="never"/>'
    '<sequenceFlow id="f1" sourceRef="s" targetRef="pay"/><sequenceFlow id="f2" sourceRef="pay" targetRef="ship"/>'
    '<sequenceFlow id="f3" sourceRef="ship" targetRef="e"/><sequenceFlow id="f4" sourceRef="late" targetRef="never"/>'
)


@pytest.fixture
def order(alias):
    pytest.importorskip("lxml")
    deploy(("p.bpmn", process(ORDER)), using=alias)
    return start("p", business_key="4711", variables={"amount": 5}, using=alias)


def elements(alias, instance):
    rows = Execution.objects.using(alias).filter(instance_id=instance.pk)
    return sorted(rows.values_list("element_id", flat=True))


@pytest.mark.gate
@pytest.mark.every_database
def test_around_an_activity_that_fails(alias, order, run_jobs):
    run_jobs()
    assert DeadLetterJob.objects.using(alias).get().failed_activity_id == "pay"
    modify(order, using=alias).cancel("pay").start_before("ship", {"paid": "by hand"}).execute("no bank")
    assert elements(alias, order) == ["ship"]
    assert not DeadLetterJob.objects.using(alias).exists()
    assert set(Incident.objects.using(alias).values_list("state", flat=True)) == {"deleted"}
    complete(UserTask.objects.using(alias).get(), using=alias)
    order.refresh_from_db(using=alias)
    assert (order.state, order.end_element) == ("completed", "e")
    assert order.final_variables == {"amount": 5, "paid": "by hand"}


def test_after_an_activity_and_back(alias, order):
    modify(order.pk, using=alias).cancel("pay").start_after("pay").execute()
    assert elements(alias, order) == ["ship"]
    modify(order, using=alias).cancel("ship").start_before("pay").execute()
    assert elements(alias, order) == ["pay"]
    assert [row.handler_type for row in Job.objects.using(alias).all()] == ["jobexec.processes.continue"]
    assert not UserTask.objects.using(alias).exists()
    cancelled = ActivityInstance.objects.using(alias).get(element_id="ship")
    assert cancelled.state == "cancelled"


def test_what_does_not_fit_changes_nothing(alias, order):
    with pytest.raises(StepError, match="ship: Nothing at this element can be cancelled"):
        modify(order, using=alias).cancel("pay").cancel("ship").execute()
    with pytest.raises(StepError, match="nothing: There is no such element"):
        modify(order, using=alias).cancel("pay").start_before("nothing").execute()
    with pytest.raises(InvalidJob, match="at least one change"):
        modify(order, using=alias).execute()
    with pytest.raises(InvalidJob, match="element: expected the id of an element, got 5"):
        modify(order, using=alias).cancel(5)
    with pytest.raises(InvalidJob, match="amount: expected JSON"):
        modify(order, using=alias).start_before("pay", {"amount": object()})
    assert elements(alias, order) == ["pay"]
    assert Job.objects.using(alias).count() == 1


def test_nothing_is_left_or_it_is_over(alias, order):
    modify(order, using=alias).cancel("pay").execute("a mistake")
    order.refresh_from_db(using=alias)
    assert (order.state, order.delete_reason) == ("cancelled", "a mistake")
    with pytest.raises(InstanceOver):
        modify(order, using=alias).start_before("pay").execute()


@pytest.mark.gate
def test_a_suspended_instance_can_be_modified_and_stays_suspended(alias, order, run_jobs):
    suspend(order, using=alias)
    modify(order, using=alias).cancel("pay").start_before("pay").execute()
    assert run_jobs() == []
    activate(order, using=alias)
    run_jobs()
    assert DONE == ["pay"]


@pytest.mark.gate
@pytest.mark.every_database
def test_restart_before_an_activity(alias, order):
    with pytest.raises(InstanceRunning):
        restart(order, before="ship", using=alias)
    cancel(order, using=alias)
    again = restart(order, before="ship", variables={"note": "again"}, user="anna", using=alias)
    assert again.pk != order.pk
    assert (again.business_key, again.definition_id, again.start_user) == ("4711", order.definition_id, "anna")
    assert elements(alias, again) == ["ship"]
    complete(UserTask.objects.using(alias).get(), using=alias)
    again.refresh_from_db(using=alias)
    assert (again.state, again.final_variables) == ("completed", {"amount": 5, "note": "again"})
    assert elements(alias, restart(again, using=alias)) == ["pay"]
    assert elements(alias, restart(again, after=["pay"], before=["pay"], using=alias)) == ["pay", "ship"]


def test_restart_is_refused(alias, order, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "PROCESSES": {"SENSITIVE": ["amount"]}}
    cancel(order, using=alias)
    with pytest.raises(InvalidJob, match=r"variables: expected amount, whose values were not kept \(SENSITIVE\)"):
        restart(order, before="ship", using=alias)
    with pytest.raises(StepError, match="There is no such element"):
        restart(order, before="x", variables={"amount": 5}, using=alias)
    suspend("p", using=alias)
    with pytest.raises(Suspended):
        restart(order, before="ship", variables={"amount": 5}, using=alias)
    assert ProcessInstance.objects.using(alias).count() == 1
    activate("p", using=alias)
    restart(order, before="ship", variables={"amount": 5}, using=alias)


def shop():
    flow = Flow("shop")
    first = flow.step(step, "charge", name="charge")
    second = flow.step(step, "pack", True, after=first, name="pack")
    flow.step(step, first.result, after=second, name="ship")
    return flow


def test_a_flow_from_a_step(alias, run_jobs):
    instance = shop().start(using=alias)
    run_jobs()
    assert DONE == ["charge", "pack"]
    modify(instance, using=alias).cancel("pack").start_before("ship").execute()
    run_jobs()
    assert DONE == ["charge", "pack", "charge"], "the last one gets what the first one returned"
    instance.refresh_from_db(using=alias)
    assert instance.state == "completed"
    restart(instance, before="ship", using=alias)
    run_jobs()
    assert DONE[3:] == ["charge"]


@job(name="tests.modify.branch")
def branch(name, *given):
    """The second run of a step returns another result than the first one."""
    DONE.append((name, *given))
    if name in BROKEN:
        raise DoNotRetry("broken")
    return f"{name} {sum(name == each for each, *_ in DONE)}"


def branches():
    flow = Flow("branches")
    first = flow.step(branch, "order", name="order")
    packed = flow.step(branch, "pack", after=first, name="pack")
    charged = flow.step(branch, "charge", after=first, name="charge")
    flow.step(branch, "ship", packed.result, charged.result, after=[packed, charged], name="ship")
    flow.step(branch, "sorry", after=charged.failed, name="sorry")
    return flow


#: Where a restart begins, and what runs then. Another branch that does not run again has its result of the first run.
AGAIN = {
    "before one of the branches": ("charge", [("charge",), ("ship", "pack 1", "charge 2")]),
    "before both": (["pack", "charge"], [("pack",), ("charge",), ("ship", "pack 2", "charge 2")]),
    "before the fork": ("order", [("order",), ("pack",), ("charge",), ("ship", "pack 2", "charge 2")]),
    "behind the branches": ("ship", [("ship", "pack 1", "charge 1")]),
}


def restarted(alias, instance, run_jobs, before):
    """What runs in the restarted instance, how often its join is passed, and its results."""
    at = len(DONE)
    again = restart(instance, before=before, using=alias)
    run_jobs()
    again.refresh_from_db(using=alias)
    assert (again.state, elements(alias, again)) == ("completed", [])
    passed = ActivityInstance.objects.using(alias).filter(instance_id=again.pk, element_id="join.ship").count()
    return DONE[at:], passed, {name: again.final_variables.get(name) for name in ("pack", "charge", "ship", "sorry")}


@pytest.mark.parametrize("name", AGAIN)
def test_a_flow_from_a_step_before_a_join(alias, run_jobs, name):
    before, expected = AGAIN[name]
    instance = branches().start(using=alias)
    run_jobs()
    instance.refresh_from_db(using=alias)
    assert instance.state == "completed"
    ran, passed, results = restarted(alias, instance, run_jobs, before)
    assert (ran, passed) == (expected, 0 if before == "ship" else 1)
    assert results == {"pack": ran[-1][1], "charge": ran[-1][2], "ship": "ship 2", "sorry": None}


@pytest.mark.parametrize("name", ["before one of the branches", "before both", "before the fork"])
def test_a_flow_whose_step_had_failed(alias, run_jobs, name):
    """The first run took the way for the failure; the second one has not failed, so its join goes on."""
    before, expected = AGAIN[name]
    BROKEN.add("charge")
    instance = branches().start(using=alias)
    run_jobs()
    assert DONE == [("order",), ("pack",), ("charge",), ("sorry",)]
    BROKEN.clear()
    instance.refresh_from_db(using=alias)
    assert instance.state == "completed"
    ran, passed, results = restarted(alias, instance, run_jobs, before)
    assert (ran, passed) == (expected, 1)
    packed = ran[-1][1]
    assert results == {"pack": packed, "charge": "charge 2", "ship": "ship 1", "sorry": "sorry 1"}


def test_a_flow_whose_step_fails_again(alias, run_jobs):
    BROKEN.add("charge")
    instance = branches().start(using=alias)
    run_jobs()
    instance.refresh_from_db(using=alias)
    ran, passed, results = restarted(alias, instance, run_jobs, "charge")
    assert (ran, passed) == ([("charge",), ("sorry",)], 0)
    assert results == {"pack": "pack 1", "charge": None, "ship": None, "sorry": "sorry 2"}


@pytest.mark.gate
def test_what_failed_is_done_again(alias, order, run_jobs):
    other = start("p", using=alias)
    run_jobs()
    assert set_retries(order, 1, element="ship", using=alias) == set_retries(order, 1, element="Pay", using=alias) == 0
    assert set_retries(order, 2, element="pay", using=alias) == 1
    assert Job.objects.using(alias).get().process_instance_id == str(order.pk)
    assert set_retries(other, using=alias) == 1
    assert len(run_jobs()) == 2
    with pytest.raises(InvalidJob, match="retries"):
        set_retries(order, -1, using=alias)


@pytest.mark.gate
def test_they_are_in_the_audit_log(alias, order):
    with acting(Operator(OperatorType.USER, "anna")):
        modify(order, using=alias).cancel("pay").start_before("ship").execute("no bank")
        cancel(order, using=alias)
        again = restart(order, before="ship", using=alias)
    rows = AuditLog.objects.using(alias).order_by("pk").exclude(verb="cancel")
    assert list(rows.values_list("verb", "object_type", "object_id", "new_value")) == [
        (
            "modify_instance",
            "processinstance",
            str(order.pk),
            {"commands": ["cancel pay", "before ship"], "reason": "no bank"},
        ),
        (
            "restart",
            "processinstance",
            str(order.pk),
            {"started": str(again.pk), "commands": ["before ship"]},
        ),
    ]


def test_a_flow_whose_arguments_are_together_larger_than_a_value_is_restarted(alias, run_jobs, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "PROCESSES": {"MAX_VALUE_SIZE": 500, "MAX_VARIABLES_SIZE": 20_000}}
    flow = Flow("large")
    for number in range(20):
        flow.step(step, f"{number} {'x' * 50}", name=f"s{number}")
    found = flow.start(using=alias)
    run_jobs()
    restart(ProcessInstance.objects.using(alias).get(pk=found.pk), using=alias)
    run_jobs()
    assert len(DONE) == 40 and len(set(DONE)) == 20


def test_the_audit_log_has_the_tenant_of_what_is_changed(alias):
    pytest.importorskip("lxml")
    deploy(("p.bpmn", process(around('<userTask id="x"/>'))), tenant_id="north", using=alias)
    row = start("p", tenant_id="north", using=alias)
    task = UserTask.objects.using(alias).get()
    changes = (
        lambda: claim(task, "anna", using=alias),
        lambda: release(task, using=alias),
        lambda: set_variables(row, {"amount": 5}, using=alias),
        lambda: modify(row, using=alias).start_before("x").execute(),
        lambda: cancel(row, using=alias),
    )
    for change in changes:
        with acting(Operator(OperatorType.USER, "anna")):
            change()
    rows = AuditLog.objects.using(alias).order_by("pk").values_list("verb", "tenant_id")
    verbs = ("claim", "release", "set_variables", "modify_instance", "cancel")
    assert list(rows) == [(verb, "north") for verb in verbs]
