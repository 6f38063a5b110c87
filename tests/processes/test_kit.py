"""The test kit of processes, as a project uses it."""

import subprocess
import sys
from datetime import timedelta

import pytest

from jobexec.exceptions import HandlerNotFound
from jobexec.models import JOB_TABLES, Incident, JobDefinition, JobLog
from jobexec.processes import models, testing
from jobexec.processes.definition import InvalidProcess
from jobexec.processes.handlers.registry import find_service, service_task
from jobexec.processes.operations.start import start
from jobexec.processes.testing import (
    advance,
    assert_ended,
    assert_waits_at,
    complete_task,
    controlled_clock,
    plugin,
    process,
    run_jobs,
    variables_of,
)
from jobexec.testing import ManualExecutor
from tests.processes.support.bpmn import definitions

pytest.importorskip("lxml")

ORDER = definitions(
    '<process id="order" isExecutable="true"><startEvent id="s"/><userTask id="approve"/>'
    '<serviceTask id="ship" camunda:asyncBefore="true" camunda:class="tests.kit.ship"/><endEvent id="shipped"/>'
    '<boundaryEvent id="late" attachedToRef="approve"><timerEventDefinition><timeDuration>PT1H</timeDuration>'
    '</timerEventDefinition></boundaryEvent><endEvent id="too_late"/>'
    '<sequenceFlow id="f1" sourceRef="s" targetRef="approve"/>'
    '<sequenceFlow id="f2" sourceRef="approve" targetRef="ship"/>'
    '<sequenceFlow id="f3" sourceRef="ship" targetRef="shipped"/>'
    '<sequenceFlow id="f4" sourceRef="late" targetRef="too_late"/></process>'
    '<process id="caller" isExecutable="true"><startEvent id="s"/><callActivity id="call" calledElement="order"/>'
    '<startEvent id="daily"><timerEventDefinition><timeCycle>R2/P1D</timeCycle></timerEventDefinition></startEvent>'
    '<startEvent id="asked"><messageEventDefinition messageRef="m"/></startEvent>'
    '<sequenceFlow id="f1" sourceRef="s" targetRef="call"/><sequenceFlow id="f2" sourceRef="daily" targetRef="call"/>'
    '<sequenceFlow id="f3" sourceRef="asked" targetRef="call"/></process><message id="m" name="ask"/>'
)
SHIP = {"tests.kit.ship": lambda context: {"parcel": 17}}


@service_task("tests.kit.real")
def real(context):
    raise AssertionError


def assert_nothing_is_left(alias):
    for model in (*JOB_TABLES, *vars(models).values(), JobDefinition, Incident, JobLog):
        if isinstance(model, type) and hasattr(model, "_base_manager"):
            assert not model._base_manager.using(alias).exists(), model


@pytest.mark.every_database
def test_an_instance_from_its_start_to_its_end(alias):
    with process(ORDER, services=SHIP, using=alias) as made:
        assert [row.key for row in made] == ["order", "caller"]
        instance = start("order", variables={"amount": 5}, using=alias)
        assert_waits_at(instance, "approve")
        complete_task(instance, approved=True)
        assert_waits_at(instance, "ship")
        assert [result.outcome for result in run_jobs(using=alias)] == ["successful"]
        assert_ended(instance, at="shipped")
        assert variables_of(instance) == {"amount": 5, "approved": True, "parcel": 17}
        called = start("caller", using=alias)
        assert_waits_at(called, "call")
        complete_task(called, "approve")
        assert variables_of(called) == {}
    assert_nothing_is_left(alias)


def test_incidents_go_with_their_instances(alias):
    def broken(context):
        raise ValueError("no")

    with process(ORDER, services={"tests.kit.ship": broken}, using=alias), controlled_clock():
        complete_task(start("order", variables={"amount": 5}, using=alias), approved=True)
        run_jobs(advance=True, reraise=False, using=alias)
        assert Incident.objects.using(alias).exists()
    assert_nothing_is_left(alias)


@pytest.mark.gate
def test_time(alias):
    with process(ORDER.decode(), services=SHIP, using=alias), controlled_clock():
        instance, other = start("order", using=alias), start("order", using=alias)
        complete_task(other)
        assert run_jobs(using=alias)
        assert_waits_at(instance, "approve")
        advance(timedelta(hours=1))
        run_jobs(using=alias)
        assert_ended(instance, at="too_late")
        third = start("order", using=alias)
        run_jobs(advance=True, using=alias)
        assert_ended(third, at="too_late")


@pytest.mark.gate
def test_what_a_failed_assertion_says(alias):
    def broken(context):
        raise ValueError("no van")

    with process(ORDER, services={"tests.kit.ship": broken}, using=alias):
        instance = start("order", using=alias)
        with pytest.raises(AssertionError, match=r"that waits at ship; it waits at approve\.\n  TimerJob at late$"):
            assert_waits_at(instance, "ship")
        with pytest.raises(AssertionError, match=r"that waits at approve, ship; it waits at approve\."):
            assert_waits_at(instance, "approve", "ship")
        with pytest.raises(AssertionError, match=r"that has completed at shipped; it waits at approve"):
            assert_ended(instance, at="shipped")
        with pytest.raises(AssertionError, match=r"a user task at pay, found 0 of the open tasks at approve"):
            complete_task(instance, "pay")
        complete_task(instance)
        with pytest.raises(ValueError, match="no van"):
            run_jobs(using=alias)
        with pytest.raises(AssertionError, match=r"it waits at ship\.\n  TimerJob at ship: ValueError: no van"):
            assert_waits_at(instance)
        with pytest.raises(AssertionError, match=r"one user task, found 0 of the open tasks at nothing"):
            complete_task(instance)


def test_services_stand_in_for_the_block_only(alias, tmp_path):
    path = tmp_path / "order.bpmn"
    path.write_bytes(ORDER)
    with pytest.raises(InvalidProcess, match=r"No service task 'tests\.kit\.ship'"), process(path, using=alias):
        pass
    stand_in = SHIP["tests.kit.ship"]
    with process(str(path), services={**SHIP, "tests.kit.real": stand_in}, using=alias):
        assert find_service("tests.kit.real") is find_service("tests.kit.ship") is stand_in
    assert find_service("tests.kit.real") is real
    with pytest.raises(HandlerNotFound):
        find_service("tests.kit.ship")


@pytest.mark.gate
def test_importing_it_loads_no_models():
    code = (
        "import sys; import jobexec.processes.testing, jobexec.processes.testing.plugin; "
        "assert 'django.db' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert testing.__all__ == sorted(testing.__all__)
    assert {"process", "run_jobs", "assert_waits_at", "complete_task", "advance"} <= set(testing.__all__)


#: As an installed plugin has it.
deploys = plugin.jobexec_process


@pytest.fixture(name="jobexec_executor")
def executor(alias):
    return ManualExecutor(alias)


@pytest.fixture
def everything_goes(alias):
    yield
    assert_nothing_is_left(alias)


def test_the_fixture_of_the_plugin(alias, everything_goes, deploys):
    made = deploys(ORDER, services=SHIP)
    assert [row.key for row in made] == ["order", "caller"]
    assert_waits_at(start("order", using=alias), "approve")
