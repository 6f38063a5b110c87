"""Delays and due dates count by the database's time, however wrong the clock of whoever enqueues is."""

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from jobexec import clock, external_job, job
from jobexec.handlers import registry
from jobexec.models import ExternalWorkerJob, Job, TimerJob
from jobexec.operations import set_due_date
from jobexec.operations.sql import server_time

pytestmark = pytest.mark.databases("postgresql", "mariadb")


@pytest.fixture(autouse=True)
def frozen():
    """Here the time goes on."""


@pytest.fixture(autouse=True, params=[-3600, 3600], ids=["behind", "ahead"])
def wrong(request, monkeypatch):
    """A process whose clock is wrong by an hour, and which is not under test."""
    error = timedelta(seconds=request.param)

    class Wrong(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + error

    clock.forget()
    monkeypatch.setattr(clock, "datetime", Wrong)
    monkeypatch.setattr(server_time, "under_test", lambda: False)
    yield
    clock.forget()


@pytest.fixture
def handler(alias):
    with registry.isolated():
        yield job(name="late", database=alias)(lambda number=0: None)


def seconds_from_now(moment):
    return (moment - datetime.now(UTC)).total_seconds()


def about(seconds):
    return pytest.approx(seconds, abs=60)


@pytest.mark.parametrize("how", ["one", "many", "unique"])
def test_a_delay(alias, handler, how):
    late = handler.using(delay=600, unique=how == "unique")
    (late.enqueue if how != "many" else lambda: late.enqueue_many([(1,)]))()
    row = TimerJob.objects.using(alias).get()
    assert seconds_from_now(row.due_date) == about(600)
    assert seconds_from_now(row.create_time) == about(0)


def test_a_date(alias, handler):
    soon, past = (datetime.now(UTC) + timedelta(minutes=minutes) for minutes in (30, -30))
    assert isinstance(handler.using(run_after=soon).enqueue(), TimerJob)
    assert isinstance(handler.using(run_after=past).enqueue(), Job)


def test_the_order_of_jobs(alias, handler):
    row = handler.enqueue()
    assert row.rank / 1000 == pytest.approx(datetime.now(UTC).timestamp(), abs=60)


def test_jobs_of_workers_outside(alias):
    external_job("pay", database=alias, delay=600)
    row = ExternalWorkerJob.objects.using(alias).get()
    assert seconds_from_now(row.due_date) == about(600)


def test_an_operator(alias, handler):
    row = handler.using(delay=9999).enqueue()
    clock.forget()
    set_due_date(row, datetime.now(UTC) + timedelta(minutes=30), using=alias)
    assert TimerJob.objects.using(alias).exists()
    clock.forget()
    set_due_date(row, datetime.now(UTC) - timedelta(minutes=30), using=alias)
    assert Job.objects.using(alias).exists()


def test_one_question_a_minute(alias, handler, monkeypatch, django_assert_num_queries):
    handler.enqueue()
    with django_assert_num_queries(1, using=alias):
        handler.enqueue()
    for passed, by_the_wall in ((61, 61), (61, 66)):  # a minute later; and after five seconds of sleep
        then = SimpleNamespace(monotonic=lambda passed=passed: time.monotonic() + passed)
        monkeypatch.setattr(clock, "time", then)
        monkeypatch.setattr(clock, "_wall", lambda passed=by_the_wall: time.time() + passed)
        for queries in (2, 1):
            with django_assert_num_queries(queries, using=alias):
                handler.enqueue()


def test_not_in_the_tests_of_a_project(alias, handler, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(server_time, "synchronise_clock", lambda using: pytest.fail("a test moves the time"))
    assert server_time.under_test()
    handler.enqueue()
