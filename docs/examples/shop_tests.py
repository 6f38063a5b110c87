"""The examples in docs/how-to/jobs/test-jobs.md for pytest."""

from datetime import timedelta
from smtplib import SMTPException

import pytest
import time_machine
from django.contrib.auth.models import Group as Order

from docs.examples.shop import book, place_order, remind, send_receipt
from jobexec.testing import ManualExecutor, captured_jobs, conflict, database_away, fail, kill_node, lose_lock


def test_an_order_is_followed_by_a_receipt(jobexec_executor, mailoutbox):
    place_order("7", "jane@example.org")
    jobexec_executor.assert_enqueued(send_receipt, args=["7"], count=1)
    jobexec_executor.assert_enqueued(remind, kwargs={"order": "7"}, delay=timedelta(days=1))
    jobexec_executor.refute_enqueued(send_receipt, args=["8"])

    jobexec_executor.run_until_empty()
    assert [mail.to for mail in mailoutbox] == [["jane@example.org"]]


def test_what_an_order_enqueues(jobexec_executor):
    with captured_jobs() as captured:
        place_order("7", "jane@example.org")
        jobexec_executor.run_until_empty()  # jobs that have run are captured, too
    assert [job.handler for job in captured] == ["shop.send_receipt", "shop.remind"]
    captured.assert_enqueued(remind, delay=timedelta(days=1))


def test_immediately(jobexec_immediate, mailoutbox):
    place_order("7", "jane@example.org")
    assert len(mailoutbox) == 1  # the reminder waits for its time


def test_retries(jobexec_executor, jobexec_clock):
    place_order("7", "jane@example.org")
    with fail(send_receipt, SMTPException("no such host")):
        (result,) = jobexec_executor.run_due()
    assert (result.outcome, result.attempt) == ("failed", 1)

    assert jobexec_executor.run_due() == []
    jobexec_clock.advance(timedelta(minutes=5))
    (result,) = jobexec_executor.run_due()
    assert (result.outcome, result.attempt) == ("successful", 2)


@pytest.mark.jobexec(reraise=False)
def test_a_dead_letter(jobexec_executor, jobexec_clock):
    send_receipt.enqueue("7", to="nobody")
    with fail(send_receipt, SMTPException("no such user"), times=3):
        results = jobexec_executor.run_until_empty(advance=True)
    assert [result.dead for result in results] == [False, False, True]


def test_the_reminder_with_time_machine(jobexec_executor, mailoutbox):
    with time_machine.travel("2027-03-01T12:00Z", tick=False) as traveller:
        place_order("7", "jane@example.org")
        jobexec_executor.run_until_empty()
        traveller.shift(timedelta(days=1))
        jobexec_executor.run_until_empty()
    assert [mail.subject for mail in mailoutbox] == ["Your receipt", "Your basket"]


def test_a_job_that_runs_twice_books_once(jobexec_executor):
    book.enqueue("7")
    with lose_lock(book) as other:
        (result,) = jobexec_executor.run_due()
    assert result.outcome == "lost"
    assert not Order.objects.exists()  # rolled back, because the job is atomic

    other.give_back()
    jobexec_executor.run_until_empty()
    assert Order.objects.count() == 1


def test_a_process_that_dies(jobexec_executor, mailoutbox):
    send_receipt.enqueue("7", to="jane@example.org")
    with kill_node(send_receipt):  # after its handler, before the outcome is written
        jobexec_executor.run_until_empty()
    jobexec_executor.recover()
    jobexec_executor.run_until_empty()
    assert len(mailoutbox) == 2  # at least once: make the job atomic, or check first, to avoid this


def test_other_failures(jobexec_executor):
    send_receipt.enqueue("7", to="jane@example.org")
    with conflict(send_receipt):
        (result,) = jobexec_executor.run_due()
    assert result.became.objects.get().retries == 3  # a conflict in the database uses up no retry

    send_receipt.enqueue("8", to="jane@example.org")
    (work,) = jobexec_executor.acquire()
    ran = jobexec_executor.run(work)
    with database_away():
        assert jobexec_executor.settle(ran).outcome == "unsettled"
    assert jobexec_executor.run_due() == []  # it has already run: its outcome is written now
    jobexec_executor.refute_enqueued(send_receipt, args=["8"])


@pytest.mark.django_db
def test_step_by_step():
    executor = ManualExecutor()
    send_receipt.enqueue("7", to="jane@example.org")
    (work,) = executor.acquire()
    ran = executor.run(work)
    assert ran.value == "jane@example.org"
    assert executor.settle(ran).successful
