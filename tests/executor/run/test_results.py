"""Handlers whose return values are kept: encoded where they ran, written with the end of the job, told after that."""

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction

from jobexec.exceptions import DoNotRetry
from jobexec.executor.execute_now import execute_now
from jobexec.executor.loops.timeouts import Timeouts
from jobexec.executor.run.outcomes import Outcome, write, write_alone
from jobexec.executor.run.running import RunningJobs
from jobexec.handlers.context import JobContext
from jobexec.models import DeadLetterJob, Job, TaskResult, TimerJob
from jobexec.operations import cancel
from jobexec.operations.settle import complete
from jobexec.operations.tasks.results import find_task_result
from jobexec.operations.tasks.return_values import encode_return_value
from tests.support.executor import Host, run_one
from tests.support.factories import a_run, make_job, table_of
from tests.support.waiting import until

pytestmark = pytest.mark.transactional


@pytest.fixture
def keep(handle):
    """A function that makes a function a handler whose results are kept, as that of a task is; what it was told."""

    def register(function, **options):
        handler = handle(function, name="tests.task", **options)
        handler.keeps_result, handler.encode_result = True, encode_return_value
        handler.finished = lambda work, using, failure: told.append((work.id, in_transaction(using), failure))
        return handler

    told = register.told = []
    return register


def in_transaction(using):
    return connections[using].in_atomic_block


def a_task(alias, **columns):
    return make_job(alias, handler_type="tests.task", task_backend="default", **columns).pk


@pytest.mark.parametrize("atomic", [False, True])
def test_what_a_handler_returns_is_kept(alias, keep, atomic):
    keep(lambda: {"a": [1, None]})
    pk, plain = a_task(alias, atomic=atomic), a_task(alias, atomic=atomic)
    run_one(alias)
    sight = find_task_result(pk, alias)
    assert (sight.status, sight.return_value, sight.worker_ids) == ("SUCCESSFUL", {"a": [1, None]}, ["test host"])
    assert sight.started_at <= sight.finished_at
    assert sorted(keep.told) == [(pk, False, None), (plain, False, None)], "after the commit, once"


def test_of_other_jobs_nothing_is_kept(alias, handle):
    handle(lambda: 1, name="tests.task")
    a_task(alias)
    run_one(alias)
    assert not TaskResult.objects.using(alias).exists()
    assert not Job.objects.using(alias).exists()


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("value", [object(), "x" * 300])
def test_what_cannot_be_kept_is_the_end_of_it(alias, keep, configure, atomic, value):
    configure(RESULT_MAX_SIZE=200)

    def work():
        Group.objects.using(alias).create(name="effect")
        return value

    keep(work)
    pk = a_task(alias, atomic=atomic)
    run_one(alias)
    assert Group.objects.using(alias).exists() is not atomic
    row = DeadLetterJob.objects.using(alias).get()
    assert row.exception_message.startswith("DoNotRetry: It has run, but its return value cannot be stored")
    sight = find_task_result(pk, alias)
    assert (sight.status, sight.errors[0]["exception_class_path"]) == ("FAILED", "jobexec.exceptions.DoNotRetry")
    ((told, _, failure),) = keep.told
    assert (told, type(failure.error)) == (pk, DoNotRetry)


def test_an_encoder_that_fails_is_the_end_of_it(alias, keep):
    keep(lambda: 1).encode_result = lambda value: 1 / 0
    pk = a_task(alias)
    run_one(alias)
    assert table_of(alias, _Id(pk)) is DeadLetterJob


@pytest.mark.parametrize(
    ("value", "problem"), [({"a": [{1}]}, "['a'][0]: expected JSON, got {1} (Object of type set"), (1, " (TypeError)")]
)
def test_an_encoder_of_ones_own_that_fails_does_not_hide_what_the_value_is(alias, keep, value, problem):
    def encode(value):
        raise TypeError("no")

    keep(lambda: value).encode_result = encode
    a_task(alias)
    run_one(alias)
    message = DeadLetterJob.objects.using(alias).get().exception_message
    assert message.startswith("DoNotRetry: It has run, but its return value cannot be stored: return value of tests.")
    assert problem in message


class _Id:
    def __init__(self, id):
        self.id = id


def test_only_the_last_failure_is_told(alias, keep):
    def work():
        raise ValueError("no")

    keep(work)
    pk = a_task(alias, retries=2)
    run_one(alias)
    assert (find_task_result(pk, alias).status, keep.told) == ("READY", [])
    with pytest.raises(ValueError):
        execute_now(pk, using=alias)
    sight = find_task_result(pk, alias)
    assert (sight.status, sight.worker_ids) == ("FAILED", ["test host", "execute now"])
    assert [told for told, *_ in keep.told] == [pk]


def test_execute_now_keeps_what_was_returned_and_tells_after_the_callers_commit(alias, keep):
    keep(lambda: 7)
    pk = a_task(alias)
    with transaction.atomic(using=alias):
        assert execute_now(pk, using=alias) == 7
        assert keep.told == []
    assert keep.told == [(pk, False, None)]
    assert find_task_result(pk, alias).return_value == 7


def test_async_handlers(alias, keep, make_executor):
    async def work(name):
        return [name]

    keep(work)
    executor = make_executor()
    pk = a_task(alias, handler_configuration={"args": ["Ada"], "kwargs": {}})
    executor.start()
    until(lambda: keep.told)
    sight = find_task_result(pk, alias)
    assert (sight.status, sight.return_value, sight.worker_ids) == ("SUCCESSFUL", ["Ada"], ["here"])


def test_an_error_while_telling_is_logged_and_changes_nothing(alias, keep, caplog):
    handler = keep(lambda: 7)
    handler.finished = lambda work, using, failure: 1 / 0
    pk, other = a_task(alias), a_task(alias, atomic=True)
    run_one(alias)
    assert [find_task_result(each, alias).status for each in (pk, other)] == ["SUCCESSFUL"] * 2
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        f"Job {each} has ended, but reporting its end failed" for each in (pk, other)
    ]


def test_sensitive_arguments_are_in_no_error(alias, keep):
    def work(password):
        raise ValueError(f"{password} is wrong")

    keep(work, sensitive=["password"])
    pk = a_task(alias, handler_configuration={"args": [], "kwargs": {"password": "hunter2!"}})
    run_one(alias)
    (error,) = find_task_result(pk, alias).errors
    assert "is wrong" in error["traceback"]
    assert "hunter2!" not in error["traceback"]


def test_cancelled_before_it_began(alias, keep):
    keep(lambda: 1)
    pk = a_task(alias)
    host = _CancelledOnTheWay(alias, pk)
    run_one(alias, host)
    sight = find_task_result(pk, alias)
    assert (sight.status, sight.errors[-1]["exception_class_path"]) == ("FAILED", "jobexec.exceptions.JobCancelled")


class _CancelledOnTheWay(Host):
    def __init__(self, alias, pk):
        super().__init__()
        self.alias, self.pk = alias, pk

    def may_start(self, work):
        cancel(self.pk, using=self.alias)
        work.cancel_requested = True
        return True


def test_a_timeout_is_an_attempt(alias, keep, jobs):
    handler = keep(lambda: 1)
    (work,) = jobs(1, handler_type="tests.task", task_backend="default", retries=1)
    submitted = []
    timeouts = Timeouts(RunningJobs(), None, submitted.append, None, "here", 1)
    running = type("Running", (), {})()
    running.context, running.handler, running.began = JobContext(work, Host(), None), handler, 0.0
    timeouts._fail(running)
    write(alias, submitted)
    sight = find_task_result(work.id, alias)
    assert (sight.status, sight.worker_ids) == ("FAILED", ["here"])
    assert sight.errors[0]["exception_class_path"] == "jobexec.exceptions.JobTimeout"
    assert [told for told, *_ in keep.told] == [work.id]


def test_what_cannot_be_written_is_a_dead_letter_that_is_told(alias, keep, jobs, monkeypatch):
    handler = keep(lambda: 1)
    (work,) = jobs(1, handler_type="tests.task", task_backend="default")
    outcome = Outcome(work, a_run(alias))
    outcome.keep_for(handler)
    outcome.result = "no JSON"
    write_alone(alias, outcome)
    assert find_task_result(work.id, alias).status == "FAILED"
    ((told, _, failure),) = keep.told
    assert (told, failure and failure.kind) == (work.id, "fatal"), "told of what the database says, not of the run"


def test_tasks_and_jobs_in_one_group(alias, keep, jobs):
    handler = keep(lambda: 1)
    kept = jobs(2, handler_type="tests.task", task_backend="default", process_instance_id="p")
    plain = jobs(2, handler_type="tests.task")
    outcomes = [Outcome(work, a_run(alias)) for work in (*kept, *plain)]
    for outcome in outcomes[: len(kept)]:
        outcome.keep_for(handler)
        outcome.take(1)
    write(alias, outcomes)
    assert all(outcome.counted for outcome in outcomes)
    assert set(TaskResult.objects.using(alias).values_list("pk", flat=True)) == {work.id for work in kept}
    assert not Job.objects.using(alias).filter(pk__in=[work.id for work in (*kept, *plain)]).exists()


def test_jobs_take_the_way_they_always_took(alias, jobs, monkeypatch):
    monkeypatch.setattr(complete, "complete_with_results", None)
    monkeypatch.setattr("jobexec.operations.history.task_rows.write_ends", None)
    outcomes = [Outcome(work, a_run(alias)) for work in jobs(2)]
    write(alias, outcomes)
    assert all(outcome.counted for outcome in outcomes)
    assert not TimerJob.objects.using(alias).exists()
