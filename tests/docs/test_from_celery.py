"""The examples of docs/how-to/migrate/from-celery.md do what the page says."""

from datetime import timedelta

import pytest
from django.db import transaction

from demo_project.bookings.flights import FlightServiceError
from demo_project.bookings.models import Booking, Ticket
from jobexec import DoNotRetry, RetryIn, clock
from jobexec.executor.execute_now import execute_now
from jobexec.models import BlockedJob, DeadLetterJob, Job, JobLog, TimerJob
from jobexec.processes.models import ProcessInstance
from jobexec.testing import ManualExecutor, controlled_clock

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


def test_a_rate(example, booking, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "RESOURCES": {"weather.example": {"rate": "10/PT1M"}}}
    for _ in range(3):
        example.ask_for_the_weather.enqueue(booking.pk)
    assert len(ManualExecutor().run_due()) == 1  # the second may start six seconds later
    assert BlockedJob.objects.count() == 2


def test_a_job_that_expires(example, booking, mailoutbox):
    example.remind_soon(booking)
    with controlled_clock() as time:
        time.advance(601)
        ManualExecutor().run_due()
    assert JobLog.objects.get(state="cancelled").handler_type.endswith("send_voucher")
    assert not mailoutbox


def test_what_was_a_base_class(example, booking, run_due, mailoutbox):
    example.greet.enqueue(booking.pk)
    run_due()
    assert mailoutbox[0].subject == "de"


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


def results(instance=None):
    """The variables of the flow that has ended, without those of its calls."""
    row = ProcessInstance.objects.get(pk=instance.pk) if instance else ProcessInstance.objects.get()
    assert row.state == "completed"
    return {name: value for name, value in row.final_variables.items() if name != "calls"}


def run_flow():
    ManualExecutor(reraise=False).run_until_empty()


def test_a_chain_of_the_canvas(example, booking):
    instance = example.in_a_chain(booking)
    run_flow()
    assert results(instance) == {"price_of": 15, "charge": f"15 of booking {booking.pk}"}


def test_a_group_of_the_canvas(example, booking):
    instance = example.in_a_group(booking)
    assert Job.objects.count() == 3
    run_flow()
    assert sorted(results(instance).values()) == [15, 18, 21]


def test_a_chord_of_the_canvas(example, booking):
    instance = example.in_a_chord(booking)
    run_flow()
    assert results(instance)["charge"] == f"54 of booking {booking.pk}"


def test_a_map_of_the_canvas(example, booking):
    example.in_a_map(booking)
    run_flow()
    assert (results()["price_of"], results()["total"]) == ([15, 18, 21], 54)


@pytest.mark.parametrize(("amount", "subject"), [(100, "Your trip"), (101, "We are sorry")])
def test_link_and_link_error(example, booking, mailoutbox, amount, subject):
    example.with_link_error(booking, amount)
    run_flow()
    assert [mail.subject for mail in mailoutbox] == [subject]
    assert not DeadLetterJob.objects.exists()


def test_chunks(example, booking, mailoutbox):
    example.in_chunks([booking.pk] * 5, size=2)
    assert Job.objects.count() == 3
    run_flow()
    assert len(mailoutbox) == 5
    assert "send_vouchers" not in results(), "no step uses it"


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
