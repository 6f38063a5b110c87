"""Expired history is deleted in pieces, by one process at a time."""

from datetime import UTC, datetime, time, timedelta
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from jobexec.conf import get_settings
from jobexec.exceptions import InvalidSettings
from jobexec.models import (
    AcquisitionLock,
    Batch,
    BatchFailure,
    BatchPart,
    BatchState,
    BlockedJob,
    DeadLetterJob,
    FailureGroup,
    Incident,
    IncidentState,
    Job,
    JobLog,
    LogState,
    MeterLog,
    Resource,
)
from jobexec.operations import clean_up_history
from jobexec.operations.maintenance.cleanup import FORCE_AFTER, Cleanup
from jobexec.operations.maintenance.cleanup_window import seconds_until_open
from jobexec.operations.nodes.cluster_lock import ACQUIRE_JOBS, release_of, take
from tests.support.factories import make_row

pytestmark = pytest.mark.every_database

DAY = timedelta(days=1)


@pytest.fixture
def ago(frozen):
    return lambda days: frozen.now - days * DAY


def log(alias, *timestamps):
    rows = [JobLog(timestamp=each, state=LogState.SUCCESSFUL, job_id=uuid4()) for each in timestamps]
    return [row.pk for row in JobLog.objects.using(alias).bulk_create(rows)]


def left(alias):
    return list(JobLog.objects.using(alias).order_by("pk").values_list("pk", flat=True))


def steps(cleanup):
    """What each step deletes."""
    counts = []
    while (count := cleanup.step()) is not None:
        counts.append(count)
    return counts


def lock(alias):
    return AcquisitionLock.objects.using(alias).get(name="clean-up-history")


# -- what --------------------------------------------------------------------------------------------------------


def test_the_log_is_kept_for_thirty_days(alias, ago):
    old, young = log(alias, ago(31), ago(30) - timedelta(seconds=1)), log(alias, ago(30), ago(0))
    assert clean_up_history(alias) == 2
    assert left(alias) == young != old
    assert clean_up_history(alias) == 0


def test_or_as_long_as_the_setting_says_or_for_ever(alias, configure, ago):
    rows = log(alias, ago(400), ago(3), ago(1))
    configure(HISTORY_TIME_TO_LIVE=None)
    assert clean_up_history(alias) == 0
    configure(HISTORY_TIME_TO_LIVE=timedelta(days=2))
    assert clean_up_history(alias) == 2
    assert left(alias) == rows[2:]


def test_the_newest_rows_are_kept_whatever_gaps_their_ids_have(alias, configure, ago):
    rows = log(alias, *[ago(1)] * 10)
    JobLog.objects.using(alias).filter(pk__in=rows[3:7]).delete()
    configure(HISTORY_MAX_ROWS=6)
    assert clean_up_history(alias) == 0
    configure(HISTORY_MAX_ROWS=4)
    assert clean_up_history(alias) == 2
    assert left(alias) == [rows[2], *rows[7:]]


def test_incidents_that_are_over_are_kept_as_long_from_their_end(alias, ago):
    common = {"job_id": uuid4(), "handler_type": "x", "category": "default"}
    make = Incident.objects.using(alias).create
    make(state=IncidentState.RESOLVED, timestamp=ago(90), end_time=ago(31), **common)
    make(state=IncidentState.DELETED, timestamp=ago(90), end_time=ago(31), **common)
    kept = {
        make(state=IncidentState.OPEN, timestamp=ago(90), **common).pk,
        make(state=IncidentState.RESOLVED, timestamp=ago(90), end_time=ago(29), **common).pk,
    }
    assert clean_up_history(alias) == 2
    assert set(Incident.objects.using(alias).values_list("pk", flat=True)) == kept


def test_dead_letters_are_kept_however_old_they_are(alias, ago):
    old = make_row(DeadLetterJob, alias, retries=0, create_time=ago(4000), died_at=ago(4000))
    incident = Incident.objects.using(alias).create(job_id=old.pk, timestamp=ago(4000), state=IncidentState.OPEN)
    log(alias, ago(4000))
    assert clean_up_history(alias) == 1
    assert DeadLetterJob.objects.using(alias).get() == old
    assert Incident.objects.using(alias).get() == incident, "it is still open"


def test_groups_of_failures_are_kept_as_long_from_the_last_one(alias, ago):
    for number, days in enumerate((31, 29)):
        FailureGroup.objects.using(alias).create(
            fingerprint=f"{number}", handler_type="x", first_time=ago(90), last_time=ago(days)
        )
    assert clean_up_history(alias) == 1
    assert FailureGroup.objects.using(alias).get().fingerprint == "1"


def test_batches_that_are_over_go_with_their_parts_and_failures_in_pieces(alias, ago, configure):
    configure(HISTORY_CLEANUP_BATCH_SIZE=2)

    def batch(days, ended, state=BatchState.COMPLETED):
        row = Batch.objects.using(alias).create(type="x", state=state, create_time=ago(days), end_time=ended)
        for _ in range(3):
            BatchPart.objects.using(alias).create(batch=row, job_id=uuid4(), size=1)
            BatchFailure.objects.using(alias).create(batch=row, job_id=uuid4(), reason="no")
        return row.pk

    batch(40, ago(31))
    batch(41, ago(32), BatchState.CANCELLED)
    kept = {batch(40, None, BatchState.RUNNING), batch(40, ago(29)), batch(1, ago(1))}
    counts = steps(Cleanup.begin(alias, "a"))
    assert max(counts) == 2
    assert sum(counts) == 14
    for table, column in ((Batch, "pk"), (BatchPart, "batch_id"), (BatchFailure, "batch_id")):
        assert set(table._base_manager.using(alias).values_list(column, flat=True)) == kept


def test_the_meters_are_rolled_up_on_the_way(alias, ago):
    for _ in range(3):
        MeterLog.objects.using(alias).create(name="x", reporter="here", timestamp=ago(1), value=2)
    clean_up_history(alias)
    assert MeterLog.objects.using(alias).get().value == 6


def test_a_step_merges_a_page_of_meters_and_prolongs_the_lock(alias, ago, frozen, monkeypatch):
    monkeypatch.setattr("jobexec.operations.reports.meter_roll_up._PAGE", 3)
    for number in range(8):
        MeterLog.objects.using(alias).create(name=f"x{number % 2}", reporter="here", timestamp=ago(1), value=1)
    cleanup = Cleanup.begin(alias, "here")
    left = []
    for _ in range(3):
        frozen.tick(FORCE_AFTER - timedelta(seconds=1))
        assert cleanup.step() is not None
        left.append(MeterLog.objects.using(alias).filter(reporter="here").count())
    assert left == [5, 2, 0]
    frozen.tick(FORCE_AFTER)
    assert Cleanup.begin(alias, "there") is not None
    assert cleanup.step() is None, "the lock is lost"


# -- how ---------------------------------------------------------------------------------------------------------


def test_pieces_are_small_the_oldest_first_and_nothing_is_counted(alias, configure, ago):
    configure(HISTORY_CLEANUP_BATCH_SIZE=3)
    rows = log(alias, *[ago(100 - number) for number in range(7)])
    cleanup = Cleanup.begin(alias, "a")
    with CaptureQueriesContext(connections[alias]) as queries:
        assert [cleanup.step(), left(alias)] == [3, rows[3:]]
    assert len([each for each in queries if "SAVEPOINT" not in each["sql"]]) <= 8
    assert [cleanup.step(), cleanup.step(), cleanup.step()] == [3, 1, None]
    assert left(alias) == []


def test_one_at_a_time(alias, ago):
    log(alias, ago(31))
    cleanup = Cleanup.begin(alias, "a")
    assert Cleanup.begin(alias, "b") is None
    assert clean_up_history(alias) == 0
    assert steps(cleanup) == [1]
    cleanup.end()
    assert lock(alias).lock_owner is None
    assert Cleanup.begin(alias, "b") is not None


def test_the_lock_is_another_than_that_of_acquisition(alias):
    assert take(alias, "a", FORCE_AFTER) == 1
    assert Cleanup.begin(alias, "b") is not None
    assert AcquisitionLock.objects.using(alias).get(name=ACQUIRE_JOBS).lock_owner == "a"


def test_who_has_died_is_followed_by_another_who_goes_on(alias, configure, ago, frozen):
    configure(HISTORY_CLEANUP_BATCH_SIZE=1)
    rows = log(alias, *[ago(31)] * 3)
    dead = Cleanup.begin(alias, "dead")
    assert dead.step() == 1
    frozen.tick(FORCE_AFTER - timedelta(seconds=1))
    assert Cleanup.begin(alias, "next") is None
    frozen.tick(1)
    follower = Cleanup.begin(alias, "next")
    assert follower.step() == 1
    assert dead.step() is None, "it has only slept, and deletes nothing beside its successor"
    dead.end()
    (last,) = left(alias)  # they are of the same age, so any of them goes first
    assert (lock(alias).lock_owner, last in rows) == ("next", True)
    assert steps(follower) == [1]


def test_each_piece_prolongs_the_lock(alias, configure, ago, frozen):
    configure(HISTORY_CLEANUP_BATCH_SIZE=1)
    log(alias, *[ago(40)] * 4)
    cleanup = Cleanup.begin(alias, "a")
    for _ in range(4):
        assert cleanup.step() == 1
        frozen.tick(FORCE_AFTER - timedelta(seconds=1))
        assert Cleanup.begin(alias, "b") is None


def test_recovery_frees_the_lock_of_a_dead_node(alias):
    Cleanup.begin(alias, "dead")
    release_of(alias, "dead")
    assert Cleanup.begin(alias, "next") is not None


@pytest.mark.transactional
def test_a_piece_that_fails_is_rolled_back_and_the_same_node_begins_again(alias, ago, monkeypatch):
    rows = log(alias, ago(31))
    cleanup = Cleanup.begin(alias, "a")
    monkeypatch.setattr("jobexec.operations.maintenance.cleanup.delete_rows", lambda rows: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cleanup.step()
    assert left(alias) == rows
    monkeypatch.undo()
    assert steps(Cleanup.begin(alias, "a")) == [1]


# -- the window --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "end", "at", "seconds"),
    [
        ((1, 0), (5, 0), (1, 0), 0),
        ((1, 0), (5, 0), (4, 59), 0),
        ((1, 0), (5, 0), (5, 0), 20 * 3600),
        ((1, 0), (5, 0), (0, 15), 45 * 60),
        ((22, 0), (6, 0), (23, 59), 0),
        ((22, 0), (6, 0), (0, 0), 0),
        ((22, 0), (6, 0), (5, 59), 0),
        ((22, 0), (6, 0), (6, 0), 16 * 3600),
        ((22, 0), (6, 0), (21, 59), 60),
    ],
)
def test_a_window_opens_and_closes_also_over_midnight(begin, end, at, seconds):
    window = time(*begin), time(*end)
    assert seconds_until_open(window, datetime(2026, 3, 1, *at, tzinfo=UTC)) == seconds
    assert seconds_until_open(None, datetime(2026, 3, 1, *at, tzinfo=UTC)) == 0


def test_it_never_waits_for_nothing(settings):
    assert seconds_until_open((time(22), time(6)), datetime(2026, 3, 1, 21, 59, 59, 900_000, tzinfo=UTC)) == 1.0
    assert seconds_until_open((time(22, 0, 0, 500), time(6)), datetime(2026, 3, 1, 22, tzinfo=UTC)) == 1.0


def test_it_is_in_the_projects_time_zone(settings):
    settings.TIME_ZONE = "Asia/Tokyo"
    window = time(22), time(6)
    assert seconds_until_open(window, datetime(2026, 3, 1, 13, tzinfo=UTC)) == 0
    assert seconds_until_open(window, datetime(2026, 3, 1, 12, tzinfo=UTC)) == 3600


def test_a_window_is_given_as_texts_or_times(configure):
    configure(HISTORY_CLEANUP_WINDOW=("22:00", time(6, 30)))
    assert get_settings().history_cleanup_window == (time(22), time(6, 30))


@pytest.mark.parametrize(
    "window", ["22:00", ("22:00",), ("22:00", "22:00"), ("22:00", "25:00"), (22, 6), ("22:00", time(6, tzinfo=UTC))]
)
def test_what_is_no_window_is_refused(configure, window):
    configure(HISTORY_CLEANUP_WINDOW=window)
    with pytest.raises(InvalidSettings, match=r"HISTORY_CLEANUP_WINDOW'\] must be a pair \(begin, end\)"):
        get_settings()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("HISTORY_TIME_TO_LIVE", 0),
        ("HISTORY_MAX_ROWS", 0),
        ("HISTORY_CLEANUP_BATCH_SIZE", 0),
        ("HISTORY_JOB_RETRIES", 0),
        ("HISTORY_JOB_WAIT", 0),
    ],
)
def test_other_settings_are_checked(configure, key, value):
    configure(**{key: value})
    with pytest.raises(InvalidSettings, match=key):
        get_settings()


def test_dead_letters_stay_unless_a_time_is_set(alias, settings, ago):
    old = [make_row(DeadLetterJob, alias, died_at=ago(days)) for days in (900, 31, 29)]
    clean_up_history(alias)
    assert DeadLetterJob.objects.using(alias).count() == 3
    settings.JOBEXEC = {"DEAD_LETTER_TIME_TO_LIVE": "P30D", "HISTORY_CLEANUP_BATCH_SIZE": 1}
    assert clean_up_history(alias) == 2
    assert [row.pk for row in DeadLetterJob.objects.using(alias).all()] == [old[2].pk]
    deleted = JobLog.objects.using(alias).filter(state=LogState.DELETED)
    assert {entry.job_id for entry in deleted} == {row.pk for row in old[:2]}


def test_resources_that_nobody_uses_are_forgotten(alias, configure, frozen):
    configure(RESOURCES={"customer:*": {"limit": 1, "rate": "1/PT1M"}, "customer:entry": {"limit": 2}})
    for name in ("blocked", "running", "over", "changed", "open", "soon", "entry"):
        Resource.objects.using(alias).create(name=f"customer:{name}")
    rows = Resource.objects.using(alias)
    rows.filter(pk="customer:changed").update(limit=3)
    rows.filter(pk="customer:open").update(breaker_state="open")
    rows.filter(pk="customer:soon").update(next_permit_time=frozen.now + timedelta(minutes=1))
    rows.create(name="customer:*")
    make_row(BlockedJob, alias, resource="customer:blocked")
    make_row(Job, alias, resource="customer:running")
    clean_up_history(alias)
    left = {name.partition(":")[2] for name in rows.values_list("pk", flat=True)}
    assert left == {"*", "blocked", "running", "changed", "open", "soon", "entry"}
