"""Sums of all meters since the beginning, of which old rows are read once."""

from datetime import UTC, datetime, timedelta

import pytest

from jobexec.clock import FrozenClock
from jobexec.models import MeterLog
from jobexec.operations.reports import meters
from jobexec.operations.reports.meter_totals import MeterTotals

NOW = datetime(2026, 3, 1, 12, 7, tzinfo=UTC)
KEY = (meters.JOB_SUCCESSFUL, "a")


@pytest.fixture(autouse=True)
def frozen(alias, settings):
    settings.JOBEXEC = {"ENGINES": {alias: {}}, "METER_TIME_TO_LIVE": timedelta(days=1)}
    with FrozenClock(NOW) as clock:
        yield clock


def flush(alias, hours_ago, value):
    meters.flush_meters(alias, "one", {KEY: value}, NOW - timedelta(hours=hours_ago))


@pytest.mark.gate
def test_they_stay_the_same_whatever_is_merged_while_time_goes_on(alias, frozen):
    for hours, value in ((40, 1), (26, 2), (20, 4), (2.2, 8), (1.9, 16), (0.1, 32)):
        flush(alias, hours, value)
    kept = MeterTotals(alias)
    for _ in range(60):
        assert kept.read()[KEY] == 63
        meters.roll_up(alias)
        assert kept.read()[KEY] == MeterTotals(alias).read()[KEY] == 63
        frozen.tick(timedelta(minutes=53))


def test_they_grow(alias, frozen):
    kept = MeterTotals(alias)
    for number in range(1, 20):
        meters.flush_meters(alias, "one", {KEY: 1})
        assert kept.read()[KEY] == number
        frozen.tick(timedelta(minutes=11))


def test_old_rows_are_read_once(alias, frozen):
    flush(alias, 5, 1)
    kept = MeterTotals(alias)
    assert kept.read()[KEY] == 1
    MeterLog.objects.using(alias).all().delete()
    frozen.tick(timedelta(hours=1))
    assert kept.read()[KEY] == 1
