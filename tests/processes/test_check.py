"""``check`` finds rows that a step never leaves behind."""

import pytest

from jobexec import job
from jobexec.models import DeadLetterJob, Job, TimerJob
from jobexec.operations import create_job
from jobexec.operations.rows.move import move
from jobexec.processes.flows.builder import Flow
from jobexec.processes.models import Execution, ProcessInstance, Variable
from jobexec.processes.operations.check import check
from jobexec.processes.operations.instances import cancel


@pytest.fixture(autouse=True)
def nothing_is_wrong():
    """Not here, where everything is."""


@job(name="tests.check.work")
def work():
    return None


def started(alias):
    flow = Flow("check")
    ends = [flow.step(work, name=name) for name in "ab"]
    flow.step(work, after=ends, name="c")
    flow.wait("never", key="k", name="w")
    return flow.start(using=alias)


def messages(alias):
    return [each.message for each in check(using=alias)]


def test_what_a_step_leaves_fits(alias):
    started(alias)
    assert messages(alias) == []


def test_a_token_without_its_job(alias):
    started(alias)
    Job.objects.using(alias).filter(failed_activity_id="a").delete()
    (found,) = messages(alias)
    assert found.startswith("The execution at a waits for the job ") and found.endswith("which does not exist.")


def test_a_job_without_its_token(alias):
    """One that can run finds out by itself."""
    started(alias)
    row = Job.objects.using(alias).get(failed_activity_id="a")
    token = Execution.objects.using(alias).filter(pk=row.execution_id)
    token.delete()
    assert messages(alias) == []
    for table in (TimerJob, DeadLetterJob):
        row = move(row, table)
        assert messages(alias) == [f"The job {row.pk} at a belongs to {row.execution_id}, which is gone."]


def test_a_job_of_somebody_else_has_no_token(alias):
    row = create_job(alias, handler_type="theirs", process_instance_id="order-1", execution_id="theirs")
    move(row, TimerJob)
    assert messages(alias) == []


def test_all_have_arrived_at_joins(alias):
    instance = started(alias)
    rows = Execution.objects.using(alias).exclude(state="scope")
    rows.filter(element_id="w").delete()
    rows.filter(instance_id=instance.pk).update(state="joined", job_id=None)
    assert "All of its executions have arrived at joins, and no other execution can arrive." in messages(alias)


def test_rows_of_an_instance_that_has_ended(alias):
    instance = started(alias)
    Variable(root_id=instance.pk, instance_id=instance.pk, scope_id=instance.pk, name="x", value=1).save(using=alias)
    ProcessInstance.objects.using(alias).filter(pk=instance.pk).update(state="completed")
    found = messages(alias)
    assert any("belongs to an instance that has ended" in message for message in found)
    assert any(message.startswith("The variable ") for message in found)


def test_an_instance_without_executions(alias):
    instance = started(alias)
    Execution.objects.using(alias).all().delete()
    assert "The instance is running, but has no execution." in messages(alias)
    cancel(instance)
