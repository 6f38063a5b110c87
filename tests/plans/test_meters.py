"""Meters and groups of failures are read and merged along their indexes, however many rows there are."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.db.models import Q

from jobexec import clock
from jobexec.models import DeadLetterJob, ExternalWorkerJob, FailureGroup, Incident, Job, MeterLog
from jobexec.operations.reports import held, meters, running, subjects
from jobexec.operations.reports.counts import CappedCount
from jobexec.operations.reports.failure_groups import dead_letters_by_group, failure_groups
from tests.support.factories import make_row

from .test_plans import ANALYZE, ROWS, fill, plans

# ANALYZE TABLE commits on MariaDB, so nothing here could be rolled back.
pytestmark = [pytest.mark.transactional, pytest.mark.nightly]

OLD = timedelta(days=3)


@pytest.fixture(autouse=True)
def engines(settings: Any) -> None:
    settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}}


def fill_meters(alias: str) -> None:
    """Many merged rows of each meter, and few that were just flushed."""
    now = clock.now(alias)
    rows = [
        MeterLog(
            name=meters.METERS[number % len(meters.METERS)], timestamp=now - OLD - timedelta(seconds=number), value=1
        )
        for number in range(ROWS)
    ]
    MeterLog.objects.using(alias).bulk_create(rows, batch_size=1000)
    for name in meters.METERS:
        meters.flush_meters(alias, "one", {(name, "a"): 1})
    with connections[alias].cursor() as cursor:
        cursor.execute(ANALYZE[connections[alias].vendor].format(MeterLog._meta.db_table))


def test_what_was_counted_lately_is_read_without_the_rest(alias: str) -> None:
    fill_meters(alias)
    since = clock.now(alias) - timedelta(hours=1)
    until, step = since + 2 * timedelta(hours=1), timedelta(minutes=1)

    def read() -> None:
        assert meters.total(alias, meters.JOB_SUCCESSFUL, since=since) == 1
        assert meters.totals_by_key(alias, meters.JOB_FAILED, since=since) == {"a": 1}
        meters.series(alias, [meters.JOB_SUCCESSFUL, meters.JOB_FAILED], since=since, until=until, step=step)
        meters.percentiles(alias, meters.JOB_WAIT_TIME, since=since)
        assert len(meters.totals(alias, since=since)) == len(meters.METERS)

    looks = plans(alias, MeterLog, read)
    *single, of_all = looks
    assert len(single) == 4
    for look in single:
        assert "jobexec_meterlog_name" in look, look
    assert "jobexec_meterlog_" in of_all, of_all


def test_what_is_to_be_merged_is_found_among_what_has_been(alias: str) -> None:
    fill_meters(alias)
    now = clock.now(alias)
    # Two: MariaDB looks for a single row by its id before it plans, and finds that it is gone.
    counts = {(meters.JOB_FAILED, "a"): 1, (meters.JOB_SUCCESSFUL, "a"): 1}
    meters.flush_meters(alias, "one", counts, now - timedelta(hours=5))
    looks = plans(alias, MeterLog, lambda: meters.roll_up(alias))
    assert len(looks) >= 2
    for look in looks:
        assert "jobexec_meterlog_reporter" in look or "pkey" in look or "PRIMARY" in look, look
    assert not MeterLog.objects.using(alias).filter(reporter="one", timestamp__lt=now - timedelta(hours=3)).exists()


def test_a_flush_that_is_in_doubt_is_found_by_its_time(alias: str) -> None:
    fill_meters(alias)
    (look,) = plans(alias, MeterLog, lambda: meters.flushed(alias, "one", clock.now(alias)))
    assert "jobexec_meterlog_" in look, look


def test_groups_of_failures_are_read_by_their_indexes(alias: str) -> None:
    now = clock.now(alias)
    rows = [
        FailureGroup(fingerprint=f"{number:016x}", first_time=now - OLD, last_time=now - timedelta(seconds=number))
        for number in range(ROWS // 4)
    ]
    FailureGroup.objects.using(alias).bulk_create(rows, batch_size=1000)
    for number in range(16):
        make_row(DeadLetterJob, alias, fingerprint=f"{number:016x}")
    fill(alias, DeadLetterJob, fingerprint="f" * 16)
    with connections[alias].cursor() as cursor:
        cursor.execute(ANALYZE[connections[alias].vendor].format(FailureGroup._meta.db_table))
    found: list[Any] = []
    (groups,) = plans(alias, FailureGroup, lambda: found.extend(failure_groups(alias, limit=5)))
    assert [each.group.fingerprint for each in found] == [row.fingerprint for row in rows[:5]]
    assert "jobexec_failuregroup_last" in groups, groups
    looks = plans(alias, DeadLetterJob, lambda: failure_groups(alias, limit=5))
    assert looks
    for look in looks:
        assert "jobexec_deadletterjob_alike" in look, look


def test_the_runs_of_a_subject_are_read_without_those_of_others(alias: str) -> None:
    now = clock.now(alias)
    rows = [
        MeterLog(name=subjects.meter_of("handler", f"h{number % 500}"), timestamp=now - timedelta(seconds=1), value=1)
        for number in range(ROWS)
    ]
    MeterLog.objects.using(alias).bulk_create(rows, batch_size=1000)
    with connections[alias].cursor() as cursor:
        cursor.execute(ANALYZE[connections[alias].vendor].format(MeterLog._meta.db_table))
    hour = timedelta(hours=1)
    (look,) = plans(alias, MeterLog, lambda: subjects.runs_of(alias, "handler", "h7", clock.now(alias), hour))
    assert "jobexec_meterlog_name" in look, look


def test_large_numbers_are_estimated_as_far_as_the_database_knows(alias: str) -> None:
    """A tile, a list, a tab: at least 32,768 dead letters of one group, and 10 others."""
    fill(alias, DeadLetterJob, handler_type="tests.pay", fingerprint="f" * 16)
    for _ in range(10):
        make_row(DeadLetterJob, alias, handler_type="tests.ship", fingerprint="0" * 16)
    with connections[alias].cursor() as cursor:
        cursor.execute(ANALYZE[connections[alias].vendor].format(DeadLetterJob._meta.db_table))
    rows = DeadLetterJob.objects.using(alias)
    whole, pay = CappedCount.of(rows), rows.filter(handler_type="tests.pay")
    made = pay.count()
    standing = subjects.standing_of(alias, "handler", "tests.pay").tables[DeadLetterJob]
    of_groups = dead_letters_by_group(alias, ["f" * 16, "0" * 16])
    of_conditions = [CappedCount.of(pay), standing, of_groups["f" * 16]]
    vendor = connections[alias].vendor
    if vendor == "sqlite":
        assert str(whole) == "10,000+"
    else:
        assert made / 2 < whole.likely < 2 * made
        assert str(whole).startswith("≈")
    if vendor == "postgresql":
        assert [0.9 * made < count.likely < 1.1 * made for count in of_conditions] == [True] * 3
    else:
        assert [(count.estimate, count.capped) for count in of_conditions] == [(None, True)] * 3
    other = subjects.standing_of(alias, "handler", "tests.ship").tables[DeadLetterJob]
    assert (other.estimate, other.capped, str(of_groups["0" * 16])) == (None, True, "10")


def test_what_is_shown_of_a_subject_reads_no_large_table_as_a_whole(alias: str) -> None:
    for table in (Job, ExternalWorkerJob, DeadLetterJob):
        fill(alias, table, handler_type="tests.other")
    make_row(Job, alias, handler_type="tests.pay")
    fill(alias, Incident, state="open", timestamp=clock.now(alias), category="default")
    scan = {"postgresql": "Seq Scan on {}", "mysql": "'{}', 'ALL'", "sqlite": "SCAN {}')"}[connections[alias].vendor]
    looks: list[tuple[type[Any], Any]] = [
        (Job, lambda: subjects.standing_of(alias, "handler", "tests.pay")),
        (ExternalWorkerJob, lambda: subjects.standing_of(alias, "handler", "tests.pay")),
        (DeadLetterJob, lambda: subjects.standing_of(alias, "handler", "tests.pay")),
        (Job, lambda: subjects.backlog(alias, ["default", "mail"])),
        (Incident, lambda: subjects.groups_of(alias, "handler", "tests.pay")),
    ]
    for table, look in looks:
        for plan in plans(alias, table, look):
            assert scan.format(table._meta.db_table) not in plan, plan


def test_jobs_in_progress_are_found_at_the_front_of_the_order_of_acquisition(alias: str) -> None:
    fill(alias, Job, handler_type="tests.other", category="default", rank=5)
    make_row(Job, alias, handler_type="tests.pay", category="mail", rank=5)
    looks = plans(alias, Job, lambda: held.held_executable(alias, Q(handler_type="tests.pay"), clock.now(alias)))
    assert len(looks) == 7, "a statement for each category and deployment, and two for what follows it"
    for look in looks:
        assert "jobexec_job_acquisition" in look, look
    looks = plans(alias, Job, lambda: running.jobs_in_hand(alias, 10))
    assert len(looks) == 10, "how large the table is, and the front of each category and deployment"
    for look in looks[1:]:
        assert "jobexec_job_acquisition" in look, look
