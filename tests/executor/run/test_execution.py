"""One run of a job, from handler look-up to outcome: every way to fail ends in a recorded outcome."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.db import OperationalError

from jobexec import JobContext
from jobexec.clock import FrozenClock
from jobexec.exceptions import DoNotRetry, RetryAt, RetryIn
from jobexec.models import DeadLetterJob, Job, JobLog, TimerJob
from jobexec.operations.maintenance.timers import trigger_due_timers
from tests.support.executor import Host, run_one
from tests.support.factories import make_job, tables_of

pytestmark = pytest.mark.transactional

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
FAR = datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))


@pytest.fixture
def frozen():
    with FrozenClock(NOW) as clock:
        yield clock


def raising(error):
    def run():
        raise error

    return run


def test_success_deletes_the_job_and_writes_the_log(alias, handle):
    seen = []
    handle(lambda *args, **kwargs: seen.append((args, kwargs)), name="tests.see")
    make_job(alias, handler_type="tests.see", handler_configuration={"args": [1, "ä"], "kwargs": {"x": [None]}})
    run_one(alias)
    assert seen == [((1, "ä"), {"x": [None]})]
    assert tables_of(alias) == {}
    entry = JobLog.objects.using(alias).get()
    assert (entry.state, entry.node, entry.attempt) == ("successful", "test host", 1)


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), RecursionError(), asyncio.CancelledError()],
)
def test_whatever_is_raised_costs_one_retry(alias, handle, frozen, error):
    handle(raising(error), name="tests.fail", retries="R3/PT5M")
    make_job(alias, handler_type="tests.fail")
    run_one(alias)
    row = TimerJob.objects.using(alias).get()
    assert (row.retries, row.attempts, row.due_date) == (2, 1, NOW + timedelta(minutes=5))
    assert row.exception_message.startswith(type(error).__name__)
    assert "Traceback" in row.exception_stack
    assert row.exception_stack.rstrip().splitlines()[-1].startswith((type(error).__name__, "asyncio"))


@pytest.mark.parametrize(
    ("error", "due"),
    [
        (RetryIn(90, "later"), NOW + timedelta(seconds=90)),
        (RetryAt(NOW + timedelta(days=3)), NOW + timedelta(days=3)),
        (RetryIn(0), NOW),
    ],
)
def test_the_handler_may_choose_when_to_try_again(alias, handle, frozen, error, due):
    handle(raising(error), name="tests.fail", retries="R3/PT5M")
    make_job(alias, handler_type="tests.fail")
    run_one(alias)
    row = TimerJob.objects.using(alias).get()
    assert (row.due_date, row.retries) == (due, 2)


@pytest.mark.parametrize("error", [RetryIn(0), RetryIn(60, "to be continued"), RetryAt(NOW + timedelta(hours=1))])
def test_a_job_that_puts_itself_off_while_the_executor_drains_pays_nothing(alias, handle, error):
    """Otherwise a job that outlasts three drains is a dead letter."""
    host = Host()

    def heed(context: JobContext):
        host.shutting_down = True
        if context.shutting_down:
            raise error

    handle(heed, name="tests.heed")
    row = make_job(alias, handler_type="tests.heed", retries=1)
    for _ in range(4):
        host.shutting_down = False
        run_one(alias, host)
        waiting = TimerJob.objects.using(alias).get()
        assert (waiting.pk, waiting.retries, waiting.attempts) == (row.pk, 1, 0)
        TimerJob.objects.using(alias).update(due_date=NOW)
        trigger_due_timers(alias, 10)
    assert not JobLog.objects.using(alias).exists()


def test_any_other_error_while_the_executor_drains_is_a_failure(alias, handle):
    host = Host()

    def fail():
        host.shutting_down = True
        raise ValueError("no")

    handle(fail, name="tests.fail")
    make_job(alias, handler_type="tests.fail")
    run_one(alias, host)
    assert TimerJob.objects.using(alias).get().retries == 2


def test_do_not_retry_ends_at_once_as_a_dead_letter(alias, handle):
    handle(raising(DoNotRetry("never again")), name="tests.fail")
    make_job(alias, handler_type="tests.fail", retries=9)
    run_one(alias)
    row = DeadLetterJob.objects.using(alias).get()
    assert (row.retries, row.exception_message) == (0, "DoNotRetry: never again")


def test_the_last_retry_ends_as_a_dead_letter(alias, handle):
    handle(raising(ValueError("no")), name="tests.fail")
    make_job(alias, handler_type="tests.fail", retries=1)
    run_one(alias)
    assert DeadLetterJob.objects.using(alias).get().exception_message == "ValueError: no"


def test_conflicts_of_the_database_cost_no_retry(alias, handle):
    handle(raising(OperationalError("database is locked")), name="tests.fail")
    make_job(alias, handler_type="tests.fail")
    run_one(alias)
    row = TimerJob.objects.using(alias).get()
    assert (row.retries, row.conflicts, row.attempts) == (3, 1, 1)


def test_a_callable_plan_is_asked_with_the_error(alias, handle, frozen):
    asked = []

    def plan(failures, error):
        asked.append((failures, repr(error)))
        return 7

    handle(raising(ValueError("no")), name="tests.fail", retries=plan)
    make_job(alias, handler_type="tests.fail")
    run_one(alias)
    assert asked == [(1, "ValueError('no')")]
    assert TimerJob.objects.using(alias).get().due_date == NOW + timedelta(seconds=7)


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("not for your eyes")


class Vicious(Exception):
    def __str__(self):
        raise self


class Unhashable(OperationalError):
    def __init__(self):
        super().__init__(["a list"])


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Unprintable(), "Unprintable, an exception that cannot be recorded (RuntimeError: not for your eyes)"),
        (Vicious(), "Vicious, an exception that cannot be recorded (Vicious)"),
        (RetryIn(timedelta.max), "RetryIn, an exception that cannot be recorded (OverflowError"),
        (RetryAt(FAR), "RetryAt, an exception that cannot be recorded (OverflowError"),
        (Unhashable(), "Unhashable"),
        (ValueError("\x00 and \ud800"), "ValueError: \\x00 and \\ud800"),
        (ValueError("x" * 1_000_000), "ValueError: xxx"),
    ],
)
def test_an_exception_that_cannot_be_stored_as_it_is(alias, handle, error, text):
    handle(raising(error), name="tests.fail")
    make_job(alias, handler_type="tests.fail")
    run_one(alias)
    row = TimerJob.objects.using(alias).get()
    assert row.exception_message.startswith(text)
    assert (row.retries, len(row.exception_message) <= 4000, len(row.exception_stack) < 110_000) == (2, True, True)


def test_async_handlers_run_to_their_end(alias, handle):
    seen = []

    async def wait_and_count():
        await asyncio.sleep(0)
        seen.append(await Job.objects.using(alias).acount())

    handle(wait_and_count, name="tests.count")
    make_job(alias, handler_type="tests.count")
    run_one(alias)
    assert seen == [1]
    assert tables_of(alias) == {}


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), asyncio.CancelledError()])
def test_async_handlers_fail_as_others_do(alias, handle, error):
    async def fail():
        raise error

    handle(fail, name="tests.fail")
    make_job(alias, handler_type="tests.fail")
    run_one(alias)
    assert TimerJob.objects.using(alias).get().retries == 2


def test_an_async_function_behind_a_plain_decorator_is_awaited_too(alias, handle):
    seen = []

    async def inner():
        seen.append(sys.exc_info())

    handle(lambda: inner(), name="tests.hidden")
    make_job(alias, handler_type="tests.hidden")
    run_one(alias)
    assert len(seen) == 1


def test_a_result_that_is_not_json_is_no_failure(alias, handle):
    handle(lambda: object(), name="tests.odd")
    make_job(alias, handler_type="tests.odd")
    run_one(alias)
    assert tables_of(alias) == {}


def test_a_log_filter_that_fails_costs_nothing(alias, handle, monkeypatch):
    handle(lambda: None, name="tests.nothing")
    monkeypatch.setattr("jobexec.executor.run.execution._log", lambda *args: 1 / 0)
    make_job(alias, handler_type="tests.nothing")
    run_one(alias)
    assert tables_of(alias) == {}
