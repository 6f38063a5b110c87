"""The examples of docs/how-to/migrate/from-huey.md do what the page says."""

from datetime import timedelta

import pytest

from demo_project.bookings.models import Booking
from jobexec import DoNotRetry, JobCancelled, RetryIn, clock
from jobexec.executor.execute_now import execute_now
from jobexec.models import DeadLetterJob, Job, JobLog, TimerJob
from jobexec.testing import ManualExecutor, controlled_clock
from tests.support.factories import acquire

EXAMPLE = "from_huey"


def test_retries_with_backoff(example, booking, monkeypatch):
    answers = iter([OSError(), OSError(), "AZ 1"])

    def reserve(key, city):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(example.flights, "reserve", reserve)
    job = example.reserve_flight.enqueue(booking.pk)
    assert (job.retries, job.priority, job.timeout) == (4, 10, timedelta(minutes=1))
    for wait in (10, 20):
        with pytest.raises(OSError):
            execute_now(job.pk)
        due_in = TimerJob.objects.get().due_date - clock.now()
        assert wait * 0.9 - 5 < due_in.total_seconds() <= wait
    execute_now(job.pk)
    assert booking.tickets.get().reference == "AZ 1"


def test_delay_eta_and_map(example, booking):
    when = clock.now() + timedelta(hours=1)
    example.reserve_later(booking, when)
    assert TimerJob.objects.order_by("id").last().due_date == when
    example.confirm(booking)
    example.reserve_all([booking, booking])
    assert Job.objects.count() == 3


def test_a_lock_waits_and_does_not_fail(example, booking, run_due):
    example.write_ledger.enqueue(booking.pk)
    example.write_ledger.enqueue(booking.pk)
    example.write_ledger_of(booking)
    first = acquire("default", limit=1)
    assert [job.id for job in acquire("default", "two")] == [Job.objects.get(process_instance_id="ledger Rome").pk]
    assert {job.process_instance_id for job in first} == {"the ledger"}
    assert not DeadLetterJob.objects.exists()
    assert not TimerJob.objects.exists()


def test_a_pipeline(example, booking, run_due, mailoutbox):
    example.price.enqueue(booking.pk)
    assert run_due() == ["price", "mail_price"]
    assert mailoutbox[0].body == "300 EUR"


def test_a_pipeline_is_a_flow(example, booking, mailoutbox):
    example.ask_for_the_price(booking)
    ManualExecutor().run_until_empty()
    assert mailoutbox[0].body == "300 EUR"


def test_a_chord_is_a_flow(example, booking):
    instance = example.ask_for_the_total([booking, booking, booking])
    ManualExecutor().run_until_empty()
    instance.refresh_from_db()
    assert (instance.state, instance.final_variables["total"]) == ("completed", 900)


def test_jobs_that_expire(example, booking, mailoutbox):
    evening = clock.now() + timedelta(hours=5)
    example.remind_today(booking, evening)
    with controlled_clock() as time:
        time.advance(timedelta(minutes=11))
        ManualExecutor().run_due()
        assert [len(mailoutbox), JobLog.objects.filter(state="cancelled").count()] == [1, 1]
        example.remind.using(expires=evening).enqueue(booking.pk)
        time.advance(timedelta(hours=5))
        ManualExecutor().run_due()
    assert [len(mailoutbox), JobLog.objects.filter(state="cancelled").count()] == [1, 2]


def test_a_task_is_revoked_until_a_date_and_restored(example, booking, mailoutbox):
    executor = ManualExecutor()
    with controlled_clock() as time:
        example.remind.enqueue(booking.pk)
        example.hold_reminders(clock.now() + timedelta(minutes=5))
        example.remind.enqueue(booking.pk)
        assert executor.run_until_empty() == []
        time.advance(timedelta(minutes=6))
        executor.run_suspensions()
        assert len(executor.run_until_empty()) == 2
        example.hold_reminders(clock.now() + timedelta(days=1))
        example.remind.enqueue(booking.pk)
        assert executor.run_until_empty() == []
        example.release_reminders()
        assert len(executor.run_until_empty()) == 1
    assert len(mailoutbox) == 3


def test_a_rate_limit(example, booking, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "RESOURCES": {"sms.example": {"rate": "10/PT60S"}}}
    example.send_text.enqueue(booking.pk)
    example.send_text.enqueue(booking.pk)
    assert len(ManualExecutor().run_due()) == 1


def test_exceptions_that_steer(example, booking, run_due):
    example.ask_again.enqueue(booking.pk)
    with pytest.raises(RetryIn):
        run_due()
    assert TimerJob.objects.get().retries == 2
    Booking.objects.update(city="Atlantis")
    example.ask_again.enqueue(booking.pk)
    with pytest.raises(DoNotRetry):
        run_due()
    assert DeadLetterJob.objects.count() == 1
    example.ask_again.enqueue(0)
    with pytest.raises(JobCancelled):
        run_due()
    assert not Job.objects.exists()
    assert DeadLetterJob.objects.count() == 1
    assert JobLog.objects.filter(state="cancelled").count() == 1


def test_revoked(example, booking):
    row = example.write_ledger.enqueue(booking.pk)
    example.revoke(str(row.pk))
    assert not Job.objects.exists()
