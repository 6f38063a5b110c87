"""What went through an engine: by steps that fit the period, from the meters alone."""

from datetime import UTC, datetime, timedelta

import pytest

from jobexec import clock
from jobexec.operations.overview import overview
from jobexec.operations.reports import meters, subjects
from jobexec.operations.reports.throughput import traffic, traffic_by_handler

HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)


def count(alias, name, value, ago, key="tests.do_nothing"):
    meters.flush_meters(alias, "one", {(name, key): value}, clock.now(alias) - ago)


def look(alias, period=HOUR):
    return traffic(alias, clock.now(alias), period)


def test_jobs_are_counted_in_their_minute(alias):
    count(alias, meters.JOB_SUCCESSFUL, 5, MINUTE / 2)
    count(alias, meters.JOB_SUCCESSFUL, 7, MINUTE * 10)
    count(alias, meters.JOB_FAILED, 2, MINUTE * 10, key="tests.other")
    count(alias, meters.JOB_SUCCESSFUL, 100, HOUR + MINUTE)
    found = look(alias)
    assert (found.step, found.since) == (MINUTE, clock.now(alias) - HOUR)
    assert len(found.succeeded) == len(found.failed) == 60
    assert {at: value for at, value in enumerate(found.succeeded) if value} == {59: 5, 50: 7}
    assert {at: value for at, value in enumerate(found.failed) if value} == {50: 2}
    assert (found.all_succeeded, found.all_failed) == (12, 2)


@pytest.mark.parametrize(
    ("period", "step", "times"),
    [(HOUR, MINUTE, MINUTE * 5), (DAY, MINUTE * 15, HOUR), (DAY * 30, HOUR * 6, HOUR * 12)],
)
def test_steps_are_whole_and_fit_the_period(alias, frozen, period, step, times):
    frozen.tick(timedelta(minutes=7, seconds=13))
    found = look(alias, period)
    assert (found.step, found.wait.step, found.run.step) == (step, times, times)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert (found.since - epoch) % step == (found.wait.since - epoch) % times == timedelta(0)
    assert found.since <= clock.now(alias) - period < found.since + step
    assert len(found.succeeded) == period // step + 1
    assert len(found.wait.steps[0.5]) == period // times + 1


def test_what_was_rolled_up_stays_in_its_step(alias):
    for ago in (HOUR * 5, HOUR * 5 + MINUTE):
        count(alias, meters.JOB_SUCCESSFUL, 1, ago)
        count(alias, meters.JOB_WAIT_TIME, 1, ago, key="1024")
    before = look(alias, DAY)
    assert meters.roll_up(alias) > 0 or sum(before.succeeded) == 2
    assert look(alias, DAY) == before


def test_shares_over_time_and_of_the_whole_period(alias):
    for key, value, ago in (("16", 99, 2), ("4096", 1, 2), ("1024", 100, 32)):
        count(alias, meters.JOB_WAIT_TIME, value, MINUTE * ago, key=key)
    count(alias, meters.JOB_RUN_TIME, 1, MINUTE, key="8")
    found = look(alias)
    assert len(found.wait.steps[0.95]) == 12
    there = {at: value for at, value in enumerate(found.wait.steps[0.5]) if value is not None}
    assert set(there) == {11, 5}
    assert there[11] < 0.016 < 0.5 < there[5] < 1.024
    assert found.wait.steps[0.99][11] <= 0.016
    assert 0.5 < found.wait.overall[0.95] < 1.024
    assert 0.004 <= found.run.overall[0.5] <= 0.008


def test_nothing_was_counted(alias):
    found = look(alias)
    assert (found.all_succeeded, found.all_failed) == (0, 0)
    assert found.wait.overall == {0.5: None, 0.95: None, 0.99: None}
    assert set(found.run.steps[0.5]) == {None}


def test_jobexecs_own_handlers_are_one_among_the_projects(alias):
    for key, value in (("shop.pay", 5), ("jobexec.batch_seed", 2), ("jobexec.processes.continue", 4)):
        count(alias, meters.JOB_SUCCESSFUL, value, MINUTE, key=key)
    count(alias, meters.JOB_FAILED, 1, MINUTE, key="jobexec.batch_seed")
    found = traffic_by_handler(alias, clock.now(alias), HOUR, 10)
    told = [(each.handler_type, each.succeeded, each.failed) for each in found]
    assert told == [("jobexec.", 6, 1), ("shop.pay", 5, 0)]
    split = subjects.split_by(alias, "handler", clock.now(alias), HOUR).values
    assert {name: sum(values) for name, values in split.items()} == {"jobexec.": 7, "shop.pay": 5}


def test_the_overview_has_it_but_not_for_tenants(alias, django_assert_num_queries):
    count(alias, meters.JOB_SUCCESSFUL, 3, MINUTE)
    with django_assert_num_queries(2, using=alias):
        assert overview(alias, parts=["traffic"]).traffic.all_succeeded == 3
    with django_assert_num_queries(0, using=alias):
        assert overview(alias, parts=["traffic", "nodes", "failure_groups"], tenants=["acme"]).traffic is None
