"""Instances are found by what they are and where they stand; async callers start and change them, too."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from asgiref.sync import async_to_sync

from jobexec.exceptions import InvalidJob
from jobexec.models import TimerJob
from jobexec.operations.rows.discard import discard_jobs
from jobexec.processes import acancel, acorrelate, astart, chain, flow
from jobexec.processes.definition import Binding
from jobexec.processes.engine.environment import Called
from jobexec.processes.flows.builder import Flow
from jobexec.processes.models import ProcessDefinition, ProcessInstance, UserTask
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.events import correlate
from jobexec.processes.operations.instances import cancel, set_retries, set_variables
from jobexec.processes.operations.modify import modify, restart
from jobexec.processes.operations.start import start
from jobexec.processes.operations.suspend import activate, suspend
from jobexec.processes.operations.user_tasks import claim, complete, release, throw_error
from jobexec.processes.store import definitions
from tests.processes.support.bpmn import process
from tests.support.factories import make_row

pytest.importorskip("lxml")

CONTENT = """
  <startEvent id="s"/><userTask id="approve"/><endEvent id="e"/>
  <intermediateCatchEvent id="wait"><messageEventDefinition messageRef="m"/></intermediateCatchEvent>
  <sequenceFlow id="f1" sourceRef="s" targetRef="approve"/><sequenceFlow id="f2" sourceRef="s" targetRef="wait"/>
  <sequenceFlow id="f3" sourceRef="approve" targetRef="e"/><sequenceFlow id="f4" sourceRef="wait" targetRef="e"/>
"""

#: Nothing that waits.
PASSING = '<startEvent id="s"/><endEvent id="e"/><sequenceFlow id="f" sourceRef="s" targetRef="e"/>'


@pytest.fixture
def model(alias):
    """A function that deploys a version of the process ``p``."""

    def deployed(more=""):
        deploy(("p.bpmn", process(CONTENT + more, top='<message id="m" name="paid"/>')), using=alias)

    deployed()
    return deployed


@pytest.mark.every_database
@pytest.mark.parametrize("content", [CONTENT, PASSING])
def test_the_row_that_a_start_returns_is_as_it_is_stored(alias, content):
    """It is not read again, also if the instance has ended in its first step."""
    deploy(("p.bpmn", process(content, top='<message id="m" name="paid"/>')), using=alias)
    given = {"when": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), "amount": Decimal("1.50"), "password": "x"}
    returned = start("p", business_key="order 17", variables=given, user="anna", using=alias)
    stored = ProcessInstance.objects.using(alias).get(pk=returned.pk)
    for field in ProcessInstance._meta.concrete_fields:
        assert getattr(returned, field.attname) == getattr(stored, field.attname), field.attname
    assert (returned._state.db, returned._state.adding) == (alias, False)
    assert (returned.end_time is None) is (content is CONTENT)


@pytest.mark.every_database
class TestFind:
    def test_by_state_and_process(self, alias, model, handle):
        found = ProcessInstance.objects.using(alias)
        first = start("p", using=alias)
        model("<documentation>another</documentation>")
        second, gone = start("p", using=alias), start("p", using=alias)
        cancel(gone)
        other = Flow("q")
        other.step(handle(lambda: None, name="tests.instances.step"))
        other.start(using=alias)
        assert set(found.active().of("p")) == {first, second}
        assert set(found.of("p", version=2)) == {second, gone}
        assert list(found.active().of("p", version=1)) == [first]
        assert list(found.of("p_")) == list(found.of("p", version=3)) == []

    def test_by_where_they_wait(self, alias, model):
        found = ProcessInstance.objects.using(alias)
        both = start("p", using=alias)
        at_task = start("p", business_key="a", using=alias)
        async_to_sync(acorrelate)("paid", business_key="a", using=alias)
        assert set(found.waits_at("wait")) == {both}
        assert set(found.waits_at("approve", "wait")) == {both, at_task}
        assert list(found.waits_at("e", "s")) == list(found.waits_at()) == []

    @pytest.mark.parametrize("value", [5, "5", 5.5, True, None, {"a": [1]}, "ä"])
    def test_by_their_variables(self, alias, model, value):
        found = ProcessInstance.objects.using(alias)
        mine = start("p", variables={"x": value, "y": 1}, using=alias)
        start("p", variables={"x": "other", "y": 1}, using=alias)
        start("p", variables={"z": value}, using=alias)
        assert list(found.with_variables(x=value, y=1)) == [mine]
        assert list(found.with_variables(x=value, y=2)) == []
        set_variables(mine, {"x": "other"}, using=alias)
        assert list(found.with_variables(x=value)) == []


@pytest.mark.databases("sqlite")
@pytest.mark.transactional
class TestAsync:
    def test_an_instance(self, alias, model):
        async def drive():
            instance = await astart("p", business_key="a", using=alias)
            await acorrelate("paid", business_key="a", using=alias)
            await acancel(instance, "enough")
            return instance

        row = ProcessInstance.objects.using(alias).get(pk=async_to_sync(drive)().pk)
        assert (row.state, row.delete_reason) == ("cancelled", "enough")

    def test_flows(self, alias, handle, monkeypatch):
        step = handle(lambda: None, name="tests.instances.step")
        monkeypatch.setattr("jobexec.processes.flows.builder.router.db_for_write", lambda model: alias)

        async def drive():
            async with flow("mine") as made:
                made.step(step)
            with pytest.raises(ZeroDivisionError):
                async with flow("broken") as broken:
                    broken.step(step)
                    raise ZeroDivisionError
            return made.instance, await chain(step, step).astart("chained", using=alias), broken.instance

        mine, chained, broken = async_to_sync(drive)()
        assert broken is None
        assert set(ProcessInstance.objects.using(alias).active()) == {mine, chained}


@pytest.mark.every_database
def test_version_tags_and_elements_are_compared_exactly(alias, model):
    rows = ProcessDefinition.objects.using(alias)
    model("<!-- another -->")
    (first, second) = rows.order_by("version")
    rows.filter(pk=first.pk).update(version_tag="stable")
    rows.filter(pk=second.pk).update(version_tag="Stable")
    assert definitions.resolve(alias, "", Called("p", Binding.VERSION_TAG, "stable", "")) == first.pk
    start("p", using=alias)
    assert ProcessInstance.objects.using(alias).waits_at("approve").count() == 1
    assert not ProcessInstance.objects.using(alias).waits_at("Approve")


@pytest.mark.every_database
def test_jobs_of_an_element_are_discarded_and_not_those_of_another(alias):
    columns = {"process_instance_id": "1", "execution_id": "2"}
    for element in ("Remind", "remind"):
        make_row(TimerJob, alias, failed_activity_id=element, **columns)
    discard_jobs(alias, ["1"], [("2", "remind")])
    assert TimerJob.objects.using(alias).get().failed_activity_id == "Remind"


@pytest.mark.parametrize("named", ["A3", 3, None, UserTask(), flow("order")])
def test_an_instance_is_named_by_its_row_or_its_id(alias, named):
    message = "Expected a ProcessInstance, or its id, which is a UUID; got "
    for verb in (
        lambda: cancel(named, using=alias),
        lambda: set_variables(named, {"a": 1}, using=alias),
        lambda: set_retries(named, using=alias),
        lambda: modify(named, using=alias),
        lambda: restart(named, using=alias),
        *[lambda: correlate("paid", instance=named, using=alias)] * (named is not None),
        *[lambda: suspend(named, using=alias), lambda: activate(named, using=alias)] * (named != "A3"),  # a key
    ):
        with pytest.raises(InvalidJob, match=message):
            verb()


@pytest.mark.parametrize("named", ["A3", 3, None, ProcessInstance()])
def test_a_task_is_named_by_its_row_or_its_id(alias, named):
    for verb in (
        lambda: claim(named, "anna", using=alias),
        lambda: release(named, using=alias),
        lambda: complete(named, using=alias),
        lambda: throw_error(named, "NO", using=alias),
    ):
        with pytest.raises(InvalidJob, match="Expected a UserTask, or its id, which is a UUID; got "):
            verb()


def test_an_id_may_be_a_text(alias, model):
    instance = start("p", using=alias)
    assert correlate("paid", instance=instance, using=alias) == 1
    cancel(str(instance.pk), using=alias)
    assert ProcessInstance.objects.using(alias).get().state == "cancelled"
