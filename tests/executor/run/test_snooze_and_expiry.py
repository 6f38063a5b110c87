"""Jobs that put themselves off at no cost, and jobs that come too late."""

import copy
import pickle
from datetime import UTC, datetime, timedelta

import pytest

from jobexec.clock import FrozenClock
from jobexec.exceptions import InvalidJob, RetryAt, RetryIn
from jobexec.executor.execute_now import execute_now
from jobexec.models import DeadLetterJob, Job, JobLog, TimerJob
from jobexec.operations import requeue
from jobexec.operations.maintenance.timers import trigger_due_timers
from jobexec.testing import ManualExecutor
from tests.support.executor import run_one
from tests.support.factories import make_job, make_row, tables_of
from tests.support.waiting import until

pytestmark = pytest.mark.transactional

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def frozen():
    with FrozenClock(NOW) as clock:
        yield clock


def putting_off(**options):
    def run():
        raise RetryIn(60, "not there yet", **options)

    return run


class TestSnooze:
    def test_it_costs_nothing_and_is_no_attempt(self, alias, handle, frozen):
        handle(putting_off(count=False), name="tests.wait")
        make_job(alias, handler_type="tests.wait", retries=1)
        for number in (1, 2, 3):
            run_one(alias)
            row = TimerJob.objects.using(alias).get()
            assert (row.retries, row.attempts, row.snoozes) == (1, 0, number)
            assert row.due_date == NOW + number * MINUTE
            assert (row.exception_message, row.exception_stack) == ("RetryIn: not there yet", "")
            frozen.tick(60)
            trigger_due_timers(alias, 10)
        assert not JobLog.objects.using(alias).filter(state="failed").exists()

    def test_at_a_time(self, alias, handle, frozen):
        def run():
            raise RetryAt(NOW + MINUTE, count=False)

        handle(run, name="tests.wait")
        make_job(alias, handler_type="tests.wait", retries=1)
        run_one(alias)
        row = TimerJob.objects.using(alias).get()
        assert (row.retries, row.snoozes, row.due_date) == (1, 1, NOW + MINUTE)

    def test_after_its_limit_it_is_a_failure(self, alias, handle, configure, frozen):
        configure(MAX_SNOOZES=2)
        handle(putting_off(count=False), name="tests.wait")
        make_job(alias, handler_type="tests.wait", retries=2, snoozes=2)
        run_one(alias)
        row = TimerJob.objects.using(alias).get()
        assert (row.retries, row.attempts, row.snoozes) == (1, 1, 2)
        assert JobLog.objects.using(alias).get().state == "failed"

    def test_on_the_event_loop(self, alias, handle, make_executor):
        async def run():
            raise RetryIn(60, count=False)

        handle(run, name="tests.wait")
        make_job(alias, handler_type="tests.wait", retries=1)
        make_executor().start()
        until(lambda: TimerJob.objects.using(alias).filter(retries=1, attempts=0, snoozes=1).exists())

    def test_execute_now_and_the_test_kit(self, alias, handle):
        job = handle(putting_off(count=False), name="tests.wait")
        with pytest.raises(RetryIn):
            execute_now(job.using(database=alias).enqueue().pk, using=alias)
        assert TimerJob.objects.using(alias).get().snoozes == 1
        job.using(database=alias).enqueue()
        result = ManualExecutor(using=alias).run_next()
        assert (result.outcome, result.became) == ("snoozed", TimerJob)

    def test_a_requeued_job_starts_over(self, alias):
        job = make_row(DeadLetterJob, alias, snoozes=7)
        requeue(job.pk, using=alias)
        assert Job.objects.using(alias).get().snoozes == 0

    @pytest.mark.databases("sqlite")
    @pytest.mark.parametrize("error", [RetryIn(5, "x", count=False), RetryAt(NOW, count=False)])
    def test_it_survives_copies(self, alias, error):
        for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
            assert (other.count, other.reason, str(other)) == (False, error.reason, str(error))


class TestExpiry:
    @pytest.mark.parametrize("expires", [60, MINUTE, NOW + MINUTE])
    def test_it_is_not_started_afterwards(self, alias, handle, frozen, expires):
        seen = []
        job = handle(lambda: seen.append(1), name="tests.see").using(database=alias, expires=expires)
        first, late = job.enqueue(), job.using(delay=60).enqueue()
        assert (first.expires_at, late.expires_at) == (NOW + MINUTE, NOW + MINUTE)
        run_one(alias)
        assert seen == [1]
        frozen.tick(60)
        trigger_due_timers(alias, 10)
        run_one(alias)
        assert seen == [1] and tables_of(alias) == {}
        entry = JobLog.objects.using(alias).get(job_id=late.pk)
        assert entry.state == "cancelled"
        assert entry.exception_message == "JobExpired: It expired at 2026-03-01T12:01:00+00:00, before it started."

    def test_it_counts_from_each_call(self, alias, handle, frozen):
        job = handle(lambda: None, name="tests.see", expires=60, database=alias)
        assert job.enqueue().expires_at == NOW + MINUTE
        frozen.tick(30)
        assert job.enqueue().expires_at == NOW + timedelta(seconds=90)
        rows = job.enqueue_many([()] * 2)
        assert {row.expires_at for row in rows} == {NOW + timedelta(seconds=90)}

    def test_a_storm_is_ten_lines_in_the_log(self, alias, handle, frozen, caplog):
        late = handle(lambda: None, name="tests.see").using(database=alias, expires=0)
        late.enqueue_many([()] * 12)
        for _ in range(12):
            run_one(alias)
        assert tables_of(alias) == {}
        assert len([text for text in caplog.messages if "was cancelled: JobExpired" in text]) == 10

    def test_on_the_event_loop(self, alias, handle, make_executor):
        seen = []

        async def run():
            seen.append(1)

        handle(run, name="tests.see", database=alias, expires=0).enqueue()
        make_executor().start()
        until(lambda: tables_of(alias) == {})
        assert seen == []

    def test_execute_now_starts_it_and_a_requeued_one_has_time(self, alias, handle, frozen):
        handle(lambda: 7, name="tests.see")
        assert execute_now(make_job(alias, handler_type="tests.see", expires_at=NOW).pk, using=alias) == 7
        job = make_row(DeadLetterJob, alias, handler_type="tests.see", expires_at=NOW)
        requeue(job.pk, using=alias)
        assert Job.objects.using(alias).get().expires_at is None

    @pytest.mark.databases("sqlite")
    @pytest.mark.parametrize(
        ("value", "word"),
        [
            (-1, "at least 0"),
            ("1 h", "at least 0"),
            (datetime(2026, 1, 1), "time zone"),
            (timedelta.max, "past the year 9999"),
        ],
    )
    def test_what_is_no_time_is_refused(self, alias, handle, value, word):
        with pytest.raises(InvalidJob, match=f"expires: .*{word}"):
            handle(lambda: None, name="tests.see").using(database=alias, expires=value).enqueue()


def test_the_default_timeout_and_its_exception(alias, handle, configure):
    configure(DEFAULT_TIMEOUT=90)
    job = handle(lambda: None, name="tests.see", database=alias)
    found = [each.enqueue().timeout for each in (job, job.using(timeout=5), job.using(timeout=None))]
    assert found == [timedelta(seconds=90), timedelta(seconds=5), None]
