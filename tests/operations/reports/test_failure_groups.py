"""Failures that look alike are added up by the database, whichever node has seen them."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from jobexec.models import DeadLetterJob, FailureGroup, Incident
from jobexec.operations.reports import counts
from jobexec.operations.reports import failure_groups as module
from jobexec.operations.reports.failure_groups import FailureCount, failure_groups, flush_failures, incidents_by_group
from tests.support.factories import make_row

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
IDS = [uuid4() for _ in range(3)]


def seen(fingerprint="f1", ago=0, count=1, message="ValueError: no", job_id=IDS[0], exception="ValueError"):
    time = NOW - ago * MINUTE
    return FailureCount(fingerprint, "tests.fail", exception, message, job_id, time - MINUTE, time, count)


def test_a_new_group_is_inserted(alias):
    flush_failures(alias, [seen(count=3)])
    row = FailureGroup.objects.using(alias).values().get()
    assert row == {
        "fingerprint": "f1",
        "handler_type": "tests.fail",
        "exception": "ValueError",
        "message": "ValueError: no",
        "job_id": IDS[0],
        "first_time": NOW - MINUTE,
        "last_time": NOW,
        "count": 3,
        "assigned_to": "",
        "acknowledged_at": None,
        "snoozed_until": None,
        "snoozed_to_count": None,
    }


def test_a_known_one_grows_and_tells_the_latest(alias):
    flush_failures(alias, [seen(ago=10, count=3), seen("f2", ago=10)])
    flush_failures(alias, [seen(count=4, message="ValueError: %s'\"", job_id=IDS[1])])
    row = FailureGroup.objects.using(alias).get(pk="f1")
    assert (row.count, row.message, row.job_id) == (7, "ValueError: %s'\"", IDS[1])
    assert (row.first_time, row.last_time) == (NOW - 11 * MINUTE, NOW)
    assert FailureGroup.objects.using(alias).get(pk="f2").count == 1


def test_a_flush_that_comes_late_adds_its_count_and_nothing_else(alias):
    flush_failures(alias, [seen(message="the latest", job_id=IDS[1])])
    flush_failures(alias, [seen(ago=5, count=2, message="an older one")])
    row = FailureGroup.objects.using(alias).get()
    assert (row.count, row.message, row.job_id, row.last_time) == (3, "the latest", IDS[1], NOW)


def test_as_many_as_a_node_tells_apart(alias):
    flush_failures(alias, [seen(f"f{number:04}") for number in range(250)])
    flush_failures(alias, (seen(f"f{number:04}") for number in range(250)))
    assert set(FailureGroup.objects.using(alias).values_list("count", flat=True)) == {2}
    assert FailureGroup.objects.using(alias).count() == 250


def test_the_latest_come_first_with_their_dead_letters(alias, monkeypatch):
    monkeypatch.setattr(counts, "COUNT_LIMIT", 2)
    flush_failures(alias, [seen("f1", ago=3), seen("f2", ago=1), seen("f3", ago=2)])
    for fingerprint in ("f1", "f1", "f1", "f2", "else"):
        make_row(DeadLetterJob, alias, fingerprint=fingerprint)
    found = [(each.group.pk, str(each.dead_letters)) for each in failure_groups(alias)]
    assert found == [("f2", "1"), ("f3", "0"), ("f1", "2+")]
    assert [each.group.pk for each in failure_groups(alias, limit=1)] == ["f2"]
    assert [each.group.pk for each in failure_groups(alias, since=NOW - 2 * MINUTE)] == ["f2", "f3"]


def test_open_incidents_beyond_those_read_are_estimated_but_not_the_loud_ones(alias, monkeypatch):
    monkeypatch.setattr(module, "COUNT_LIMIT", 2)
    monkeypatch.setattr(module, "estimated", lambda rows: 50_000 + rows.count())
    for state in ("open", "open", "open", "resolved"):
        columns = {"timestamp": NOW, "handler_type": "pay", "category": "mail", "state": state}
        Incident.objects.using(alias).create(**columns)
    found = incidents_by_group(alias, NOW)
    assert (found.total.likely, str(found.loud)) == (50_003, "2+")
