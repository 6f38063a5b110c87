"""Failure: a retry, a dead letter or a suspended job; what it costs, when it runs again, what is written."""

from datetime import UTC, datetime, timedelta

import pytest

from jobexec.exceptions import DoNotRetry
from jobexec.models import DeadLetterJob, Job, JobLog, SuspendedJob, TimerJob
from jobexec.operations import activate, fail_job, release_jobs, suspend, trigger_due_timers
from jobexec.retry import RetryPlan
from tests.support.factories import a_failure, a_run, acquire, make_job, reload, tables_of, work

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def fail_again(alias, frozen, **failure):
    """Let the waiting retry come due, acquire it and fail it."""
    frozen.tick(timedelta(days=1))
    trigger_due_timers(alias, 10)
    (job,) = acquire(alias)
    return fail_job(alias, job, a_failure(**failure), a_run(alias))


def test_a_retry_waits_as_a_timer(alias):
    job = work(alias, retry_plan="R3/PT1M", lost_runs=1)
    moved = fail_job(alias, job, a_failure("E: no", stack="Trace"), a_run(alias))
    stored = TimerJob.objects.using(alias).get()
    assert stored == moved
    assert (stored.pk, stored.retries, stored.attempts, stored.lost_runs) == (job.id, 2, 1, 0)
    assert (stored.due_date, stored.lock_owner) == (NOW + timedelta(minutes=1), None)
    assert (stored.exception_message, stored.exception_stack) == ("E: no", "Trace")
    assert stored.revision > job.revision


def test_three_retries_are_three_executions(alias, frozen):
    job = work(alias)
    fail_job(alias, job, a_failure("1"), a_run(alias))
    assert type(fail_again(alias, frozen, message="2")) is TimerJob
    assert type(fail_again(alias, frozen, message="3")) is DeadLetterJob
    dead = DeadLetterJob.objects.using(alias).get()
    assert (dead.pk, dead.retries, dead.attempts, dead.exception_message) == (job.id, 0, 3, "3")
    assert dead.died_at == NOW + timedelta(days=2)
    logged = JobLog.objects.using(alias).order_by("pk").values_list("attempt", "retries", "exception_message")
    assert list(logged) == [(1, 2, "1"), (2, 1, "2"), (3, 0, "3")]


def test_the_plan_of_the_row_gives_the_intervals(alias, frozen):
    job = work(alias, retry_plan="PT1M,PT10M,PT1H", retries=4)
    waits = [fail_job(alias, job, a_failure(), a_run(alias)).due_date - NOW]
    for _ in range(2):
        moved = fail_again(alias, frozen)
        waits.append(moved.due_date - frozen.now)
    assert waits == [timedelta(minutes=1), timedelta(minutes=10), timedelta(hours=1)]


def test_without_one_the_handlers_plan_counts_and_then_the_default(alias, configure):
    plan = RetryPlan.from_callable(lambda failures, error: 7 if isinstance(error, KeyError) else None)
    error = KeyError("x")
    moved = fail_job(alias, work(alias), a_failure(plan=plan, error=error), a_run(alias))
    assert moved.due_date == NOW + timedelta(seconds=7)
    assert type(fail_job(alias, work(alias), a_failure(plan=plan), a_run(alias))) is DeadLetterJob
    configure(DEFAULT_RETRY_PLAN="R3/PT42S")
    assert fail_job(alias, work(alias), a_failure(), a_run(alias)).due_date == NOW + timedelta(seconds=42)


def raises(error):
    def plan(failures, exception):
        raise error

    return RetryPlan.from_callable(plan)


@pytest.mark.parametrize(
    ("row_plan", "plan"),
    [("nonsense", None), ("", raises(ZeroDivisionError())), ("R3/P9999Y", None), ("", raises(OverflowError()))],
)
def test_a_broken_plan_is_replaced_by_the_default(alias, row_plan, plan):
    moved = fail_job(alias, work(alias, retry_plan=row_plan), a_failure(plan=plan), a_run(alias))
    assert (moved.retries, moved.due_date) == (2, NOW + timedelta(seconds=10))


def test_a_plan_may_say_no(alias):
    moved = fail_job(alias, work(alias), a_failure(plan=raises(DoNotRetry())), a_run(alias))
    assert (type(moved), moved.retries) == (DeadLetterJob, 0)


def test_fatal_is_a_dead_letter_at_once(alias):
    due = NOW - timedelta(hours=1)
    moved = fail_job(alias, work(alias, due_date=due), a_failure(kind="fatal"), a_run(alias))
    assert (type(moved), moved.retries, moved.attempts, moved.due_date) == (DeadLetterJob, 0, 1, due)


def test_the_handler_may_choose_the_time(alias):
    when = NOW + timedelta(days=4)
    moved = fail_job(alias, work(alias, retry_plan="R3/PT1S"), a_failure(retry_at=when), a_run(alias))
    assert (moved.retries, moved.due_date) == (2, when)
    last = fail_job(alias, work(alias, retries=1), a_failure(retry_at=when), a_run(alias))
    assert type(last) is DeadLetterJob, "it costs a retry all the same"


def test_conflicts_cost_no_retry_up_to_their_cap(alias, configure, frozen):
    configure(MAX_CONFLICTS=2, CONFLICT_DELAY=4)
    first = fail_job(alias, work(alias), a_failure(kind="conflict"), a_run(alias))
    assert (first.retries, first.conflicts, first.attempts) == (3, 1, 1)
    assert NOW + timedelta(seconds=4) <= first.due_date < NOW + timedelta(seconds=8)
    second = fail_again(alias, frozen, kind="conflict")
    third = fail_again(alias, frozen, kind="conflict")
    assert (second.retries, second.conflicts) == (3, 2)
    assert (third.retries, third.conflicts, third.attempts) == (2, 2, 3)
    assert third.due_date == frozen.now + timedelta(seconds=10), "the plan's first interval: it is the first failure"
    assert JobLog.objects.using(alias).filter(state="failed").count() == 3


def test_an_unknown_handler_costs_nothing_until_its_time_is_over(alias, configure, frozen):
    configure(UNKNOWN_HANDLER_DELAY=60, UNKNOWN_HANDLER_TIMEOUT=100_000)
    first = fail_job(alias, work(alias), a_failure("No handler 'x'", kind="unknown"), a_run(alias))
    assert (first.retries, first.attempts, first.due_date) == (3, 0, NOW + timedelta(seconds=60))
    assert not JobLog.objects.using(alias).exists()
    second = fail_again(alias, frozen, message="No handler 'x'", kind="unknown")
    assert (type(second), second.unknown_since) == (TimerJob, NOW)
    third = fail_again(alias, frozen, message="No handler 'x'", kind="unknown")
    assert (type(third), third.exception_message) == (DeadLetterJob, "No handler 'x'")
    assert JobLog.objects.using(alias).count() == 1


@pytest.mark.parametrize("how", ["released", "acquired anew", "settled"])
def test_an_outcome_that_is_no_longer_ours_does_not_count(alias, how):
    job = work(alias)
    if how == "settled":
        fail_job(alias, job, a_failure("first"), a_run(alias))
    else:
        release_jobs(alias, [job])
    if how == "acquired anew":
        acquire(alias, "one")
    before = reload(alias, job)
    assert fail_job(alias, job, a_failure("late"), a_run(alias)) is None
    after = reload(alias, job)
    assert (type(after), after.revision, after.exception_message) == (
        type(before),
        before.revision,
        before.exception_message,
    )
    assert JobLog.objects.using(alias).count() == (how == "settled")


@pytest.mark.parametrize("scope", ["", "process_instance_id", "tenant_id"])
def test_the_retry_of_a_job_that_was_suspended_meanwhile_is_suspended(alias, scope):
    job = work(alias, process_instance_id="p", tenant_id="t", retry_plan="R3/PT1M")
    if scope:
        assert suspend(using=alias, **{scope: "p" if scope == "process_instance_id" else "t"}) == 0
    else:
        assert suspend(job.id, using=alias)
    assert tables_of(alias) == {job.id: [Job]}, "it runs on"
    moved = fail_job(alias, job, a_failure(), a_run(alias))
    assert (type(moved), moved.retries, moved.suspended_at) == (SuspendedJob, 2, NOW)
    assert moved.due_date == NOW + timedelta(minutes=1), "the back-off is kept"


def test_a_running_job_that_was_activated_again_is_retried(alias):
    job = work(alias)
    suspend(job.id, using=alias)
    activate(job.id, using=alias)
    assert type(fail_job(alias, job, a_failure(), a_run(alias))) is TimerJob


def test_a_dead_letter_is_one_also_when_suspended(alias):
    job = work(alias, tenant_id="t")
    suspend(tenant_id="t", using=alias)
    assert type(fail_job(alias, job, a_failure(kind="fatal"), a_run(alias))) is DeadLetterJob


def test_hostile_texts_are_stored(alias):
    message = "nul \x00, half a pair \ud83d, " + "ü" * 5000
    moved = fail_job(alias, work(alias), a_failure(message, stack=message), a_run(alias))
    stored = TimerJob.objects.using(alias).get(pk=moved.pk)
    assert stored.exception_message.startswith("nul \\x00, half a pair \\ud83d, üü")
    assert (len(stored.exception_message), len(stored.exception_stack) > 5000) == (4000, True)
    assert JobLog.objects.using(alias).get().exception_message == stored.exception_message


@pytest.mark.parametrize(("level", "logged"), [("none", 0), ("failures", 1), ("activity", 1), ("full", 1)])
def test_the_log(alias, configure, frozen, level, logged):
    configure(HISTORY_LEVEL=level)
    due = NOW - timedelta(seconds=5)
    job = work(alias, due_date=due, process_definition_key="d")
    frozen.tick(3)
    fail_job(alias, job, a_failure("E: no", stack="Trace"), a_run(alias, duration=2.0))
    entries = list(JobLog.objects.using(alias).filter(state="failed"))
    assert len(entries) == logged
    for entry in entries:
        assert (entry.job_id, entry.process_definition_key, entry.attempt, entry.retries) == (job.id, "d", 1, 2)
        assert (entry.wait, entry.duration, entry.node, entry.due_date) == (6.0, 2.0, "node", due)
        assert (entry.exception_message, entry.exception_stack) == ("E: no", "Trace")


def test_a_failed_exclusive_job_does_not_block_its_siblings(alias):
    first = work(alias, process_instance_id="p")
    second = make_job(alias, process_instance_id="p")
    fail_job(alias, first, a_failure(), a_run(alias))
    assert [job.id for job in acquire(alias, "two")] == [second.pk]
