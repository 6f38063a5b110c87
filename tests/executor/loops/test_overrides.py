"""Overriding priorities, by a whole executor in real time."""

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from jobexec import clock
from jobexec.models import JobDefinition
from jobexec.operations import clear_overriding_priority, find_job, override_priority
from jobexec.operations.nodes.deployments import write_job_definitions
from tests.support.factories import make_job
from tests.support.waiting import until

pytestmark = pytest.mark.transactional


@pytest.fixture(autouse=True)
def one_clock(monkeypatch):
    """A heartbeat may set the clock back by a moment: a job is made after the override here, and not before it."""
    monkeypatch.setattr(clock, "synchronise", lambda *arguments: None)


@pytest.fixture
def definition(alias):
    write_job_definitions([{"id": "a", "handler_type": "a", "category": "default"}], using=alias)


def later(alias):
    """A job that nobody here runs."""
    return make_job(alias, handler_type="a", suspend_requested=True)


@pytest.mark.gate
def test_jobs_get_it_while_it_is_in_force(alias, make_executor, definition):
    executor = make_executor(HEARTBEAT_INTERVAL=0.2)
    executor.start()
    override_priority("a", 7, using=alias)
    job = later(alias)
    until(lambda: find_job(job.pk, alias).priority == 7)
    again = later(alias)
    until(lambda: find_job(again.pk, alias).priority == 7)
    clear_overriding_priority("a", using=alias)
    until(lambda: executor.engines[alias].suspensions.overrides._seen is None)
    override_priority("a", 5, using=alias)
    third = later(alias)
    until(lambda: find_job(third.pk, alias).priority == 5)
    assert find_job(job.pk, alias).priority == 7


def test_an_override_that_was_set_while_no_executor_ran(alias, make_executor, definition):
    override_priority("a", 7, using=alias)
    job = later(alias)
    make_executor().start()
    until(lambda: find_job(job.pk, alias).priority == 7)
    assert JobDefinition.objects.using(alias).get(pk="a").overriding_priority == 7


def test_without_one_it_costs_one_statement_and_no_second_look(alias, make_executor, definition):
    overrides = make_executor().engines[alias].suspensions.overrides
    with CaptureQueriesContext(connections[alias]) as queries:
        assert overrides.look() is None
    assert len(queries) == 1
