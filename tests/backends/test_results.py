"""Results of tasks: which ids have one, and that it says what was enqueued."""

import copy
import pickle
from datetime import UTC, datetime, timedelta

import pytest

import jobexec
from jobexec import clock
from jobexec.backends.compat import (
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    task_backends,
    task_finished,
)
from jobexec.executor.run.execution import execute_batch
from jobexec.models import TaskResult, TimerJob
from jobexec.operations import fail_job, trigger_due_timers
from jobexec.operations.values.failure import Failure
from jobexec.runtime.threads import call_in_thread
from tests.support.executor import Host, run_one
from tests.support.factories import a_run, acquire
from tests.support.waiting import TIMEOUT

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
sqlite = pytest.mark.databases("sqlite")
pytestmark = [pytest.mark.transactional, pytest.mark.usefixtures("frozen")]


def test_the_task_of_a_result_is_as_it_was_enqueued(alias, shop):
    later = NOW + timedelta(hours=1)
    call = shop.send.using(priority=-5, run_after=later)
    found = shop.send.get_result(call.enqueue(1).id)
    assert found.task == call and found.task.queue_name == "emails" and found.task.run_after == later
    assert TimerJob.objects.using(alias).get().handler_configuration["queue_name"] == "emails"


@pytest.mark.every_database
@pytest.mark.parametrize("kind", ["snoozed", "interrupted", "unknown", "error"])
@pytest.mark.parametrize("dated", [True, False])
def test_the_date_of_a_task_is_not_that_of_its_next_try(alias, shop, frozen, kind, dated):
    later = NOW + timedelta(hours=1) if dated else None
    id = shop.send.using(run_after=later).enqueue(1).id
    frozen.tick(3600)
    for _ in range(2):
        trigger_due_timers(alias, 10)
        (work,) = acquire(alias)
        failure = Failure("not yet", kind=kind, retry_at=clock.now(alias) + timedelta(minutes=1))
        fail_job(alias, work, failure, a_run(alias))
        found = shop.send.get_result(id)
        assert (found.task.run_after, found.status) == (later, TaskResultStatus.READY)
        assert len(found.errors) == found.attempts == (work.attempts + 1 if kind == "error" else 0)
        frozen.tick(3600)
    trigger_due_timers(alias, 10)
    run_one(alias)
    assert shop.send.get_result(id).task.run_after == later


@sqlite
@pytest.mark.parametrize("wrong", ["", "nonsense", "7d1c4a6e-0000-7000-8000-000000000000", "x" * 100, None, 5])
def test_ids_of_nothing(alias, shop, wrong):
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result(wrong)


@sqlite
def test_ids_of_jobs_and_of_other_aliases(alias, shop, backend):
    backend(others={"second": {"BACKEND": "jobexec.backends.JobExecutorBackend", "OPTIONS": {"DATABASE": alias}}})
    job = jobexec.job(name="tests.job")(lambda: None).enqueue()
    second = shop.greet.using(backend="second").enqueue("Ada")
    for id in (str(job.pk), second.id):
        with pytest.raises(TaskResultDoesNotExist):
            task_backends["default"].get_result(id)
    found = task_backends["second"].get_result(second.id)
    assert (found.task.backend, found.backend) == ("second", "second")
    run_one(alias)
    assert task_backends["second"].get_result(second.id).return_value == ["Hello Ada"]


@sqlite
def test_a_result_of_another_task(alias, shop):
    result = shop.greet.enqueue("Ada")
    with pytest.raises(TaskResultMismatch, match="greet"):
        shop.send.get_result(result.id)


@sqlite
def test_pickled_results(alias, shop):
    found = pickle.loads(pickle.dumps(shop.greet.enqueue("Ada")))
    assert (found.task, found.status) == (shop.greet, TaskResultStatus.READY)


@sqlite
def test_results_of_signals_can_be_copied_and_outlive_their_rows(alias, shop):
    told = []

    def receive(sender, task_result, **kwargs):
        told.append(task_result)

    task_finished.connect(receive)
    try:
        shop.greet.enqueue("Ada")
        run_one(alias)
        shop.greet.enqueue("Eve")
        run_one(alias)
    finally:
        task_finished.disconnect(receive)
    first, second = told
    found = pickle.loads(pickle.dumps(first))
    assert (found.return_value, found.args, found.attempts) == (["Hello Ada"], ["Ada"], 1)
    assert copy.deepcopy(first).worker_ids == ["test host"]
    TaskResult.objects.using(alias).all().delete()
    assert (second.status, second.args, second.enqueued_at, second.attempts) == (first.status, [], None, 0)
    with pytest.raises(AttributeError):
        second.nonsense  # noqa: B018


@sqlite
def test_results_are_kept_in_the_table(alias, shop):
    result = shop.send.enqueue(5)
    run_one_of(alias, "mail")
    row = TaskResult.objects.using(alias).get()
    assert (str(row.pk), row.backend, row.handler_type) == (result.id, "default", shop.send.module_path)
    found = shop.send.get_result(result.id)
    assert (found.task.queue_name, found.task.priority) == ("emails", 7)


def run_one_of(alias, category):
    jobs = acquire(alias, categories=(category,))
    call_in_thread("jobexec-one", lambda: execute_batch(jobs, Host()), TIMEOUT)
