"""What nodes have counted: written as deltas, summed by the database, rolled up without a loss."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.db import transaction

from jobexec.clock import FrozenClock
from jobexec.models import MeterLog
from jobexec.operations.reports import meters
from jobexec.operations.reports.meter_roll_up import BEGINNING
from jobexec.operations.values.histogram import BOUNDS, KEYS, counts_by_key, quantile

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, 7, 30, 250_000, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def frozen():
    with FrozenClock(NOW) as clock:
        yield clock


@pytest.fixture(autouse=True)
def one_engine(alias, settings):
    settings.JOBEXEC = {"ENGINES": {alias: {}}}


def flush(alias, ago=timedelta(0), value=1, name=meters.JOB_SUCCESSFUL, key="a", reporter="one"):
    meters.flush_meters(alias, reporter, {(name, key): value}, NOW - ago)


def test_a_flush_writes_a_row_for_each_meter_and_key_that_grew(alias):
    counts = {(meters.JOB_SUCCESSFUL, "a"): 2, (meters.JOB_FAILED, "a"): 1, (meters.JOB_RECOVERED, ""): 0}
    meters.flush_meters(alias, "one", counts)
    rows = set(MeterLog.objects.using(alias).values_list("name", "key", "reporter", "timestamp", "value"))
    assert rows == {(meters.JOB_SUCCESSFUL, "a", "one", NOW, 2), (meters.JOB_FAILED, "a", "one", NOW, 1)}
    assert meters.flushed(alias, "one", NOW)
    assert not meters.flushed(alias, "one", NOW + timedelta(microseconds=1))
    assert not meters.flushed(alias, "two", NOW)


def test_totals_are_those_of_all_nodes(alias):
    flush(alias, HOUR, 5)
    flush(alias, MINUTE, 7, key="b")
    flush(alias, MINUTE, 9, reporter="two")
    flush(alias, MINUTE, 100, name=meters.JOB_FAILED)
    assert meters.total(alias, meters.JOB_SUCCESSFUL) == 21
    assert meters.total(alias, meters.JOB_SUCCESSFUL, key="a") == 14
    assert meters.totals_by_key(alias, meters.JOB_SUCCESSFUL) == {"a": 14, "b": 7}
    assert meters.totals(alias)[meters.JOB_FAILED, "a"] == 100
    assert meters.total(alias, meters.JOB_RECOVERED) == 0


def test_since_belongs_to_a_period_and_until_does_not(alias):
    flush(alias, HOUR, 5)
    flush(alias, MINUTE, 7)
    assert meters.total(alias, meters.JOB_SUCCESSFUL, since=NOW - HOUR, until=NOW - MINUTE) == 5
    assert meters.totals_by_key(alias, meters.JOB_SUCCESSFUL, since=NOW - MINUTE) == {"a": 7}


def test_a_series_is_filled_with_zeros(alias):
    since = NOW - 5 * MINUTE
    flush(alias, 6 * MINUTE, 1)
    flush(alias, 5 * MINUTE, 2)
    flush(alias, 3 * MINUTE + timedelta(seconds=1), 3)
    flush(alias, 3 * MINUTE, 4, key="b")
    flush(alias, 3 * MINUTE, 5, name=meters.JOB_FAILED)
    names = [meters.JOB_SUCCESSFUL, meters.JOB_FAILED]
    series = meters.series(alias, names, since=since, until=NOW, step=MINUTE)
    assert series.values == {meters.JOB_SUCCESSFUL: [2, 3, 4, 0, 0, 0], meters.JOB_FAILED: [0, 0, 5, 0, 0, 0]}
    assert series.starts[:2] == [since.replace(microsecond=0), since.replace(microsecond=0) + MINUTE]
    assert len(series.starts) == 6


def test_a_series_is_counted_exactly_to_its_edges(alias):
    since = NOW.replace(microsecond=0)
    for seconds in (0, 59.999999, 60, 119.999999):
        meters.flush_meters(alias, "one", {("job-failed", ""): 1}, since + timedelta(seconds=seconds))
    series = meters.series(alias, ["job-failed"], since=since, until=since + 2 * MINUTE, step=MINUTE)
    assert series.values == {"job-failed": [2, 2]}


@pytest.mark.parametrize("step", [timedelta(0), timedelta(milliseconds=999), timedelta(seconds=1)])
def test_a_series_of_too_many_steps_is_refused(alias, step):
    with pytest.raises(ValueError, match="step: expected"):
        meters.series(alias, [meters.JOB_FAILED], since=NOW - DAY, until=NOW, step=step)


def test_percentiles_are_interpolated_within_a_bucket(alias):
    meters.flush_meters(alias, "one", {(meters.JOB_RUN_TIME, "1"): 50, (meters.JOB_RUN_TIME, "1024"): 50})
    meters.flush_meters(alias, "two", {(meters.JOB_RUN_TIME, "1"): 50, (meters.JOB_RUN_TIME, "1024"): 50})
    found = meters.percentiles(alias, meters.JOB_RUN_TIME, since=NOW - HOUR, quantiles=(0.25, 0.5, 0.75, 1))
    assert found == {0.25: 0.0005, 0.5: 0.001, 0.75: 0.768, 1: 1.024}


def test_without_jobs_there_are_no_percentiles(alias):
    assert meters.percentiles(alias, meters.JOB_WAIT_TIME, since=NOW, quantiles=(0.5,)) == {0.5: None}
    with pytest.raises(ValueError, match="expected one of job-wait-time, job-run-time, got 'job-failed'"):
        meters.percentiles(alias, meters.JOB_FAILED, since=NOW)


def test_flushes_older_than_two_hours_become_a_row_for_each_quarter_of_an_hour(alias):
    flush(alias, 3 * HOUR, 1)
    flush(alias, 3 * HOUR - MINUTE, 2, reporter="two")
    flush(alias, 3 * HOUR, 4, key="b")
    flush(alias, 3 * HOUR + 8 * MINUTE, 8)
    flush(alias, 2 * HOUR + 2 * MINUTE, 16)  # its quarter of an hour is not over yet
    assert meters.roll_up(alias) == 1
    rows = MeterLog.objects.using(alias).order_by("value").values_list("key", "reporter", "timestamp", "value")
    nine, quarter_to = datetime(2026, 3, 1, 9, tzinfo=UTC), datetime(2026, 3, 1, 8, 45, tzinfo=UTC)
    assert list(rows) == [
        ("a", "", nine, 3),
        ("b", "", nine, 4),
        ("a", "", quarter_to, 8),
        ("a", "one", NOW - 2 * HOUR - 2 * MINUTE, 16),
    ]
    assert meters.roll_up(alias) == 0


def test_what_is_older_than_its_time_to_live_becomes_one_row(alias, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "METER_TIME_TO_LIVE": 3 * DAY}
    for days in range(2, 8):
        flush(alias, days * DAY)
    meters.roll_up(alias)
    assert sorted(MeterLog.objects.using(alias).values_list("value", flat=True)) == [1, 1, 4]
    flush(alias, 9 * DAY, 6)
    meters.roll_up(alias)
    assert MeterLog.objects.using(alias).get(timestamp=BEGINNING).value == 10
    assert meters.total(alias, meters.JOB_SUCCESSFUL) == 12
    assert meters.total(alias, meters.JOB_SUCCESSFUL, since=NOW - 30 * DAY) == 2


def test_many_rows_are_rolled_up_in_pages(alias, monkeypatch):
    monkeypatch.setattr("jobexec.operations.reports.meter_roll_up._PAGE", 3)
    for minutes in range(10):
        flush(alias, 4 * HOUR + minutes * MINUTE, 2**minutes, key=str(minutes % 2))
    meters.roll_up(alias)
    assert meters.total(alias, meters.JOB_SUCCESSFUL) == 1023
    assert not MeterLog.objects.using(alias).exclude(reporter="").exists()
    assert MeterLog.objects.using(alias).count() < 10


def test_who_is_killed_while_he_rolls_up_changes_no_sum(alias, monkeypatch):
    def killed(queryset):
        raise KeyboardInterrupt

    flush(alias, 3 * HOUR, 1)
    flush(alias, 3 * HOUR, 2, reporter="two")
    monkeypatch.setattr("jobexec.operations.reports.meter_roll_up.delete_rows", killed)
    with pytest.raises(KeyboardInterrupt), transaction.atomic(using=alias):
        meters.roll_up(alias)
    assert meters.total(alias, meters.JOB_SUCCESSFUL) == 3


def test_buckets_double_and_the_last_has_no_end():
    assert BOUNDS[0] == 1
    assert BOUNDS[-1] > 24 * 3600 * 1000
    assert all(above == 2 * below for below, above in pairwise(BOUNDS))
    counts = [0] * 64
    for milliseconds in (0, 1, 2, 3, 4, 10**9, 10**15):
        counts[milliseconds.bit_length()] += 1
    assert dict(counts_by_key(counts)) == {"1": 1, "2": 1, "4": 2, "8": 1, KEYS[-1]: 2}
    assert list(counts_by_key([0] * 64)) == []


def test_of_what_took_too_long_only_the_least_is_known():
    assert quantile({KEYS[-1]: 3}, 0.5) == BOUNDS[-1] / 1000
    with pytest.raises(ValueError, match="share: expected a number from 0 to 1, got 95"):
        quantile({}, 95)
