"""The examples that all pages for those who come from elsewhere share: results, unique jobs, schedules."""

import sys
from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest

from demo_project.bookings.models import Booking
from jobexec.clock import FrozenClock
from jobexec.handlers import registry
from jobexec.models import Job, Schedule
from jobexec.operations import clean_up_history
from jobexec.testing import ManualExecutor


@pytest.fixture
def load():
    """A function that imports a module of docs/examples; forgotten afterwards."""
    names = []

    def example(name):
        names.append(f"docs.examples.{name}")
        return import_module(names[-1])

    with registry.isolated():
        yield example
    for name in names:
        del sys.modules[name]


def test_a_result(load, settings, booking):
    settings.TASKS = {"default": {"BACKEND": "jobexec.backends.JobExecutorBackend"}}
    example = load("results")
    id = example.ask(booking)
    assert example.answer(id) is None
    ManualExecutor().run_until_empty()
    assert example.answer(id) == 3


def test_the_result_of_a_job(load, booking):
    example = load("results")
    id = example.order_report(booking.city)
    assert example.report(id) == "The report is not ready yet."
    ManualExecutor().run_until_empty()
    assert example.report(id) == "3 nights"
    with FrozenClock(datetime.now(UTC) + timedelta(days=31)):
        clean_up_history("default")
    assert example.report(id) == "The report was never ordered, or its result has expired."


def test_only_one_of_them(load, booking):
    example = load("unique")
    assert [example.changed(booking) for _ in range(3)] == [True, False, False]
    assert Job.objects.count() == 2
    assert len(ManualExecutor().run_until_empty()) == 2
    assert example.changed(booking)


def test_unique_while_it_waits_or_while_it_is_active(load, booking, monkeypatch):
    example = load("unique")
    seen = []

    def runs(*args):
        seen.append([example.changed(booking), Job.objects.count()])

    executor = ManualExecutor()
    example.changed(booking)
    monkeypatch.setattr(example.refresh_price, "function", runs)
    executor.run_next()
    # The one that runs is a duplicate of itself; of the other, which waits, there is still only one.
    assert seen == [[False, 2]]


def test_schedules(load, booking, mailoutbox):
    load("periodic")
    Booking.objects.update(arrival="2020-01-01", departure="2020-01-02")
    executor = ManualExecutor()
    with FrozenClock(datetime(2026, 1, 1, 1, 52, tzinfo=UTC)) as frozen:
        assert executor.run_schedules() == 0  # the first round writes them
        frozen.tick(7 * 60)
        assert executor.run_schedules() == 0
        assert list(Schedule.objects.values_list("timezone", "misfire")) == [("UTC", "skip"), ("Europe/Berlin", "once")]
        frozen.tick(8 * 60)
        executor.tick()
        assert len(mailoutbox) == 1
        assert mailoutbox[0].body.endswith(" at 02:07")
        assert not Booking.objects.exists()  # it is past three in Berlin
        frozen.tick(24 * 3600)
        assert executor.run_schedules() == 2  # of the quarters only the one that is due now
