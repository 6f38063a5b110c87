"""What the documentation of Django's tasks shows (topics/tasks, ref/tasks) works with our backend as it is printed."""

import logging
import pickle
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module

import pytest
from asgiref.sync import async_to_sync
from django import VERSION
from django.db import transaction

from jobexec.backends.compat import (
    PACKAGE,
    InvalidTask,
    InvalidTaskBackend,
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    task,
    task_backends,
)
from jobexec.handlers import registry
from jobexec.models import DeadLetterJob, Job, TimerJob
from jobexec.testing import ManualExecutor

OURS = "jobexec.backends.JobExecutorBackend"
MODULE = "tests.docs.documented_tasks"
READY, RUNNING, FAILED, SUCCESSFUL = (
    TaskResultStatus.READY,
    TaskResultStatus.RUNNING,
    TaskResultStatus.FAILED,
    TaskResultStatus.SUCCESSFUL,
)
MAIL = {"emails": ["user@example.com"], "subject": "You have a message", "message": "Hello there!"}

pytestmark = pytest.mark.django_db


def module_level():
    """What may be a task."""


@pytest.fixture
def tasks(settings):
    """The tasks of the documentation, with jobexec as the default backend."""
    settings.TASKS = {
        "default": {"BACKEND": OURS, "QUEUES": ["default", "emails"], "OPTIONS": {"CATEGORIES": {"emails": "mail"}}},
        "reserve": {"BACKEND": OURS},
    }
    yield from _imported()


@pytest.fixture
def dummy_tasks(settings):
    settings.TASKS = {"default": {"BACKEND": f"{PACKAGE}.backends.dummy.DummyBackend", "QUEUES": []}}
    yield from _imported()


@pytest.fixture
def immediate_tasks(settings):
    settings.TASKS = {"default": {"BACKEND": f"{PACKAGE}.backends.immediate.ImmediateBackend", "QUEUES": []}}
    yield from _imported()


def _imported():
    sys.modules.pop(MODULE, None)
    with registry.isolated():
        yield import_module(MODULE)
    sys.modules.pop(MODULE)


@pytest.fixture
def run():
    """A function that runs what is due, and returns nothing."""
    return ManualExecutor(reraise=False).run_until_empty


def default_backend():
    return task_backends["default"]


# Configuring a backend, in the order of topics/tasks.


def test_the_immediate_backend_and_ours_take_the_same_calls(immediate_tasks, settings, mailoutbox, run):
    result = immediate_tasks.email_users.enqueue(**MAIL)
    assert (result.status, result.return_value, len(mailoutbox)) == (SUCCESSFUL, 1, 1)
    settings.TASKS = {"default": {"BACKEND": OURS}}
    result = immediate_tasks.email_users.enqueue(**MAIL)  # a task that was declared for another backend
    assert (result.status, len(mailoutbox)) == (READY, 1)
    run()
    result.refresh()
    assert (result.status, result.return_value, len(mailoutbox)) == (SUCCESSFUL, 1, 2)


def test_the_dummy_backend_and_ours_take_the_same_calls(dummy_tasks, settings, run):
    dummy_tasks.calculate.enqueue()
    backend = default_backend()
    assert len(backend.results) == 1
    assert backend.results[0].status == READY
    backend.clear()
    assert len(backend.results) == 0
    assert not Job.objects.exists()
    settings.TASKS = {"default": {"BACKEND": OURS}}
    dummy_tasks.calculate.enqueue()
    assert Job.objects.get().handler_type == f"{MODULE}.calculate"
    run()
    assert not Job.objects.exists()


def test_backends_are_found_by_their_alias(tasks):
    assert task_backends["default"].alias == "default"
    assert task_backends["reserve"].alias == "reserve"
    package = import_module(PACKAGE)
    assert package.default_task_backend == task_backends["default"]
    with pytest.raises(InvalidTaskBackend):
        task_backends["nobody"]


def test_every_feature_is_supported(tasks):
    backend = default_backend()
    flags = ("supports_defer", "supports_async_task", "supports_get_result", "supports_priority")
    assert [getattr(backend, flag) for flag in flags] == [True] * 4


# Defining tasks.


def test_the_decorator_makes_a_task(tasks):
    assert isinstance(tasks.email_users, Task)
    assert (tasks.email_users.name, tasks.email_users.module_path) == ("email_users", f"{MODULE}.email_users")
    soon = tasks.email_users_soon
    assert (soon.priority, soon.queue_name, soon.backend, soon.run_after) == (2, "emails", "default", None)
    soon.enqueue(["a@example.com"])
    job = Job.objects.get()
    assert (job.priority, job.category, job.task_backend) == (2, "mail", "default")


def test_a_queue_that_the_backend_does_not_have(tasks, settings):
    with pytest.raises(InvalidTask):
        tasks.calculate.using(queue_name="nobody").enqueue()
    settings.TASKS = {"default": {"BACKEND": OURS, "QUEUES": [], "OPTIONS": {"CATEGORIES": {"nobody": "default"}}}}
    assert tasks.calculate.using(queue_name="nobody").enqueue().task.queue_name == "nobody"
    assert Job.objects.get().category == "default"


@pytest.mark.parametrize(
    "options", [{"priority": 101}, {"priority": -101}, {"priority": 0.5}, {"queue_name": "nobody"}]
)
def test_what_the_backend_cannot_do_is_refused_where_it_is_declared(tasks, options):
    with pytest.raises(InvalidTask):
        task(**options)(module_level)
    with pytest.raises(InvalidTask):
        tasks.calculate.using(**options)


def test_a_task_is_a_function_of_a_module(tasks):
    def inside():
        """No worker could find it."""

    with pytest.raises(InvalidTask):
        task(inside)


def test_the_context(tasks, run, caplog):
    with caplog.at_level(logging.DEBUG, logger=MODULE):
        result = tasks.email_with_context.enqueue(["a@example.com"])
        run()
    assert f"Attempt 1. Task result id: {result.id}." in caplog.text
    result.refresh()
    # The page says that an attempt is counted when it is over; all backends count it when it begins.
    assert result.return_value == [1, RUNNING, 1]


def test_a_context_cannot_be_changed():
    context = TaskContext(task_result=None)
    with pytest.raises(AttributeError):
        context.task_result = 1


def test_a_modified_task_leaves_the_original_as_it_is(tasks):
    assert tasks.email_users.priority == 0
    assert tasks.email_users.using(priority=10).priority == 10
    assert tasks.email_users.priority == 0
    assert tasks.email_users.using(backend="reserve").backend == "reserve"
    with pytest.raises(AttributeError):
        tasks.email_users.priority = 1


def test_a_larger_priority_runs_sooner(tasks):
    for priority in (-100, 100, 0):
        tasks.calculate.using(priority=priority).enqueue()
    assert list(Job.objects.order_by("rank").values_list("priority", flat=True)) == [100, 0, -100]


def test_further_keywords_are_for_the_class_of_the_backend(tasks):
    try:
        made = task(retries="R5/PT5M", exclusive=False)(module_level)
    except TypeError:
        pytest.skip("Django 6.0 passes no further keywords on")
    made.enqueue()
    job = Job.objects.get()
    assert (job.retries, job.retry_plan, job.exclusive) == (5, "R5/PT5M", False)
    with pytest.raises(InvalidTask, match="foo"):
        task(foo=5, bar=600)(module_level)


# Enqueueing.


def test_a_result_is_returned_and_the_task_runs_later(tasks, mailoutbox, run):
    result = tasks.email_users.enqueue(
        emails=["user@example.com"], subject="You have a message", message="Hello there!"
    )
    assert isinstance(result, TaskResult)
    assert (result.status, result.is_finished, result.attempts) == (READY, False, 0)
    assert mailoutbox == []
    run()
    assert mailoutbox[0].subject == "You have a message"


def test_enqueueing_from_async_code(tasks, run):
    async def asks():
        result = await tasks.calculate_async.aenqueue()
        found = await tasks.calculate_async.aget_result(result.id)
        again = await default_backend().aget_result(result.id)
        return result, found, again

    results = async_to_sync(asks)()
    assert {result.id for result in results} == {results[0].id}
    run()
    async_to_sync(results[0].arefresh)()
    assert results[0].return_value == 43


def test_arguments_must_be_json(tasks):
    for moment in (datetime.now(), datetime.now(UTC)):
        with pytest.raises(TypeError):
            tasks.process_data.enqueue(moment)
    assert not Job.objects.exists()


def test_arguments_go_to_json_and_back(tasks, run):
    result = tasks.double_dictionary.enqueue((1, 2, 3))
    assert result.args == [[1, 2, 3]]
    _run_all_attempts(run)
    result.refresh()
    assert result.status == FAILED
    assert "unhashable type: 'list'" in result.errors[0].traceback or "as a dict key" in result.errors[0].traceback


def test_run_after(tasks, run):
    when = datetime.now(UTC) + timedelta(hours=1)
    result = tasks.calculate.using(run_after=when).enqueue()
    assert TimerJob.objects.get().due_date == when
    assert result.task.run_after == when
    run()
    assert tasks.calculate.get_result(result.id).status == READY
    assert tasks.calculate.using(run_after=None).run_after is None
    with pytest.raises(InvalidTask):
        tasks.calculate.using(run_after=datetime.now())


def test_run_after_a_length_of_time(tasks):
    """So the page says; Django's own class of tasks takes no timedelta, ours does."""
    tasks.calculate.using(run_after=timedelta(hours=1)).enqueue()
    assert timedelta(minutes=59) < TimerJob.objects.get().due_date - datetime.now(UTC) <= timedelta(hours=1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("late", [False, True], ids=["at once", "on_commit"])
def test_transactions(tasks, run, booking, late):
    with transaction.atomic():
        booking.pk = None
        booking.visitor = "number 1"
        booking.save()
        if late:
            transaction.on_commit(partial(tasks.find_booking.enqueue, visitor="number 1"))
            assert not Job.objects.exists()
        else:
            tasks.find_booking.enqueue(visitor="number 1")  # nobody sees it before the commit
    (result,) = run()
    assert result.successful
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        tasks.find_booking.enqueue(visitor="number 1")
        raise ZeroDivisionError
    assert not Job.objects.exists()


# Results.


def test_results_are_found_from_anywhere(tasks, run):
    made = tasks.calculate.enqueue()
    assert isinstance(made.id, str)
    assert len(made.id) < 64
    for found in (tasks.calculate.get_result(made.id), default_backend().get_result(made.id)):
        assert (found, found.task, found.backend) == (made, made.task, "default")


def test_results_that_are_not_there(tasks):
    made = tasks.calculate.enqueue()
    with pytest.raises(TaskResultMismatch):
        tasks.email_users.get_result(made.id)
    for id in ("nonsense", "", "01a200b7-cceb-7489-b61b-4096ce0aac17", "x" * 500):
        with pytest.raises(TaskResultDoesNotExist):
            tasks.calculate.get_result(id)
        with pytest.raises(TaskResultDoesNotExist):
            task_backends["reserve"].get_result(id)


def test_a_result_is_as_it_was_until_it_is_refreshed(tasks, run):
    result = tasks.calculate.enqueue()
    with pytest.raises(ValueError, match="not finished"):
        assert result.return_value
    run()
    assert result.status == READY
    result.refresh()
    assert (result.status, result.return_value, result.is_finished) == (SUCCESSFUL, 42, True)


def test_a_result_while_the_task_runs(tasks, run):
    result = tasks.look_at_itself.enqueue()
    run()
    result.refresh()
    status, started, message = result.return_value
    assert (status, started, message) == (RUNNING, True, "Task has not finished yet")


def test_times_and_workers_of_a_result(tasks, run):
    result = tasks.calculate.enqueue()
    assert (result.started_at, result.finished_at, result.last_attempted_at, result.worker_ids) == (
        None,
        None,
        None,
        [],
    )
    run()
    result.refresh()
    times = [result.enqueued_at, result.started_at, result.last_attempted_at, result.finished_at]
    assert times == sorted(times)
    assert (result.worker_ids, result.attempts, result.errors) == (["manual executor"], 1, [])


def test_errors(tasks, run):
    result = tasks.fails.enqueue()
    run()
    result.refresh()
    assert (result.status, len(result.errors)) == (READY, 1)  # it is tried again
    _run_all_attempts(run)
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (FAILED, 3, 3)
    assert isinstance(result.errors[0], TaskError)
    assert result.errors[0].exception_class is ValueError
    assert "ValueError: of course" in result.errors[0].traceback
    with pytest.raises(ValueError, match="failed"):
        assert result.return_value
    assert DeadLetterJob.objects.count() == 1


def test_a_result_cannot_be_changed(tasks):
    with pytest.raises(AttributeError):
        tasks.calculate.enqueue().status = FAILED


@pytest.mark.skipif(VERSION < (6, 1), reason="Django has it from 6.1 on")
def test_tasks_and_results_can_be_pickled(tasks):
    result = tasks.calculate.using(priority=5).enqueue()
    assert pickle.loads(pickle.dumps(result.task)) == result.task
    assert pickle.loads(pickle.dumps(result)) == result


def _run_all_attempts(run):
    """Retries are due at once."""
    run()
    while TimerJob.objects.update(due_date=datetime.now(UTC) - timedelta(seconds=1)):
        run()
