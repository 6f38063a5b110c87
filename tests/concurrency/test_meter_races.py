"""Nodes that write and merge meters at the same moment, and one that is killed while it does."""

from datetime import UTC, datetime, timedelta

import pytest

from jobexec.clock import FrozenClock
from jobexec.models import FailureGroup, MeterLog
from jobexec.operations.reports import meter_roll_up, meters
from jobexec.operations.reports.failure_groups import FailureCount, flush_failures
from jobexec.operations.sql.locks import atomic
from tests.support.machines.killed import Killed, killed_at
from tests.support.threads import finish, held, start, together, wait_until_waiting

pytestmark = pytest.mark.transactional

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OLD = NOW - timedelta(hours=5)


@pytest.fixture(autouse=True)
def frozen():
    with FrozenClock(NOW) as frozen:
        yield frozen


def fill(alias, count=300):
    for number in range(count):
        counts = {(meters.JOB_SUCCESSFUL, f"h{number % 7}"): number}
        meters.flush_meters(alias, f"n{number % 3}", counts, OLD - timedelta(minutes=number))
    return sum(range(count))


def failures(names):
    return [FailureCount(name, "tests.fail", "ValueError", "no", None, NOW, NOW) for name in names]


@pytest.mark.gate
def test_two_nodes_that_roll_up_together_neither_lose_nor_double(alias, monkeypatch):
    monkeypatch.setattr(meter_roll_up, "_PAGE", 20)
    expected = fill(alias)
    together(alias, *[lambda: meters.roll_up(alias)] * 3)
    assert meters.total(alias, meters.JOB_SUCCESSFUL) == expected
    assert not MeterLog.objects.using(alias).exclude(reporter="").exists()
    together(alias, *[lambda: meters.roll_up(alias)] * 2)
    assert meters.total(alias, meters.JOB_SUCCESSFUL) == expected


def test_so_do_those_that_merge_what_is_older_than_its_time_to_live(alias, monkeypatch, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "METER_TIME_TO_LIVE": 3600}
    monkeypatch.setattr(meter_roll_up, "_PAGE", 20)
    expected = fill(alias)
    together(alias, *[lambda: meters.roll_up(alias)] * 3)
    assert meters.total(alias, meters.JOB_SUCCESSFUL) == expected
    assert meters.total(alias, meters.JOB_SUCCESSFUL, since=OLD - timedelta(days=1)) == 0


@pytest.mark.parametrize("number", range(1, 5))
def test_who_is_killed_before_any_statement_changes_no_sum(alias, number):
    expected = fill(alias, 50)
    with pytest.raises(Killed), killed_at(alias, number):
        meters.roll_up(alias)
    assert meters.total(alias, meters.JOB_SUCCESSFUL) == expected
    meters.roll_up(alias)
    assert meters.total(alias, meters.JOB_SUCCESSFUL) == expected


@pytest.mark.databases("postgresql", "mariadb")
def test_the_second_node_waits_for_the_first_and_adds(alias):
    flush_failures(alias, failures(["a", "b", "c"]))
    with held(alias) as inside:
        inside(lambda: flush_failures(alias, failures(["b"])))
        second = start(alias, lambda: flush_failures(alias, failures(["c", "b", "a", "d"])))
        wait_until_waiting(alias, second)
        # It has what comes before, and nothing that comes after.
        inside(lambda: flush_failures(alias, failures(["c", "d"])))
    finish(second)
    assert dict(FailureGroup.objects.using(alias).values_list("pk", "count")) == {"a": 2, "b": 3, "c": 3, "d": 2}


def test_many_flushes_at_the_same_moment_lose_nothing_and_do_not_deadlock(alias):
    names = [f"f{number}" for number in range(40)]

    def flush(order):
        for _ in range(5):
            with atomic(alias):
                flush_failures(alias, failures(order))

    together(alias, lambda: flush(names), lambda: flush(names[::-1]), lambda: flush(names[20:] + names[:20]))
    assert set(FailureGroup.objects.using(alias).values_list("count", flat=True)) == {15}
