"""Ten models after descriptions of Camunda's test suite, from their files to the end of their instances."""

from pathlib import Path

import pytest

from jobexec.models import Job, TimerJob
from jobexec.processes.definition import InvalidProcess
from jobexec.processes.exceptions import TaskOver
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.models import (
    ActivityInstance,
    ProcessDefinition,
    ProcessDeployment,
    ProcessResource,
    UserTask,
)
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.start import start
from jobexec.processes.operations.user_tasks import claim, complete
from jobexec.testing import controlled_clock
from tests.processes.support.rows import assert_nothing_is_left, elements, final, state

pytest.importorskip("lxml")

MODELS = Path(__file__).parent / "models"
DONE = []


@pytest.fixture(autouse=True)
def done():
    DONE.clear()


@service_task("tests.note")
def note(context):
    DONE.append(context.element_id)


def started(alias, name, **given):
    """An instance of the process in models/NAME.bpmn, deployed if it is not."""
    deploy(MODELS / f"{name}.bpmn", using=alias)
    return start(name.replace("-", "_"), using=alias, **given)


def test_a_single_asynchronous_task(alias, run_jobs):
    instance = started(alias, "async-task", business_key="4711")
    assert DONE == []
    job = Job.objects.using(alias).get()
    assert (job.handler_type, job.failed_activity_id, job.atomic) == ("jobexec.processes.continue", "pay", True)
    assert (job.process_instance_id, job.process_definition_key, job.correlation_id) == (
        str(instance.pk),
        "async_task",
        "4711",
    )
    run_jobs()
    assert (DONE, state(alias, instance)) == (["pay"], "completed")
    assert_nothing_is_left(alias)
    history = ActivityInstance.objects.using(alias).filter(instance_id=instance.pk)
    assert sorted(history.values_list("element_id", "state")) == [
        ("end", "completed"),
        ("pay", "completed"),
        ("start", "completed"),
    ]
    assert {row.element_id: row.job_id for row in history} == {"start": None, "pay": job.pk, "end": None}


def test_an_asynchronous_user_task(alias, run_jobs):
    instance = started(alias, "async-user-task")
    assert not UserTask.objects.using(alias).exists()
    run_jobs()
    task = UserTask.objects.using(alias).get()
    assert (task.name, task.assignee, task.element_id) == ("Approve", "", "approve")
    claim(task, "anna", using=alias)
    with pytest.raises(TaskOver):
        claim(task, "bert", using=alias)
    complete(task, {"approved": True}, user="anna", using=alias)
    assert (state(alias, instance), final(alias, instance)) == ("completed", {"approved": True})
    assert ActivityInstance.objects.using(alias).get(element_id="approve").assignee == "anna"
    with pytest.raises(TaskOver):
        complete(task, using=alias)
    assert_nothing_is_left(alias)


def test_an_asynchronous_script_task_is_refused(alias):
    with pytest.raises(InvalidProcess, match=r"async-script-task\.bpmn: calculate: A script in 'groovy'"):
        started(alias, "async-script-task")
    for model in (ProcessDeployment, ProcessResource, ProcessDefinition):
        assert not model.objects.using(alias).exists()


def test_asynchronous_after_a_service_task(alias, run_jobs):
    instance = started(alias, "async-after")
    assert (DONE, elements(alias), Job.objects.using(alias).count()) == (["pay"], ["pay"], 1)
    run_jobs()
    assert (DONE, state(alias, instance)) == (["pay", "ship"], "completed")


def test_a_fork_and_its_join(alias, run_jobs):
    instance = started(alias, "fork-and-join")
    assert [job.exclusive for job in Job.objects.using(alias).all()] == [False] * 3
    run_jobs()
    assert (sorted(DONE[:3]), DONE[3:]) == (["flight", "hotel", "ticket"], ["bill"])
    assert state(alias, instance) == "completed"
    assert_nothing_is_left(alias)


@pytest.mark.gate
def test_an_unbalanced_fork_and_join(alias, run_jobs):
    """Two of three branches are joined, and what follows is joined with the third."""
    instance = started(alias, "unbalanced-fork-and-join")
    assert elements(alias) == ["flight", "hotel", "ticket"]
    run_jobs()
    assert sorted(DONE[:3]) == ["flight", "hotel", "ticket"]
    assert DONE[3:] == ["pack", "bill"]
    assert state(alias, instance) == "completed"
    assert_nothing_is_left(alias)


def test_the_default_flow_of_an_exclusive_gateway(alias):
    started(alias, "default-flow", variables={"amount": 100})
    started(alias, "default-flow", variables={"amount": 101})
    assert DONE == ["cheap", "dear"]
    assert ProcessDefinition.objects.using(alias).count() == 1


@pytest.mark.gate
def test_a_sub_process_with_a_timer_on_it(alias, run_jobs):
    with controlled_clock() as clock:
        late, in_time = started(alias, "sub-process-with-timer"), started(alias, "sub-process-with-timer")
        assert TimerJob.objects.using(alias).count() == 2
        complete(UserTask.objects.using(alias).get(root_id=in_time.pk), using=alias)
        assert (state(alias, in_time), TimerJob.objects.using(alias).count()) == ("completed", 1)
        clock.advance(11)
        run_jobs()
    assert (DONE, state(alias, late)) == (["escalate"], "completed")
    assert_nothing_is_left(alias)


def test_parallel_user_tasks_end_by_their_completion_condition(alias):
    instance = started(alias, "votes")
    tasks = list(UserTask.objects.using(alias))
    assert len(tasks) == 5
    complete(tasks[0], using=alias)
    assert (UserTask.objects.using(alias).count(), state(alias, instance)) == (4, "active")
    complete(tasks[1], using=alias)
    assert state(alias, instance) == "completed"
    assert_nothing_is_left(alias)


def test_the_priority_of_an_activity_beats_that_of_its_process(alias):
    started(alias, "priorities")
    found = Job.objects.using(alias).values_list("failed_activity_id", "priority")
    assert sorted(found) == [("urgent", 10), ("usual", 5)]
