"""The examples of docs/how-to/migrate/from-django-q2.md do what the page says."""

from datetime import timedelta

import pytest

from demo_project.bookings.models import Ticket
from jobexec import clock
from jobexec.models import DeadLetterJob, Job, TimerJob
from jobexec.operations import move_to_dead_letter
from jobexec.signals import job_dead_lettered
from jobexec.testing import ManualExecutor, controlled_clock

EXAMPLE = "from_django_q2"


@pytest.fixture(autouse=True)
def receiver_is_forgotten(example):
    yield
    assert job_dead_lettered.disconnect(example.notify_admins, sender=DeadLetterJob)


def test_options_of_a_call(example, booking):
    when = clock.now() + timedelta(hours=1)
    example.send(booking, when)
    plain, other = Job.objects.order_by("id")
    assert (plain.handler_type, plain.category, plain.retries) == ("shop.tasks.send_voucher", "mail", 5)
    assert (plain.timeout, other.category) == (timedelta(minutes=1), "default")
    timer = TimerJob.objects.get()
    assert (timer.due_date, timer.timeout) == (when, timedelta(seconds=10))


def test_a_hook_is_a_job(example, booking, run_due, mailoutbox):
    example.count_nights.enqueue(booking.pk)
    assert run_due() == ["count_nights", "report_nights"]
    assert mailoutbox[0].body == f"{booking.pk}: 3 nights"


@pytest.mark.django_db(transaction=True)
def test_a_failure_that_is_final_is_told(example, booking, mailoutbox):
    job = example.count_nights.enqueue(booking.pk)
    move_to_dead_letter(job, "nobody counts any more")
    assert f"count_nights {job.pk}: nobody counts any more" in mailoutbox[0].body


def test_a_group(example, booking, run_due):
    example.book_tickets([booking])
    assert run_due() == ["book_ticket"] * 3 + ["send_voucher"]


def test_a_group_whose_progress_is_followed(example, booking, mailoutbox):
    vouchers = example.send_all([booking] * 3)
    assert vouchers.progress().total == 3
    ManualExecutor().run_until_empty()
    assert (vouchers.state, vouchers.progress().completed) == ("completed", 3)
    assert mailoutbox[-1].body == "All vouchers are sent."


def test_the_results_of_those_that_have_succeeded(example, booking, monkeypatch):
    ids = example.ask(["Rome", "Oslo"])
    assert (len(ids), example.answers(ids)) == (2, [])
    ManualExecutor().run_until_empty()
    assert example.answers(ids) == [3, 0]
    monkeypatch.setattr(example.sum_nights, "function", lambda city: 1 / 0)
    ids += example.ask(["Bergen"])
    with controlled_clock():
        ManualExecutor(reraise=False).run_until_empty(advance=True)
    assert example.answers(ids) == [3, 0]
    assert example.sum_nights.get_result(ids[2]).status == "FAILED"


def test_failed_tasks_are_resubmitted(example, booking):
    for row in (example.send_voucher.enqueue(booking.pk), example.reserve.enqueue(booking.pk, "hotel")):
        move_to_dead_letter(row, "no")
    example.resubmit_failed()
    assert (Job.objects.get().handler_type, Job.objects.get().retries) == ("shop.tasks.send_voucher", 3)
    assert DeadLetterJob.objects.get().handler_type.endswith("reserve")


def test_a_chain_is_a_flow(example, booking, mailoutbox):
    example.travel(booking)
    ManualExecutor().run_until_empty()
    assert [ticket.kind for ticket in booking.tickets.order_by("pk")] == ["hotel", "flight"]
    assert mailoutbox[0].subject == "Your trip"


def test_a_chain_stops_where_it_fails(example, booking, run_due):
    example.travel_step.using(retries="R1/PT1M").enqueue(booking.pk, ["hotel", "hotel", "flight"])
    with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
        run_due()
    assert [ticket.kind for ticket in booking.tickets.all()] == ["hotel"]
    Ticket.objects.all().delete()
    example.travel_step.enqueue(booking.pk, ["hotel", "concert", "flight"])
    Job.objects.exclude(handler_configuration__args__1=["hotel", "concert", "flight"]).delete()
    assert run_due() == ["travel_step"] * 3
