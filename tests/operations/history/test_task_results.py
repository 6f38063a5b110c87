"""What became of tasks: written with the end of each attempt, and seen in one look together with the living job."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import DataError, connections, transaction

from jobexec.exceptions import DoNotRetry, JobCancelled
from jobexec.models import DeadLetterJob, ExclusiveLock, Job, JobLog, SuspendedJob, TaskResult, TimerJob
from jobexec.operations import (
    cancel,
    clean_up_history,
    complete_jobs,
    delete_jobs,
    fail_jobs,
    move_to_dead_letter,
    recover_node,
    release_jobs,
    requeue,
    trigger_due_timers,
)
from jobexec.operations.history import task_attempts
from jobexec.operations.nodes.leases import declare_dead
from jobexec.operations.rows import bury_unreadable
from jobexec.operations.settle.complete import complete_with_results
from jobexec.operations.tasks.results import find_task_result
from jobexec.operations.tasks.return_values import encode_return_value
from jobexec.operations.values.failure import Failure
from jobexec.operations.values.run import Result, Run
from tests.support import forms
from tests.support.factories import LEASE_TIME, LOCK_TIME, a_run, acquire, make_job, make_node, make_row, work

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TASK = {
    "task_backend": "default",
    "handler_type": "shop.tasks.greet",
    "handler_configuration": {"args": [1], "kwargs": {"name": "Ada"}},
}


@pytest.fixture(autouse=True)
def lock_time(configure):
    configure(engine={"LOCK_TIME": LOCK_TIME})


@pytest.mark.parametrize("table", [Job, TimerJob, SuspendedJob])
def test_what_waits_is_ready(alias, table):
    row = make_row(table, alias, **TASK, priority=5, category="mail")
    sight = find_task_result(row.pk, alias)
    assert (sight.id, sight.backend, sight.handler_type) == (row.pk, "default", "shop.tasks.greet")
    assert (sight.status, sight.args, sight.kwargs) == ("READY", [1], {"name": "Ada"})
    assert (sight.priority, sight.category, sight.enqueued_at) == (5, "mail", NOW)
    assert (sight.run_after, sight.started_at, sight.last_attempted_at, sight.finished_at) == (None,) * 4
    assert (sight.errors, sight.worker_ids, sight.return_value) == ([], [], None)


def test_a_task_for_later_says_so(alias):
    later = NOW + timedelta(hours=1)
    assert find_task_result(make_job(alias, **TASK, due_date=later).pk, alias).run_after == later


def test_what_a_node_has_in_hand_is_running(alias):
    job = work(alias, "here:7d1", **TASK)
    sight = find_task_result(str(job.id), alias)
    assert (sight.status, sight.worker_ids) == ("RUNNING", ["here"])
    assert (sight.started_at, sight.last_attempted_at, sight.finished_at) == (NOW, NOW, None)


def test_a_dead_letter_has_failed(alias):
    row = make_row(DeadLetterJob, alias, **TASK, exception_message="ValueError: no", exception_stack="Traceback")
    sight = find_task_result(row.pk, alias)
    assert (sight.status, sight.finished_at) == ("FAILED", NOW)
    assert sight.errors == [{"exception_class_path": "jobexec.exceptions.JobExecError", "traceback": "Traceback"}]


def test_nothing_else_is_a_task(alias):
    assert find_task_result(make_job(alias).pk, alias) is None
    assert find_task_result("nonsense", alias) is None
    assert find_task_result("7d1c4a6e-0000-7000-8000-000000000000", alias) is None


# -- the ends of attempts, in each form ----------------------------------------------------------------------------


@pytest.fixture(params=forms.MOVES)
def form(request, alias, monkeypatch):
    """The ends of attempts are written inside the database, or through Python."""
    forms.move(request.param, alias, monkeypatch)


def task(alias, **columns):
    return work(alias, "here:1", **TASK, **columns)


def complete(alias, *ended):
    return complete_with_results(alias, [(job, a_run(alias), Result(result)) for job, result in ended])


def test_success_keeps_what_was_returned(alias, form):
    jobs = [task(alias), task(alias, priority=3, tenant_id="t", process_instance_id="p")]
    assert complete(alias, (jobs[0], '{"sum": [1, 2.5, null]}'), (jobs[1], "null")) == set()
    assert not Job.objects.using(alias).exists()
    sight = find_task_result(jobs[0].id, alias)
    assert (sight.status, sight.return_value, sight.errors) == ("SUCCESSFUL", {"sum": [1, 2.5, None]}, [])
    assert (sight.args, sight.kwargs, sight.backend) == ([1], {"name": "Ada"}, "default")
    began = NOW - timedelta(seconds=1)
    assert (sight.enqueued_at, sight.started_at, sight.last_attempted_at, sight.finished_at) == (NOW, began, began, NOW)
    assert sight.worker_ids == ["node"]
    row = TaskResult.objects.using(alias).get(pk=jobs[1].id)
    assert (row.return_value, row.priority, row.category) == (None, 3, "default")
    assert (row.tenant_id, row.process_instance_id, row.run_after) == ("t", "p", None)
    assert not ExclusiveLock.objects.using(alias).exists()
    assert JobLog.objects.using(alias).filter(state="successful").count() == 2


@pytest.mark.parametrize("level", ["none", "activity"])
def test_the_log_is_as_it_is_without_results(alias, configure, level):
    configure(engine={"LOCK_TIME": LOCK_TIME}, HISTORY_LEVEL=level)
    jobs = [task(alias, due_date=NOW - timedelta(seconds=5)) for _ in range(2)]
    complete(alias, (jobs[0], "1"))
    complete_jobs(alias, [(jobs[1], a_run(alias))])
    kept, plain = (logged(alias, job) for job in jobs)
    assert kept == plain
    assert len(kept) == (level == "activity")


def logged(alias, job):
    rows = JobLog.objects.using(alias).filter(job_id=job.id).values()
    return [{name: value for name, value in row.items() if name not in ("id", "job_id")} for row in rows]


def test_what_is_no_longer_ours_keeps_nothing(alias, form):
    mine, foreign = task(alias), task(alias)
    release_jobs(alias, [foreign])
    acquire(alias, "two:2")
    ended = [(mine, "1"), (foreign, "2")]
    assert complete(alias, *ended) == {foreign.id}
    assert complete(alias, *ended) == {mine.id, foreign.id}, "the second try of a commit in doubt"
    assert [row.pk for row in TaskResult.objects.using(alias)] == [mine.id]
    assert find_task_result(foreign.id, alias).status == "RUNNING"
    assert JobLog.objects.using(alias).count() == 1


def test_a_job_of_no_backend_keeps_nothing(alias, form):
    job = work(alias)
    assert complete(alias, (job, "1")) == set()
    assert not Job.objects.using(alias).exists()
    assert not TaskResult.objects.using(alias).exists()


def test_large_results_go_in_several_statements_and_one_transaction(alias, monkeypatch):
    monkeypatch.setattr("jobexec.operations.settle.complete._LETTERS", 10)
    jobs = [task(alias) for _ in range(3)]
    with pytest.raises((DataError, ValueError)), transaction.atomic(using=alias):
        complete(alias, (jobs[0], '"1234567890"'), (jobs[1], '"1234567890"'), (jobs[2], "no JSON"))
    assert Job.objects.using(alias).count() == 3
    assert not TaskResult.objects.using(alias).exists()
    assert complete(alias, *((job, '"1234567890"') for job in jobs)) == set()
    assert TaskResult.objects.using(alias).count() == 3


def fail(alias, job, error=None, **values):
    failure = Failure("ValueError: no", "Traceback 1", error=error or ValueError("no"), **values)
    return fail_jobs(alias, [(job, failure, a_run(alias))])[0]


def again(alias, frozen):
    frozen.tick(3600)
    trigger_due_timers(alias, 10)
    (job,) = acquire(alias, "there:1")
    return job  # its node is called "node" in its runs


def test_each_attempt_adds_to_the_result(alias, form, frozen):
    job = task(alias)
    assert type(fail(alias, job)) is TimerJob
    sight = find_task_result(job.id, alias)
    assert (sight.status, sight.started_at, sight.finished_at) == ("READY", NOW - timedelta(seconds=1), None)
    assert sight.errors == [{"exception_class_path": "builtins.ValueError", "traceback": "Traceback 1"}]
    job = again(alias, frozen)
    running = find_task_result(job.id, alias)
    assert (running.status, running.worker_ids) == ("RUNNING", ["node", "there"])
    assert (running.started_at, running.last_attempted_at) == (sight.started_at, frozen.now)
    assert complete(alias, (job, "7")) == set()
    done = find_task_result(job.id, alias)
    assert (done.status, done.return_value, done.errors) == ("SUCCESSFUL", 7, sight.errors)
    assert (done.worker_ids, done.started_at, done.finished_at) == (["node"] * 2, sight.started_at, frozen.now)


def test_the_last_failure_is_the_end_until_somebody_requeues_it(alias, form, frozen):
    job = task(alias, retries=1)
    assert type(fail(alias, job, LocalError("no"))) is DeadLetterJob
    dead = find_task_result(job.id, alias)
    assert (dead.status, dead.finished_at, dead.worker_ids) == ("FAILED", NOW, ["node"])
    assert dead.errors[0]["exception_class_path"] == f"{__name__}.LocalError"
    assert requeue(job.id, using=alias)
    ready = find_task_result(job.id, alias)
    assert (ready.status, ready.finished_at, ready.errors) == ("READY", None, dead.errors)
    assert TaskResult.objects.using(alias).get().end_time is None
    (job,) = acquire(alias, "here:1")
    complete(alias, (job, "1"))
    assert find_task_result(job.id, alias).status == "SUCCESSFUL"


class LocalError(Exception):
    """No job executor knows it."""


@pytest.mark.parametrize("verb", forms.VERBS)
def test_requeueing_many_sets_those_ready(alias, verb, monkeypatch):
    forms.verbs(verb, alias, monkeypatch)
    jobs = [task(alias, retries=1) for _ in range(3)]
    for job in jobs:
        fail(alias, job)
    assert requeue([job.id for job in jobs[:2]], using=alias)
    found = dict(TaskResult.objects.using(alias).values_list("pk", "status"))
    assert found == {jobs[0].id: "READY", jobs[1].id: "READY", jobs[2].id: "FAILED"}


def test_a_task_for_later_keeps_its_date(alias, form, frozen):
    later = NOW + timedelta(minutes=1)
    make_job(alias, **TASK, due_date=later)
    job = again(alias, frozen)
    fail(alias, job)
    assert find_task_result(job.id, alias).run_after == later
    complete(alias, (again(alias, frozen), "1"))
    assert find_task_result(job.id, alias).run_after == later


def test_conflicts_count_as_attempts_and_an_unknown_handler_does_not(alias, form, frozen):
    job = task(alias)
    fail(alias, job, kind="unknown")
    assert find_task_result(job.id, alias).worker_ids == []
    fail(alias, again(alias, frozen), kind="conflict")
    assert find_task_result(job.id, alias).worker_ids == ["node"]
    frozen.tick(30 * 86_400)
    trigger_due_timers(alias, 10)
    (job,) = acquire(alias)
    Job.objects.using(alias).update(unknown_since=NOW)
    fail_jobs(alias, [(job, Failure("HandlerNotFound: greet", kind="unknown"), a_run(alias))])
    sight = find_task_result(job.id, alias)
    assert (sight.status, sight.worker_ids) == ("FAILED", ["node"])
    assert sight.errors[1] == {
        "exception_class_path": "jobexec.exceptions.HandlerNotFound",
        "traceback": "HandlerNotFound: greet",
    }


def test_errors_are_bounded_and_no_text_is_too_strange(alias, form, monkeypatch, frozen):
    for name, most in (("FIRST_ERRORS", 1), ("LAST_ERRORS", 2), ("WORKERS", 4)):
        monkeypatch.setattr(f"jobexec.operations.history.task_rows.{name}", most)
    job = task(alias, retries=99)
    for number in range(6):
        stack = f"{number}\x00\ud800" + "x" * 50_000
        fail_jobs(alias, [(job, Failure("no", stack, retry_at=frozen.now), Run(NOW, 1.0, f"n{number}"))])
        job = again(alias, frozen)
    sight = find_task_result(job.id, alias)
    assert [error["traceback"][0] for error in sight.errors] == ["0", "4", "5"]
    assert all(len(error["traceback"]) < 10_100 for error in sight.errors)
    assert sight.worker_ids == ["n0", "n3", "n4", "n5", "there"]


# -- without a run ---------------------------------------------------------------------------------------------------


@pytest.fixture
def told(alias):
    """The ids of which task_ended has told."""
    heard = []

    def hear(sender, using, jobs, **kwargs):
        heard.extend((job.pk, job.handler_type) for job in jobs)

    task_attempts.task_ended.connect(hear)
    yield heard
    task_attempts.task_ended.disconnect(hear)


@pytest.mark.parametrize(("verb", "word"), [(cancel, "cancelled"), (delete_jobs, "deleted")])
@pytest.mark.parametrize("how", forms.VERBS)
def test_what_never_ran_has_failed_all_the_same(
    alias, verb, word, how, monkeypatch, told, django_capture_on_commit_callbacks
):
    forms.verbs(how, alias, monkeypatch)
    rows = [make_row(table, alias, **TASK).pk for table in (Job, TimerJob, SuspendedJob)]
    other = make_row(Job, alias).pk
    with django_capture_on_commit_callbacks(using=alias, execute=True):
        assert len(verb([*rows, other], using=alias).changed) == 4
    for sight in (find_task_result(pk, alias) for pk in rows):
        assert (sight.status, sight.finished_at, sight.worker_ids) == ("FAILED", NOW, [])
        assert [error["exception_class_path"] for error in sight.errors] == ["jobexec.exceptions.JobCancelled"]
        assert word in sight.errors[0]["traceback"]
        assert (sight.args, sight.kwargs) == ([1], {"name": "Ada"})
    assert sorted(told) == [(pk, "shop.tasks.greet") for pk in rows]
    assert TaskResult.objects.using(alias).count() == 3, "the other one is no task"


def test_what_is_cancelled_while_it_runs(alias, form):
    by_handler, failing = task(alias), task(alias)
    cancel(failing.id, using=alias)
    stopped = Failure("JobCancelled: it stopped", kind="cancelled", error=JobCancelled())
    fail_jobs(alias, [(by_handler, stopped, a_run(alias))])
    fail(alias, failing)
    cancelled = "jobexec.exceptions.JobCancelled"
    for job, classes in ((by_handler, [cancelled]), (failing, ["builtins.ValueError", cancelled])):
        sight = find_task_result(job.id, alias)
        assert (sight.status, sight.finished_at, sight.worker_ids) == ("FAILED", NOW, ["node"])
        assert [error["exception_class_path"] for error in sight.errors] == classes


def test_a_dead_letter_that_is_deleted_has_failed_as_it_had(alias, frozen, form):
    known, unknown = task(alias, retries=1), make_row(DeadLetterJob, alias, **TASK, exception_message="ValueError: no")
    fail(alias, known)
    before = find_task_result(known.id, alias)
    frozen.tick(60)
    assert delete_jobs([known.id, unknown.pk], using=alias)
    assert find_task_result(known.id, alias) == before
    sight = find_task_result(unknown.pk, alias)
    assert (sight.status, sight.errors[0]["traceback"]) == ("FAILED", "ValueError: no")


def test_moved_to_the_dead_letters_by_hand(alias, form, told, django_capture_on_commit_callbacks):
    row = make_row(TimerJob, alias, **TASK)
    with django_capture_on_commit_callbacks(using=alias, execute=True):
        assert move_to_dead_letter(row.pk, "nobody wants it", using=alias)
    sight = find_task_result(row.pk, alias)
    assert (sight.status, sight.finished_at, sight.errors[0]["traceback"]) == ("FAILED", NOW, "nobody wants it")
    assert told == [(row.pk, "shop.tasks.greet")]


def test_a_row_that_cannot_be_read(alias, told, django_capture_on_commit_callbacks):
    row = make_row(TimerJob, alias, **TASK, retry_plan="PT1S")
    with django_capture_on_commit_callbacks(using=alias, execute=True):
        assert bury_unreadable.bury(alias, TimerJob, row.pk, "It is broken.")
    (error,) = find_task_result(row.pk, alias).errors
    assert error["exception_class_path"] == "jobexec.exceptions.UnreadableJob"
    assert TaskResult.objects.using(alias).get().status == "FAILED"
    assert told == [(row.pk, "shop.tasks.greet")]


def test_a_job_that_takes_its_process_along(alias, form, frozen, told, django_capture_on_commit_callbacks):
    node = make_node(alias)
    job = work(alias, node.lock_owner, **TASK, retries=1, lost_runs=2)
    Job.objects.using(alias).update(start_time=NOW)
    frozen.tick(LEASE_TIME * 2)
    (dead,) = declare_dead(alias)
    with django_capture_on_commit_callbacks(using=alias, execute=True):
        recover_node(alias, dead)
    sight = find_task_result(job.id, alias)
    assert (sight.status, sight.worker_ids, sight.started_at) == ("FAILED", ["node"], NOW)
    assert sight.errors[0]["exception_class_path"] == "jobexec.exceptions.WorkerLost"
    assert "died" in sight.errors[0]["traceback"]
    assert told == [(job.id, "shop.tasks.greet")]


# -- return values ---------------------------------------------------------------------------------------------------


def test_return_values_are_json_of_a_bounded_size(configure):
    configure(RESULT_MAX_SIZE=10)
    assert encode_return_value({"a": [1]}) == '{"a": [1]}'
    assert encode_return_value("\\u0000") == '"\\\\u0000"'
    with pytest.raises(DoNotRetry, match="RESULT_MAX_SIZE allows 10"):
        encode_return_value("é" * 5)
    for value in (object(), {1, 2}, float("nan"), "\x00", "\ud800"):
        with pytest.raises(DoNotRetry, match="cannot be stored"):
            encode_return_value(value)
    for value in ({"password": "hunter2", "rate": float("nan")}, {"password": {"hunter2"}}):
        with pytest.raises(DoNotRetry, match=r"cannot be stored: return value(\['rate'\])?: expected JSON") as raised:
            encode_return_value(value)
        assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({1, 2}, ": expected JSON, got {1, 2} (Object of type set"),
        (
            {"order": {"lines": [1, {"price": 1j}]}},
            "['order']['lines'][1]['price']: expected JSON, got 1j (Object of type",
        ),
        ({"a": 1, 2: (0, b"x")}, "[2][1]: expected JSON, got b'x' (Object of type bytes"),
        ({"a": {("b", "c"): 1}}, "['a']: expected JSON, got {('b', 'c'): 1} (keys must be str"),
        ([0.5, float("inf")], "[1]: expected JSON, got inf (Out of range"),
        ({"jobs": [Job()]}, "['jobs'][0]: expected JSON, got the model instance"),
    ],
)
def test_the_error_names_the_handler_and_the_place_in_its_return_value(handle, value, problem):
    handler = handle(lambda: value, name="shop.report", keep_result=True)
    with pytest.raises(DoNotRetry) as raised:
        handler.encode_result(value)
    assert f"cannot be stored: return value of shop.report{problem}" in str(raised.value)


def test_the_error_shows_the_value_of_a_handler_with_a_sensitive_word_in_its_name(handle):
    handler = handle(lambda: None, name="shop.reset_password", keep_result=True)
    with pytest.raises(DoNotRetry, match=r"return value of shop.reset_password\['sent'\]: expected JSON, got 1j"):
        handler.encode_result({"sent": 1j, "password": b"top"})


# -- how long they are kept ------------------------------------------------------------------------------------------


def over(alias, days, **columns):
    """The id of a task that was over so many days ago."""
    job = task(alias, **columns)
    if columns:
        fail(alias, job)
    else:
        complete(alias, (job, "1"))
    TaskResult.objects.using(alias).filter(pk=job.id).update(end_time=NOW - timedelta(days=days))
    return job.id


def test_results_are_kept_for_result_ttl_whatever_the_history(alias, configure):
    old, young = over(alias, 8), over(alias, 6)
    configure(HISTORY_TIME_TO_LIVE=None, RESULT_TTL=None)
    assert clean_up_history(alias) == 0
    configure(HISTORY_TIME_TO_LIVE=None)
    assert clean_up_history(alias) == 1
    assert find_task_result(old, alias) is None
    assert find_task_result(young, alias).status == "SUCCESSFUL"
    configure(HISTORY_TIME_TO_LIVE=None, RESULT_TTL=timedelta(days=5), HISTORY_CLEANUP_BATCH_SIZE=1)
    assert clean_up_history(alias) == 1


def test_results_stay_as_long_as_somebody_may_still_requeue_the_job(alias, configure):
    configure(HISTORY_CLEANUP_BATCH_SIZE=1)
    dead, waiting, gone = over(alias, 9, retries=1), task(alias).id, over(alias, 8, retries=1)
    DeadLetterJob.objects.using(alias).filter(pk=gone).delete()
    assert clean_up_history(alias) == 1
    assert set(TaskResult.objects.using(alias).values_list("pk", flat=True)) == {dead}
    assert find_task_result(dead, alias).errors[0]["traceback"] == "Traceback 1"
    assert find_task_result(waiting, alias).status == "RUNNING"
    delete_jobs(dead, using=alias)
    assert clean_up_history(alias) == 1


@pytest.mark.databases("sqlite")
def test_a_result_that_cannot_be_read_keeps_no_job_from_its_end(alias):
    row = make_row(TimerJob, alias, **TASK)
    columns = {"backend": "default", "handler_type": "x", "status": "READY", "create_time": NOW}
    TaskResult.objects.using(alias).create(id=row.pk, **columns)
    with connections[alias].cursor() as cursor:  # more digits than Python reads
        cursor.execute(f"UPDATE {TaskResult._meta.db_table} SET errors = %s", [f"[{'1' * 5000}]"])
    assert bury_unreadable.bury(alias, TimerJob, row.pk)
    assert DeadLetterJob.objects.using(alias).get().task_backend == "default"
    assert find_task_result(row.pk, alias).status == "FAILED"
