"""Jobs whose `@job` keeps their result: what callers read by the id, until when, and what the others cost."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command
from django.db import transaction

import jobexec
from jobexec.exceptions import InvalidJob, ResultDoesNotExist
from jobexec.handlers import registry
from jobexec.models import DeadLetterJob, ExternalWorkerJob, Job, TaskResult
from jobexec.operations import cancel, clean_up_history, delete_jobs, requeue, trigger_due_timers
from jobexec.operations.external import complete_external_job, fail_external_job
from tests.support.executor import run_one
from tests.support.factories import in_hands, make_external

pytestmark = pytest.mark.transactional

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def report(alias, handle):
    """A job that keeps what it returns for 30 days; `report.says` is that, or what it raises."""

    def work(number, password=""):
        if isinstance(function.says, Exception):
            raise function.says
        return function.says

    function = handle(work, name="tests.report", keep_result="P30D", database=alias)
    function.says = {"sum": [1, 2.5, None]}
    return function


@pytest.mark.every_database
@pytest.mark.parametrize("atomic", [False, True])
def test_what_it_returns_is_read_by_its_id(alias, report, frozen, atomic):
    row = report.using(atomic=atomic).enqueue(1)
    waiting = report.get_result(row.pk)
    assert (waiting.status, waiting.is_finished, waiting.attempts, waiting.enqueued_at) == ("READY", False, 0, NOW)
    with pytest.raises(ValueError, match="has not finished yet"):
        waiting.return_value  # noqa: B018
    run_one(alias)
    done = report.get_result(str(row.pk))
    assert (done.id, done.handler_type, done.status, done.is_finished) == (row.pk, "tests.report", "SUCCESSFUL", True)
    assert (done.return_value, done.errors, done.worker_ids) == ({"sum": [1, 2.5, None]}, [], ["test host"])
    assert jobexec.get_result(row.pk, using=alias) == done
    assert TaskResult.objects.using(alias).get().expires_at - done.finished_at == timedelta(days=30)


def test_also_for_async_callers(alias, report):
    pk = report.enqueue(1).pk
    run_one(alias)

    async def ask():
        return [await report.aget_result(pk), await jobexec.aget_result(pk, using=alias)]

    assert [each.return_value for each in asyncio.run(ask())] == [report.says] * 2


def test_an_async_function_keeps_what_it_returns(alias, handle):
    async def work():
        return "done"

    function = handle(work, keep_result=True, database=alias)
    pk = function.enqueue().pk
    run_one(alias)
    assert function.get_result(pk).return_value == "done"


@pytest.mark.every_database
def test_failures_are_there_too(alias, report, frozen):
    report.says = LookupError("no such month")
    pk = report.using(retries="R2/PT0S").enqueue(1).pk
    run_one(alias)
    assert (report.get_result(pk).status, report.get_result(pk).attempts) == ("READY", 1)
    trigger_due_timers(alias, 10)
    run_one(alias)
    dead = report.get_result(pk)
    assert (dead.status, dead.attempts, len(dead.errors)) == ("FAILED", 2, 2)
    assert dead.errors[0]["exception_class_path"] == "builtins.LookupError"
    with pytest.raises(ValueError, match="has failed"):
        dead.return_value  # noqa: B018
    report.says = 5
    assert requeue(pk, using=alias)
    run_one(alias)
    assert (report.get_result(pk).return_value, report.get_result(pk).attempts) == (5, 3)


@pytest.mark.every_database
@pytest.mark.parametrize("end", [cancel, delete_jobs])
def test_what_an_operator_removes_has_failed(alias, report, end):
    pk = report.enqueue(1).pk
    end([pk], using=alias)
    gone = report.get_result(pk)
    assert (gone.status, gone.errors[0]["exception_class_path"]) == ("FAILED", "jobexec.exceptions.JobCancelled")


@pytest.mark.every_database
@pytest.mark.parametrize("value", [object(), "x" * 300])
def test_what_cannot_be_kept_is_a_dead_letter_that_says_so(alias, report, configure, value):
    configure(RESULT_MAX_SIZE=200)
    report.says = value
    pk = report.enqueue(1).pk
    run_one(alias)
    row = DeadLetterJob.objects.using(alias).get()
    assert row.exception_message.startswith("DoNotRetry: It has run, but its return value cannot be stored")
    assert report.get_result(pk).status == "FAILED"


def test_a_result_is_committed_with_the_end_of_its_job_or_not_at_all(alias, report, monkeypatch):
    from jobexec.executor.run import execution

    pk = report.using(atomic=True).enqueue(1).pk
    complete = execution.complete_alone

    def fails(outcome, run):
        assert complete(outcome, run)
        raise LookupError("killed here")

    monkeypatch.setattr(execution, "complete_alone", fails)
    run_one(alias)
    assert (report.get_result(pk).status, report.get_result(pk).errors[0]["exception_class_path"]) == (
        "READY",
        "builtins.LookupError",
    )


@pytest.mark.every_database
def test_each_expires_when_its_job_says(alias, report, handle, frozen, configure):
    configure(RESULT_TTL="P7D")
    week = handle(lambda: 1, name="tests.week", keep_result=True, database=alias)
    hour = handle(lambda: 2, name="tests.hour", keep_result=timedelta(hours=1), database=alias)
    kept = {report: report.enqueue(1).pk, week: week.enqueue().pk, hour: hour.enqueue().pk}
    for _ in kept:
        run_one(alias)

    def left():
        clean_up_history(alias)
        return set(TaskResult.objects.using(alias).values_list("handler_type", flat=True))

    assert left() == {"tests.report", "tests.week", "tests.hour"}
    frozen.tick(3700)
    assert left() == {"tests.report", "tests.week"}
    with pytest.raises(ResultDoesNotExist):
        hour.get_result(kept[hour])
    frozen.tick(7 * 86_400)
    assert left() == {"tests.report"}
    configure(RESULT_TTL=None)
    assert left() == {"tests.report"}
    frozen.tick(23 * 86_400)
    assert left() == set()


def test_of_a_dead_letter_it_stays(alias, report, frozen):
    report.says = LookupError("no")
    pk = report.using(retries="R1/PT1S").enqueue(1).pk
    run_one(alias)
    frozen.tick(400 * 86_400)
    clean_up_history(alias)
    assert report.get_result(pk).status == "FAILED"
    assert TaskResult.objects.using(alias).exists()


def test_other_jobs_have_none_and_cost_nothing(alias, report, handle):
    plain = handle(lambda: 1, name="tests.plain", database=alias)
    row = plain.enqueue()
    assert row.task_backend == ""
    for ask in (plain.get_result, report.get_result, lambda pk: jobexec.get_result(pk, using=alias)):
        with pytest.raises(ResultDoesNotExist):
            ask(row.pk)
    run_one(alias)
    assert not TaskResult.objects.using(alias).exists()


@pytest.mark.every_database
def test_a_function_that_stops_keeping_results_between_two_attempts(alias, handle):
    def fails():
        raise ValueError("no")

    with registry.isolated():
        before = handle(fails, name="tests.changed", keep_result=True, database=alias)
        pk = before.using(retries="R2/PT0S").enqueue().pk
        run_one(alias)
    assert before.get_result(pk).attempts == 1
    with registry.isolated():
        handle(lambda: 1, name="tests.changed", database=alias)
        trigger_due_timers(alias, 10)
        run_one(alias)
    assert not Job.objects.using(alias).exists()
    with pytest.raises(ResultDoesNotExist):
        before.get_result(pk)


def test_the_result_of_another_function_is_not_given_out(alias, report, handle):
    other = handle(lambda: 1, name="tests.other", keep_result=True, database=alias)
    with pytest.raises(ResultDoesNotExist, match=r"expected a job of tests\.report, got tests\.other"):
        report.get_result(other.enqueue().pk)


def test_a_function_that_was_renamed_finds_its_old_results(alias, handle):
    with registry.isolated():
        pk = handle(lambda: 1, name="tests.old", keep_result=True, database=alias).enqueue().pk
        run_one(alias)
    with registry.isolated():
        new = handle(lambda: 1, name="tests.new", aliases=["tests.old"], keep_result=True, database=alias)
    assert new.get_result(pk).return_value == 1


@pytest.mark.parametrize("wrong", [0, -1, "a week", None, [], "P0D"])
def test_a_wrong_duration_is_refused_at_import(handle, wrong):
    with pytest.raises(InvalidJob, match=r"keep_result: expected True, False or a"):
        handle(lambda: 1, name="tests.wrong", keep_result=wrong)


def test_single_calls_cannot_change_it(report):
    with pytest.raises(InvalidJob, match=r"give it to @job\(keep_result=\.\.\.\)"):
        report.using(keep_result=True)


def test_a_rolled_back_call_has_no_result(alias, report):
    with transaction.atomic(using=alias):
        pk = report.enqueue(1).pk
        assert report.get_result(pk).status == "READY"
        transaction.set_rollback(True, using=alias)
    with pytest.raises(ResultDoesNotExist):
        report.get_result(pk)


# -- jobs for workers outside ----------------------------------------------------------------------------------------


@pytest.mark.every_database
@pytest.mark.parametrize("instance", ["", "order-5"])
def test_the_variables_of_a_completion_are_kept(alias, frozen, instance):
    job = in_hands(alias, variables={"order": 5}, keep_result="PT1H", process_instance_id=instance)
    assert jobexec.get_result(job.id, using=alias).status == "RUNNING"
    complete_external_job(alias, job.key, {"paid": True})
    assert not ExternalWorkerJob.objects.using(alias).exists()
    done = jobexec.get_result(job.id, using=alias)
    assert (done.status, done.return_value, done.worker_ids) == ("SUCCESSFUL", {"paid": True}, ["one"])
    frozen.tick(3700)
    clean_up_history(alias)
    with pytest.raises(ResultDoesNotExist):
        jobexec.get_result(job.id, using=alias)


@pytest.mark.every_database
def test_a_completion_that_is_too_long_is_refused_and_the_job_stays(alias, configure):
    configure(RESULT_MAX_SIZE=50)
    job = in_hands(alias, keep_result=True)
    with pytest.raises(InvalidJob, match=r"variables: expected at most 50 bytes of JSON \(setting RESULT_MAX_SIZE\)"):
        complete_external_job(alias, job.key, {"text": "x" * 100})
    assert jobexec.get_result(job.id, using=alias).status == "RUNNING"
    complete_external_job(alias, job.key, {"text": "x"})
    assert jobexec.get_result(job.id, using=alias).return_value == {"text": "x"}


@pytest.mark.every_database
def test_a_worker_that_gives_up_has_failed(alias):
    job = in_hands(alias, keep_result=True)
    fail_external_job(alias, job.key, retries=0, message="no money")
    failed = jobexec.get_result(job.id, using=alias)
    assert (failed.status, failed.errors[0]["traceback"]) == ("FAILED", "no money")
    delete_jobs([job.id], using=alias)
    assert jobexec.get_result(job.id, using=alias).status == "FAILED"


def test_of_what_follows_the_function_keeps_the_result(alias, report):
    with pytest.raises(InvalidJob, match="keep_result: with on_complete, its function keeps the result"):
        make_external(alias, keep_result=True, on_complete=report)

    report_variables = jobexec.job(name="tests.follows", keep_result=True)(lambda variables: variables)
    job = in_hands(alias, on_complete=report_variables)
    complete_external_job(alias, job.key, {"paid": True})
    assert Job.objects.using(alias).get().task_backend == "@job"
    run_one(alias)
    assert jobexec.get_result(job.id, using=alias).return_value == {"paid": True}


def test_an_external_job_says_what_is_wrong(alias):
    with pytest.raises(InvalidJob, match="keep_result: expected True, False or a"):
        make_external(alias, keep_result="soon")


# -- what operators see ----------------------------------------------------------------------------------------------


def test_the_command_shows_it_without_sensitive_values(alias, report, capsys):
    report.says = {"token": "t0p", "sum": 5}
    pk = report.enqueue(1).pk
    run_one(alias)
    call_command("jobs", "show", str(pk), database=alias)
    shown = capsys.readouterr().out
    assert '"sum": 5' in shown and "SUCCESSFUL" in shown
    assert "t0p" not in shown
