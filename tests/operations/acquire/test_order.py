"""One queue for all kinds of jobs, the range of priorities at its edges, and pages and registries of any size.

Camunda: the JobExecutorAcquireJobs…Tests and DeploymentAwareJobExecutorForOracleTest; Flowable: BulkUpdateJobLockTest.
"""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from jobexec.models import Job
from jobexec.operations import complete_jobs, create_jobs, release_jobs, trigger_due_timers
from tests.support.factories import a_run, acquire, locked_ids, make_job

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PRIORITY_CONDITION = re.compile(r"priority[\"`]?\s*(>=|<=)")


def ids(jobs):
    return [job.id for job in jobs]


def test_timers_that_came_due_and_messages_are_one_queue(alias, strategy, frozen):
    late = make_job(alias, due_date=NOW + timedelta(seconds=20)).pk
    early = make_job(alias, due_date=NOW + timedelta(seconds=5)).pk
    frozen.tick(10)
    message = make_job(alias).pk
    frozen.tick(15)
    assert trigger_due_timers(alias, 10) == 2
    newest = make_job(alias).pk
    assert ids(acquire(alias, strategy=strategy)) == [early, message, late, newest]


def test_priority_stands_above_type_and_due_date(alias, strategy, frozen):
    timers = [make_job(alias, due_date=NOW + timedelta(seconds=1), priority=priority).pk for priority in (1, 5)]
    frozen.tick(60)
    messages = [make_job(alias, priority=priority).pk for priority in (7, 5, -2)]
    trigger_due_timers(alias, 10)
    expected = [messages[0], timers[1], messages[1], timers[0], messages[2]]
    assert ids(acquire(alias, strategy=strategy)) == expected


@pytest.mark.parametrize(
    ("ageing", "waited", "old_first"), [(None, 1_000_000, False), (60, 299, False), (60, 301, True)]
)
def test_who_has_waited_long_goes_before_who_is_urgent_and_new(
    alias, strategy, frozen, configure, ageing, waited, old_first
):
    configure({"PRIORITY_AGEING": ageing})
    old = make_job(alias).pk
    frozen.tick(waited)
    urgent = make_job(alias, priority=5).pk
    assert ids(acquire(alias, limit=1, strategy=strategy)) == [old if old_first else urgent]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(6, 8, set()), (-9, -1, {-3}), (5, 5, {5}), (-3, 9, {-3, 0, 5, 9}), (10, None, set()), (None, -4, set())],
)
def test_both_bounds_of_the_range_belong_to_it(alias, strategy, low, high, expected):
    for priority in (-3, 0, 5, 9):
        make_job(alias, priority=priority)
    got = acquire(alias, strategy=strategy, priority_min=low, priority_max=high)
    assert {Job.objects.using(alias).get(pk=job.id).priority for job in got} == expected


@pytest.mark.parametrize(
    ("bounds", "mentioned"), [({}, False), ({"priority_min": 0}, True), ({"priority_max": 0}, True)]
)
def test_without_a_range_no_statement_asks_for_priorities(alias, strategy, bounds, mentioned):
    make_job(alias)
    with CaptureQueriesContext(connections[alias]) as queries:
        assert len(acquire(alias, strategy=strategy, **bounds)) == 1
    assert any(PRIORITY_CONDITION.search(query["sql"]) for query in queries) == mentioned


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 1001])
def test_any_number_of_deployments_may_be_registered(alias, count):
    registered = tuple(f"shop:{number}" for number in range(1, count + 1))
    anybodys, foreign = make_job(alias).pk, make_job(alias, deployment_id="other:1").pk
    own = [make_job(alias, deployment_id=registered[number]).pk for number in {0, count - 1} if count]
    assert set(ids(acquire(alias, deployments=registered))) == {anybodys, *own}
    assert foreign not in locked_ids(alias)


@pytest.mark.fast_form
@pytest.mark.parametrize("order", ["rank", "strict", "weighted"])
def test_an_empty_page_takes_as_many_statements_for_a_year_of_deployments_as_for_one(alias, strategy, order, configure):
    configure(CATEGORIES=["default", "mail"])
    foreign = make_job(alias, deployment_id="other:1")
    held = make_job(alias, deployment_id="shop:7")
    acquire(alias, "another", deployments=("shop:7",))
    taken = []
    for count in (1, 365):
        registered = tuple(f"shop:{number}" for number in range(1, count + 1))
        scope = {"categories": ("default", "mail"), "deployments": registered, "category_order": order}
        with CaptureQueriesContext(connections[alias]) as captured:
            assert acquire(alias, strategy=strategy, **scope) == []
        taken.append(len(captured))
    assert taken[1] <= taken[0] <= 12
    assert locked_ids(alias) == {held.pk}
    assert foreign.pk not in locked_ids(alias)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["complete", "release"])
def test_a_page_may_be_larger_than_a_list_in_a_statement(alias, strategy, end):
    create_jobs(alias, [{"handler_type": "h", "process_instance_id": "p" * (number % 2)} for number in range(2100)])
    jobs = acquire(alias, limit=2050, strategy=strategy)
    assert len(jobs) == len(locked_ids(alias)) == 2050
    if end == "complete":
        assert len(complete_jobs(alias, [(job, a_run(alias)) for job in jobs])) == 2050
        assert Job.objects.using(alias).count() == 50
    else:
        assert release_jobs(alias, jobs) == 2050
    assert locked_ids(alias) == set()
