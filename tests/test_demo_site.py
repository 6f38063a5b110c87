"""The demo's site: a booking and its jobs come and go together."""

from __future__ import annotations

import csv
import threading
from collections import Counter
from datetime import date, timedelta
from urllib.request import Request, urlopen

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from demo_project import flaky_service
from demo_project import settings as demo_settings
from demo_project.bookings import jobs
from demo_project.bookings.accounts import accounts
from demo_project.bookings.management.commands.load_bookings import DATA
from demo_project.bookings.models import Booking, Ticket
from demo_project.bookings.services import book
from demo_project.bookings.status import snapshot
from demo_project.runner.screen import progress_line, short_line
from jobexec.conf import get_settings
from jobexec.exceptions import DoNotRetry
from jobexec.executor.execute_now import execute_now
from jobexec.executor.loops.promotion import Breakers, told
from jobexec.models import BlockedJob, DeadLetterJob, Incident, Job, Resource, TimerJob
from jobexec.testing import ManualExecutor, controlled_clock

pytestmark = [pytest.mark.urls("demo_project.urls"), pytest.mark.django_db(transaction=True)]

TRIP = {
    "visitor": "Ada Byron",
    "email": "ada@example.org",
    "city": "Rome",
    "arrival": "2027-05-07",
    "departure": "2027-05-10",
}
TICKETS = {f"demo_project.bookings.jobs.book_{kind}" for kind in ("hotel", "flight", "concert_tickets")}


@pytest.fixture(autouse=True)
def as_in_the_demo(settings, tmp_path):
    settings.JOBEXEC = demo_settings.JOBEXEC
    settings.MEDIA_ROOT = tmp_path
    settings.FLIGHT_SERVICE_TIMEOUT = 5


@pytest.fixture
def flight_service(settings, monkeypatch):
    """The demo's service on a good day."""
    monkeypatch.setattr(flaky_service, "SHARES", {flaky_service.Fate.FINE: 1})
    with flaky_service.Service(0, flaky_service.Flights(seed=1)) as service:
        thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        settings.FLIGHT_SERVICE = f"http://127.0.0.1:{service.server_port}"
        yield service.flights
        service.shutdown()
        thread.join()


def _booking(**changes):
    dates = {"arrival": date(2027, 5, 7), "departure": date(2027, 5, 10)}
    return Booking(**TRIP | dates | changes)


def _waiting(**conditions):
    """The jobs that may run, or wait for the flight service."""
    return [job for table in (Job, BlockedJob) for job in table.objects.filter(**conditions)]


def _run_tickets(booking):
    for job in _waiting(process_instance_id=booking.process_instance_id, handler_type__in=TICKETS):
        execute_now(job.pk)


def test_the_form_saves_a_booking_with_its_three_jobs(client):
    answer = client.post("/book/", TRIP)
    booking = Booking.objects.get()
    assert answer.status_code == 302
    assert answer["Location"] == f"/bookings/{booking.pk}/"
    rows = _waiting()
    told = {(job.handler_type, job.process_instance_id, job.process_definition_key, job.exclusive) for job in rows}
    assert told == {(name, f"booking-{booking.pk}", "booking", True) for name in TICKETS}
    assert all(job.handler_configuration == {"args": [booking.pk], "kwargs": {}} for job in rows)
    assert [job.handler_type for job in rows if isinstance(job, BlockedJob)] == [jobs.book_flight.name]


def test_jobs_that_wait_for_the_flight_service_are_told(client):
    client.post("/book/", TRIP)
    now = snapshot()
    assert (now["due"], now["permits"]) == (2, 1)
    assert "<b>1</b> wait for the flight service" in client.get("/").content.decode()
    assert "2 due, 0 in hand, 1 wait for the flight service" in progress_line(now)
    many = dict.fromkeys(now, 300) | {"running": 10, "dead_letters": 20}
    assert len(f"9999 s  {short_line(many)}") < 80


def test_a_rolled_back_booking_leaves_nothing():
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        book(_booking())
        assert len(_waiting()) == 3
        raise ZeroDivisionError
    assert not Booking.objects.exists()
    assert not _waiting()


def test_a_job_that_cannot_be_made_takes_the_booking_with_it(client, monkeypatch):
    def fails(*args, **kwargs):
        raise RuntimeError("no more jobs")

    monkeypatch.setattr(jobs.book_concert_tickets, "using", lambda **options: type("Job", (), {"enqueue": fails}))
    with pytest.raises(RuntimeError, match="no more jobs"):
        client.post("/book/", TRIP)
    assert not Booking.objects.exists()
    assert not _waiting()


def test_a_trip_that_ends_before_it_begins_is_refused(client):
    answer = client.post("/book/", TRIP | {"departure": "2027-05-01"})
    assert "The departure must be after the arrival." in answer.content.decode()
    assert not Booking.objects.exists()
    assert not _waiting()


@pytest.mark.gate
def test_the_last_ticket_confirms_the_booking(client, flight_service, tmp_path, settings):
    booking = book(_booking())
    _run_tickets(booking)
    assert {ticket.kind for ticket in booking.tickets.all()} == set(Ticket.Kind)
    execute_now(Job.objects.get().pk)
    booking.refresh_from_db()
    assert booking.state == Booking.State.CONFIRMED
    assert BlockedJob.objects.get().handler_type == jobs.remind_of_payment.name
    voucher = b"".join(client.get(f"/bookings/{booking.pk}/voucher/").streaming_content).decode()
    assert all(ticket.reference in voucher for ticket in booking.tickets.all())
    assert accounts()["problems"] == []
    with controlled_clock() as clock:
        clock.advance(settings.PAYMENT_REMINDER_DELAY + timedelta(seconds=1))
        ManualExecutor().run_until_empty()
    assert "Ada Byron" in (tmp_path / "reminders" / f"booking-{booking.pk}.txt").read_text()
    assert not (tmp_path / "receipts").exists()


@pytest.mark.parametrize("waits", [True, False], ids=["the job waits", "the job comes later"])
def test_a_payment_reaches_the_job_that_waits_for_it(client, tmp_path, waits):
    booking = _booking()
    booking.save()
    jobs.letters.write_voucher(booking)
    if waits:
        jobs.confirm_booking.enqueue(booking.pk)
        ManualExecutor().run_until_empty()
        assert "Pay</button>" in client.get(f"/bookings/{booking.pk}/?live").content.decode()
    assert client.post(f"/bookings/{booking.pk}/pay/").status_code == 302
    if not waits:
        jobs.confirm_booking.enqueue(booking.pk)
    ManualExecutor().run_until_empty()
    assert not BlockedJob.objects.exists()
    assert "by card" in (tmp_path / "receipts" / f"booking-{booking.pk}.txt").read_text()
    assert not (tmp_path / "reminders").exists()
    assert "Pay</button>" not in client.get(f"/bookings/{booking.pk}/?live").content.decode()


def test_a_job_that_runs_twice_books_and_confirms_once(flight_service):
    booking = book(_booking())
    _run_tickets(booking)
    jobs.book_hotel.enqueue(booking.pk)
    jobs.book_flight.enqueue(booking.pk)
    _run_tickets(booking)
    for job in _waiting(handler_type__in=TICKETS):
        execute_now(job.pk)
    assert booking.tickets.count() == 3
    assert flight_service.report()["reservations"] == 1
    assert Job.objects.filter(handler_type__endswith="confirm_booking").count() == 1


class Watching(ManualExecutor):
    """Counts the calls of resources, as the loop of an executor does, so that breakers open and close."""

    def __init__(self):
        super().__init__(reraise=False)
        self.breakers = Breakers(get_settings().resources)

    def settle(self, ran, siblings=None):
        result = super().settle(ran, siblings)
        self.breakers.judge(self.using, told([ran.outcome], self.breakers))
        return result


@pytest.mark.gate
def test_an_outage_of_the_flight_service_opens_its_breaker_and_costs_no_retries_meanwhile(settings, flight_service):
    def costs(table):
        """How many flights have how many retries left, after how many attempts."""
        rows = table.objects.filter(handler_type=jobs.book_flight.name)
        return Counter(rows.values_list("retries", "attempts"))

    def breaker():
        return Resource.objects.get(name="flights").breaker_state

    def calls():
        return flight_service.report()["calls"]

    for _ in range(12):
        book(_booking())
    with urlopen(Request(f"{settings.FLIGHT_SERVICE}/outage", data=b'{"seconds": 86400}')) as answer:
        assert answer.status == 200
    with controlled_clock() as clock:
        executor = Watching()
        executor.run_until_empty()
        assert (breaker(), calls()) == ("open", 10), "the least number of calls that tell"
        said = "10 of the last 10 calls failed, the last with FlightServiceError: The flight service answered 503"
        assert Resource.objects.get().reason.startswith(said)
        assert (costs(TimerJob), costs(BlockedJob)) == ({(2, 1): 10}, {(3, 0): 2})
        assert Ticket.objects.count() == 24, "the other tickets do not wait for the flights"
        clock.advance(4)  # all retries are due
        executor.run_until_empty()
        assert (breaker(), calls()) == ("open", 10)
        assert costs(BlockedJob) == {(2, 1): 10, (3, 0): 2}
        clock.advance(1)
        executor.run_until_empty()
        assert (breaker(), calls()) == ("open", 13), "three trial calls have failed"
        waiting = costs(BlockedJob) + costs(TimerJob)
        assert (sum(waiting.values()), sum(left * count for (left, _), count in waiting.items())) == (12, 12 * 3 - 13)
        flight_service.fail_for(0)
        clock.advance(4)
        executor.run_until_empty()
        assert (breaker(), calls()) == ("open", 13), "nobody calls before its time"
        assert costs(BlockedJob) == waiting
        clock.advance(1)
        executor.run_until_empty()
    assert (breaker(), calls()) == ("closed", 25)
    assert Incident.objects.get().state == "resolved"
    assert not DeadLetterJob.objects.exists()
    assert Booking.objects.filter(state=Booking.State.CONFIRMED).count() == 12


@pytest.mark.gate
def test_a_city_without_flights_is_a_dead_letter_at_once(client, flight_service):
    booking = book(_booking(city="Atlantis"))
    with pytest.raises(DoNotRetry, match="no flights to Atlantis"):
        execute_now(BlockedJob.objects.get(handler_type__endswith="book_flight").pk)
    assert DeadLetterJob.objects.get().process_instance_id == booking.process_instance_id
    for page in ("/", "/?live", "/?show=attention", f"/bookings/{booking.pk}/", f"/bookings/{booking.pk}/?live"):
        assert "needs attention" in client.get(page).content.decode()
    assert "Ada Byron" not in client.get("/?show=requested").content.decode()


def test_the_reckoning_names_what_is_not_accounted_for():
    booking = book(_booking())
    assert accounts()["problems"] == [f"booking-{booking.pk} is not confirmed, and no dead letter says why"]


def test_the_csv_file_is_loaded_as_visitors_book():
    call_command("load_bookings", "--limit", "7", verbosity=0)
    assert (Booking.objects.count(), len(_waiting())) == (7, 21)
    with DATA.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len({row["email"] for row in rows}) == 300
    assert {row["city"] for row in rows} <= flaky_service.CITIES


def test_a_bad_row_stops_the_load_before_it_begins(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("visitor,email,city,arrival,departure\nA,a@example.org,Rome,2027-01-02,2027-01-03\nB,b,Rome,x,y\n")
    with pytest.raises(CommandError, match=r"bad\.csv, line 3"):
        call_command("load_bookings", path)
    assert not Booking.objects.exists()


@pytest.mark.gate
def test_a_newsletter_is_one_batch_whose_progress_is_shown(client, settings, tmp_path):
    settings.MAIL_SERVER_TAKES = 0
    for number in range(3):
        _booking(visitor=f"Visitor {number}").save()
    assert "No newsletter yet." in client.get("/newsletter/").content.decode()
    assert client.post("/newsletter/")["Location"] == "/newsletter/"
    page = client.get("/newsletter/?live").content.decode()
    assert "0 of 3" in page and '<progress max="100" value="0">' in page and "running" in page
    ManualExecutor().run_until_empty()
    page = client.get("/newsletter/?live").content.decode()
    assert "3 of 3" in page and 'value="100"' in page and "completed" in page
    assert len(list((tmp_path / "newsletters").iterdir())) == 3
