"""The examples of docs/how-to/migrate/from-procrastinate.md do what the page says."""

from datetime import timedelta

import pytest
from django.db import transaction

from jobexec import JobCancelled, clock
from jobexec.executor.execute_now import execute_now
from jobexec.models import DeadLetterJob, Job, TimerJob
from jobexec.operations import move_to_dead_letter

EXAMPLE = "from_procrastinate"


def test_a_job_goes_with_its_transaction(example, booking, run_due, mailoutbox):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        example.confirm(booking)
        raise ZeroDivisionError
    assert not Job.objects.exists()
    example.confirm(booking)
    assert run_due() == ["send_voucher"]
    assert len(mailoutbox) == 1


def test_configure(example, booking):
    example.configured(booking)
    job = TimerJob.objects.get()
    assert (job.process_instance_id, job.exclusive) == (f"booking-{booking.pk}", True)
    assert (job.priority, job.category, job.retries) == (5, "default", 6)
    assert timedelta(seconds=290) < job.due_date - clock.now() <= timedelta(seconds=300)


def test_batch_defer(example, booking, run_due, mailoutbox):
    example.send_all([booking, booking])
    assert run_due() == ["send_voucher"] * 2


def test_a_retry_strategy(example, booking):
    job = example.ask_hotel.enqueue(booking.pk)
    with pytest.raises(ConnectionError):
        execute_now(job.pk)
    waits = TimerJob.objects.get().due_date - clock.now()
    assert timedelta(0) < waits <= timedelta(seconds=3)
    assert example.waits(1, KeyError()) is None
    assert [example.waits(failures, TimeoutError()) for failures in (1, 2, 3)] == [3, 6, 9]


def test_abort(example, booking, monkeypatch):
    row = example.book_everything.enqueue(booking.pk)
    seen = iter([False, True])

    def look(context):
        context.saw_cancellation = next(seen)
        return context.saw_cancellation

    monkeypatch.setattr("jobexec.handlers.context.JobContext.cancelled", property(look))
    with pytest.raises(JobCancelled):
        execute_now(row.pk)
    assert booking.tickets.count() == 1
    assert not Job.objects.exists()
    assert not DeadLetterJob.objects.exists()


def test_those_that_failed_are_tried_again(example, booking):
    for function in (example.ask_hotel, example.book_everything):
        move_to_dead_letter(function.enqueue(booking.pk), "closed")
    example.retry_failed()
    assert Job.objects.get().handler_type.endswith("ask_hotel")
    assert DeadLetterJob.objects.get().handler_type.endswith("book_everything")


def test_those_that_wait_are_cancelled(example, booking):
    for delay in (0, 60):
        example.send_voucher.using(delay=delay).enqueue(booking.pk)
        example.book_everything.using(delay=delay).enqueue(booking.pk)
    example.cancel_waiting()
    left = [table.objects.get().handler_type.rpartition(".")[2] for table in (Job, TimerJob)]
    assert left == ["book_everything", "book_everything"]


def test_a_job_that_waits_is_removed(example, booking):
    row = example.book_everything.enqueue(booking.pk)
    example.abort(str(row.pk))
    assert not Job.objects.exists()
