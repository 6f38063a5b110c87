"""When a run until empty is over, and what an executor says when it starts."""

import threading
from datetime import timedelta

import pytest
from django.db import InterfaceError, OperationalError
from django.utils import timezone

import jobexec
from jobexec import clock, job
from jobexec.executor.process import until_empty
from jobexec.executor.process.banner import banner
from jobexec.executor.process.until_empty import UntilEmpty
from jobexec.handlers.registry import isolated
from jobexec.models import TimerJob
from tests.support.factories import make_job
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.transactional


@pytest.fixture
def executor(make_executor):
    return make_executor(
        {"WAIT_TIME": 0.01, "MAX_WAIT": 0.05, "MAX_WAIT_WHEN_LISTENING": 0.05}, CATEGORIES=["default", "mail"]
    )


def test_nothing_is_left_when_there_is_nothing(alias, executor):
    over = UntilEmpty(executor)
    assert not over.reached
    assert over()
    assert over.reached
    assert over.report() == "Nothing is left to do."


def test_waits_for_jobs_whoever_holds_them(alias, executor):
    make_job(alias)
    assert not UntilEmpty(executor)()


def test_waits_for_retries_and_only_reports_timers(alias, executor, handle):
    now = clock.now(alias)
    make_job(alias, due_date=now + timedelta(hours=1))
    make_job(alias, due_date=now + timedelta(hours=2))
    over = UntilEmpty(executor)
    assert over()
    due = f"{now + timedelta(hours=1):%Y-%m-%d %H:%M:%S UTC}"
    assert over.report() == f"{alias}: timers that wait: 2, the next until {due}."
    with timezone.override("Asia/Tokyo"):
        assert over.report().endswith(f"{now + timedelta(hours=10):%Y-%m-%d %H:%M:%S} JST.")
    TimerJob.objects.using(alias).filter(due_date__gt=now + timedelta(hours=1, minutes=1)).update(attempts=1)
    assert not over()


def test_a_timer_that_has_come_due_is_as_due_as_a_job(alias, executor):
    make_job(alias, due_date=clock.now(alias) + timedelta(hours=1))
    TimerJob.objects.using(alias).update(due_date=clock.now(alias) - timedelta(seconds=1))
    assert not UntilEmpty(executor)()


def test_what_others_serve_does_not_count(alias, executor):
    executor.engines[alias].node.scope = type(executor.engines[alias].node.scope)(categories=("mail",))
    make_job(alias)
    assert UntilEmpty(executor)()


def test_a_job_that_runs_or_is_just_being_settled_counts(alias, executor, handle):
    gate, entered = threading.Event(), threading.Event()

    def wait():
        entered.set()
        assert gate.wait(TIMEOUT)

    handle(wait, name="tests.wait")
    make_job(alias, handler_type="tests.wait")
    executor.start()
    assert entered.wait(TIMEOUT)
    over = UntilEmpty(executor)
    assert not over()
    gate.set()
    until(over)


@pytest.mark.parametrize("error", [OperationalError("away"), InterfaceError("closed")])
def test_a_database_that_is_away_is_waited_for(alias, executor, monkeypatch, error):
    over = UntilEmpty(executor)

    def fail(*args):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(until_empty, "pending", fail)
        assert not over()
    assert over()


def test_the_banner_has_five_lines(alias, make_executor):
    executor = make_executor({"ACQUISITION": "optimistic"}, CATEGORIES=["default", "mail"], THREADS=3, QUEUE_SIZE=7)
    lines = list(banner(executor))
    assert len(lines) == 5
    assert lines[0].startswith(f"jobexec {jobexec.__version__}, node here, process ")
    assert f"{alias} (" in lines[1]
    assert "optimistic" in lines[1]
    assert lines[2] == "  categories: default, mail; deployments: all"
    listening = int("LISTEN" in lines[1])
    connections = f"connections: up to {18 + listening} on {alias}"
    assert lines[3] == f"  pool:       3 threads, queue of 7; history: activity; {connections}"
    assert "registered. Press Ctrl-C" in lines[4]


def test_the_banner_counts_the_handlers_of_the_project(alias, make_executor):
    executor = make_executor()
    with isolated(empty=True):
        for name in ("shop.pay", "shop.ship", "jobexec.batch_seed"):
            job(name=name)(lambda: None)
        job(name="shop.pack", aliases=["shop.wrap"])(lambda: None)
        assert list(banner(executor))[4].startswith("  handlers:   3 registered. ")


def test_the_banner_tells_the_deployments_that_are_served(alias, make_executor):
    executor = make_executor({"DEPLOYMENT_AWARE": True})
    assert list(banner(executor))[2].endswith("deployments: only jobs without one")
    executor.engines[alias].node.scope = type(executor.engines[alias].node.scope)(deployments=("shop:2", "shop:1"))
    assert list(banner(executor))[2].endswith("deployments: shop:1, shop:2")
