"""The examples of docs/how-to/from-celery.md do what the page says."""

from datetime import timedelta

import pytest
from django.db import transaction

from demo_project.bookings.flights import FlightServiceError
from demo_project.bookings.models import Booking, Ticket
from jobexec import DoNotRetry, RetryIn, clock
from jobexec.executor.execute_now import execute_now
from jobexec.models import DeadLetterJob, Job, TimerJob

EXAMPLE = "from_celery"


def test_a_job_goes_with_its_transaction(example, booking, run_due, mailoutbox):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        example.confirm(booking)
        assert Job.objects.count() == 1
        raise ZeroDivisionError
    assert not Job.objects.exists()
    example.confirm(booking)
    assert run_due() == ["send_voucher"]
    assert mailoutbox[0].to == ["ada@example.org"]
    assert Booking.objects.get().state == Booking.State.CONFIRMED


def test_countdown_and_eta(example, booking):
    when = clock.now() + timedelta(hours=2)
    example.send_later(booking, when)
    delayed, at, urgent = TimerJob.objects.order_by("id")
    assert timedelta(seconds=590) < delayed.due_date - clock.now() <= timedelta(seconds=600)
    assert at.due_date == when
    assert (urgent.priority, urgent.category, urgent.retries) == (10, "mail", 6)


def test_a_bound_task_chooses_its_retry(example, booking, monkeypatch, run_due):
    answers = iter([FlightServiceError("503"), "AZ 1", ValueError("no such place")])

    def reserve(key, city):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(example.flights, "reserve", reserve)
    example.reserve_flight.enqueue(booking.pk)
    with pytest.raises(RetryIn):
        run_due()
    waiting = TimerJob.objects.get()
    assert (waiting.attempts, waiting.retries) == (1, 4)
    assert timedelta(seconds=20) < waiting.due_date - clock.now() <= timedelta(seconds=30)
    execute_now(waiting.pk)
    assert booking.tickets.get().reference == "AZ 1"
    example.reserve_flight.enqueue(booking.pk)
    with pytest.raises(DoNotRetry):
        run_due()
    assert "nobody flies to Rome" in DeadLetterJob.objects.get().exception_message


@pytest.mark.parametrize(("error", "table"), [(ConnectionError("gone"), TimerJob), (KeyError("x"), DeadLetterJob)])
def test_only_some_errors_are_tried_again(example, booking, monkeypatch, run_due, error, table):
    def fails(key, city):
        raise error

    monkeypatch.setattr(example.flights, "reserve", fails)
    example.call_hotel.enqueue(booking.pk)
    with pytest.raises(type(error)):
        run_due()
    assert table.objects.get().handler_type.endswith("call_hotel")


def test_a_chain(example, booking, run_due, mailoutbox):
    example.write_invoice.enqueue(booking.pk)
    assert run_due() == ["write_invoice", "mail_invoice"]
    assert mailoutbox[0].body == "invoice for Ada Byron"


def test_a_group(example, booking, run_due):
    example.send_all([booking] * 3)
    assert run_due() == ["send_voucher"] * 3


def test_a_chord(example, booking, run_due, mailoutbox):
    example.book_tickets(booking)
    assert run_due() == ["book_ticket"] * 3 + ["send_voucher"]
    assert {ticket.kind for ticket in booking.tickets.all()} == set(Ticket.Kind)
    example.book_tickets(booking)  # at least once: a second run sends nothing
    assert run_due() == ["book_ticket"] * 3


def test_a_soft_time_limit(example, booking, run_due, mailoutbox, monkeypatch):
    second = Booking.objects.create(
        visitor="Charles", email="c@example.org", city="Oslo", arrival=booking.arrival, departure=booking.departure
    )
    seen = iter([False, True, False, False])
    monkeypatch.setattr("jobexec.handlers.context.JobContext.shutting_down", property(lambda self: next(seen)))
    job = example.remind_all.enqueue()
    assert job.timeout == timedelta(minutes=5)
    execute_now(job.pk)
    assert [mail.to for mail in mailoutbox] == [["ada@example.org"]]
    assert Job.objects.get().handler_configuration["args"] == [booking.pk]
    run_due()
    assert [mail.to for mail in mailoutbox][1:] == [[second.email]]


def test_revoked(example, booking):
    row = example.send_voucher.using(delay=60).enqueue(booking.pk)
    example.stop(str(row.pk))
    assert not TimerJob.objects.exists()
