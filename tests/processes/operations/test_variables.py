"""How large variables may be, through every door; and which of them are not shown."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections, transaction

from jobexec import job
from jobexec.exceptions import DoNotRetry, InvalidJob
from jobexec.models import DeadLetterJob, ExternalWorkerJob, Job, TimerJob
from jobexec.operations.external.settle import complete_external_job
from jobexec.processes.exceptions import InstanceBusy
from jobexec.processes.flows.builder import Flow
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.handlers.results import check_variables, checked
from jobexec.processes.models import ProcessInstance, UserTask, Variable
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.events import correlate, signal
from jobexec.processes.operations.instances import cancel, set_variables
from jobexec.processes.operations.start import start
from jobexec.processes.operations.user_tasks import complete
from jobexec.processes.store import lock
from jobexec.sensitive import HIDDEN
from tests.processes.support.bpmn import process

pytest.importorskip("lxml")

CALLS = []


@service_task("tests.variables.large")
def large(context):
    CALLS.append(context.element_id)
    context.variables["report"] = "x" * 2000


@job(name="tests.variables.returns")
def returns(size):
    CALLS.append(size)
    return "x" * size


@pytest.fixture(autouse=True)
def limits(settings):
    CALLS.clear()
    settings.JOBEXEC = {
        **settings.JOBEXEC,
        "PROCESSES": {"MAX_VALUE_SIZE": 1000, "MAX_VARIABLES_SIZE": 1800, "SENSITIVE": ["iban"], "LOCK_TIMEOUT": 1},
    }


MESSAGE = '<message id="m" name="paid"/><signal id="g" name="news"/>'


@pytest.fixture
def approval(alias):
    content = (
        '<startEvent id="s"/><userTask id="approve"/><endEvent id="e"/>'
        '<sequenceFlow id="f1" sourceRef="s" targetRef="approve"/>'
        '<sequenceFlow id="f2" sourceRef="approve" targetRef="wait"/>'
        '<intermediateCatchEvent id="wait"><messageEventDefinition messageRef="m"/></intermediateCatchEvent>'
        '<sequenceFlow id="f3" sourceRef="wait" targetRef="e"/>'
    )
    deploy(("p.bpmn", process(content, top=MESSAGE)), using=alias)
    return lambda **variables: start("p", variables=variables, using=alias)


TOO_LARGE = r"report: expected at most 1,000 bytes of JSON, got 2,002 \(MAX_VALUE_SIZE\)\."
REPORT = {"report": "x" * 2000}


def test_what_callers_give_is_measured_before_anything_happens(alias, approval):
    with pytest.raises(InvalidJob, match=TOO_LARGE):
        approval(**REPORT)
    assert not ProcessInstance.objects.using(alias).exists()
    instance = approval()
    task = UserTask.objects.using(alias).get()
    with pytest.raises(InvalidJob, match=TOO_LARGE):
        complete(task, REPORT, using=alias)
    with pytest.raises(InvalidJob, match=TOO_LARGE):
        set_variables(instance, REPORT, using=alias)
    with pytest.raises(InvalidJob, match=TOO_LARGE):
        correlate("paid", variables=REPORT, using=alias)
    with pytest.raises(InvalidJob, match=TOO_LARGE):
        signal("news", REPORT, using=alias)
    assert UserTask.objects.using(alias).get() == task
    assert not Variable.objects.using(alias).exists()


@pytest.mark.parametrize("name", ["", "n" * 256, 5])
def test_names_that_are_none(alias, approval, name):
    instance = approval()
    with pytest.raises(InvalidJob, match="name of a variable is a string of 1 to 255 characters"):
        set_variables(instance, {name: 1}, using=alias)


def test_the_variables_of_an_instance_together(alias, approval):
    instance = approval(a="x" * 900, b="y" * 700)
    message = (
        rf"a: the variables of the process instance {instance.pk} are 2,304 bytes of JSON, of which this one is 902"
    )
    with pytest.raises(InvalidJob, match=message):
        set_variables(instance, {"c": "z" * 698}, using=alias)
    set_variables(instance, {"c": "z", "a": 1}, using=alias)
    task = UserTask.objects.using(alias).get()
    complete(task, {"c": "z" * 900}, using=alias)
    with pytest.raises(InvalidJob, match="MAX_VARIABLES_SIZE"):
        correlate("paid", variables={"d": "z" * 900}, using=alias)
    assert correlate("paid", variables={"b": None, "d": "z" * 800}, using=alias) == 1


def test_what_a_handler_in_the_step_makes(alias):
    content = (
        '<startEvent id="s"/><serviceTask id="make" camunda:delegateExpression="${tests.variables.large}"/>'
        '<sequenceFlow id="f1" sourceRef="s" targetRef="make"/>'
    )
    deploy(("p.bpmn", process(content)), using=alias)
    with pytest.raises(InvalidJob, match=TOO_LARGE):
        start("p", using=alias)
    assert CALLS == ["make"]
    assert not ProcessInstance.objects.using(alias).exists()


@service_task("tests.variables.both")
def both(context):
    context.variables["parcel"] = 17
    context.variables["receipt"] = "is overwritten"
    return "r1"


def test_a_result_and_what_the_handler_has_changed(alias):
    content = (
        '<startEvent id="s"/><serviceTask id="pay" camunda:delegateExpression="${tests.variables.both}" '
        'camunda:resultVariable="receipt"/><sequenceFlow id="f1" sourceRef="s" targetRef="pay"/>'
    )
    deploy(("p.bpmn", process(content)), using=alias)
    assert start("p", using=alias).final_variables == {"parcel": 17, "receipt": "r1"}


@pytest.mark.parametrize("size", [2000, 900])
def test_what_a_step_of_a_flow_returns_is_not_made_again(alias, run_jobs, size):
    flow = Flow("report")
    first = flow.step(returns, size, name="first")
    second = flow.step(returns, 850, after=first, name="second")
    flow.step(returns, 1, after=second, name="third")
    flow.start(using=alias)
    run_jobs()
    dead = DeadLetterJob.objects.using(alias).get()
    assert "It has run, but its result cannot be kept" in dead.exception_message
    assert ([2000] if size == 2000 else [900, 850]) == CALLS
    assert ("MAX_VALUE_SIZE" if size == 2000 else "MAX_VARIABLES_SIZE") in dead.exception_message


def test_a_result_of_a_function_with_the_longest_name():
    assert checked("fine", f"tests.{'n' * 244}") == "fine"


def test_a_result_of_a_function_with_a_sensitive_word_in_its_name():
    with pytest.raises(DoNotRetry, match=r"result of shop.reset_password\['sent'\]: expected JSON, got 1j") as raised:
        checked({"sent": 1j, "iban": b"DE02"}, "shop.reset_password")
    assert "DE02" not in str(raised.value)


def test_a_sensitive_variable_is_not_quoted():
    with pytest.raises(InvalidJob) as raised:
        check_variables({"customer_iban": b"DE02"})
    assert str(raised.value) == "customer_iban: expected JSON, also below its sensitive names."


def test_what_a_worker_sends(alias, run_jobs):
    content = (
        '<startEvent id="s"/><serviceTask id="pay" camunda:type="external" camunda:topic="pay"/>'
        '<sequenceFlow id="f1" sourceRef="s" targetRef="pay"/>'
    )
    deploy(("p.bpmn", process(content)), using=alias)
    start("p", using=alias)
    row = ExternalWorkerJob.objects.using(alias).get()
    complete_external_job(alias, row.job_key, REPORT)
    (result,) = run_jobs()
    assert not result.successful
    assert "report: expected at most 1,000 bytes" in TimerJob.objects.using(alias).get().exception_message


def test_sensitive_variables_are_not_kept_when_the_process_is_over(alias, approval):
    instance = approval(customer_iban="DE02", amount=5)
    job = Variable.objects.using(alias).get(name="customer_iban")
    assert job.value == "DE02"
    cancel(instance, using=alias)
    assert ProcessInstance.objects.using(alias).get().final_variables == {"customer_iban": HIDDEN, "amount": 5}


@pytest.mark.gate
@pytest.mark.transactional
@pytest.mark.every_database
@pytest.mark.databases("postgresql", "mariadb")
def test_a_caller_does_not_wait_for_ever(alias, approval):
    instance = approval()

    def elsewhere():
        try:
            with pytest.raises(
                InstanceBusy, match=f"step of the process instance {instance.pk} has not ended within 1 s"
            ):
                set_variables(instance, {"a": 1}, using=alias)
        finally:
            connections[alias].close()

    with transaction.atomic(using=alias), ThreadPoolExecutor(1) as threads:
        lock.locked(alias, instance.pk)
        threads.submit(elsewhere).result()
    set_variables(instance, {"a": 2}, using=alias)
    assert Variable.objects.using(alias).get().value == 2
    assert not Job.objects.using(alias).exists()
