"""Types of job for which no worker comes, and how the jobs of a type are."""

from datetime import timedelta

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from jobexec.clock import FrozenClock
from jobexec.models import ExternalWorker, ExternalWorkerJob
from jobexec.operations.reports import counts
from jobexec.operations.reports.unserved_types import external_counts, external_types, types_without_worker
from jobexec.operations.values.ranking import rank
from tests.support.factories import make_row

MINUTE = timedelta(minutes=1)
AFTER = 5 * MINUTE


@pytest.fixture(autouse=True)
def frozen():
    with FrozenClock() as clock:
        yield clock


def fresh(alias, type, since, frozen, **columns):
    """A job that has been available all the time."""
    return make_row(
        ExternalWorkerJob,
        alias,
        handler_type=type,
        available_at=None,
        rank=rank(alias, frozen.now - since, 0),
        **columns,
    )


def waiting(alias, type, since, frozen, **columns):
    """A job whose deadline or back-off ended so long ago; less than nothing is in the future."""
    return make_row(ExternalWorkerJob, alias, handler_type=type, available_at=frozen.now - since, **columns)


def held(alias, type, frozen):
    deadline = frozen.now + MINUTE
    columns = {"available_at": deadline, "lock_expiration_time": deadline, "lock_owner": "w"}
    return make_row(ExternalWorkerJob, alias, handler_type=type, **columns)


def worker(alias, type, ago, frozen, **columns):
    seen = frozen.now - ago
    columns = {"gateway": "g", "protocol": "rest", "worker": "w", **columns}
    return ExternalWorker.objects.using(alias).create(type=type, last_seen=seen, **columns)


def without(alias):
    return [each.type for each in types_without_worker(alias, AFTER)]


def test_each_type_is_found_once(alias, frozen):
    for type in ("b", "a", "B", "a", "c-1", "b"):
        waiting(alias, type, MINUTE, frozen)
    assert sorted(external_types(alias)) == ["B", "a", "b", "c-1"]
    assert len(external_types(alias, most=2)) == 2


def test_without_jobs_there_are_no_types(alias):
    assert external_types(alias) == []
    assert external_counts(alias) == []
    assert types_without_worker(alias, AFTER) == []


def test_jobs_are_counted_by_type_and_state(alias, frozen):
    waiting(alias, "a", MINUTE, frozen)
    waiting(alias, "a", 3 * MINUTE, frozen)
    waiting(alias, "a", -MINUTE, frozen)  # backs off
    held(alias, "b", frozen)
    a, b = external_counts(alias)
    assert (a.type, a.available, a.activated, a.backing_off) == ("a", 2, 0, 1)
    assert a.waiting_since == frozen.now - 3 * MINUTE
    assert (b.type, b.available, b.activated, b.backing_off, b.waiting_since) == ("b", 0, 1, 0, None)


def test_what_is_new_waits_since_it_was_made(alias, frozen):
    fresh(alias, "a", 2 * MINUTE, frozen)
    fresh(alias, "a", 6 * MINUTE, frozen)
    waiting(alias, "a", MINUTE, frozen)
    held(alias, "b", frozen)
    a, b = external_counts(alias)
    assert (a.available, a.activated, a.backing_off) == (3, 0, 0)
    assert abs(frozen.now - 6 * MINUTE - a.waiting_since) < timedelta(milliseconds=2)
    assert (b.available, b.activated) == (0, 1)
    assert without(alias) == ["a"]


def test_a_new_job_is_given_time(alias, frozen):
    fresh(alias, "a", 4 * MINUTE, frozen)
    assert without(alias) == []


def test_a_job_whose_deadline_is_over_waits(alias, frozen):
    row = held(alias, "a", frozen)
    frozen.tick(2 * MINUTE)
    (found,) = external_counts(alias)
    assert (found.available, found.activated) == (1, 0)
    assert found.waiting_since == row.available_at


def test_counting_ends(alias, frozen, monkeypatch):
    monkeypatch.setattr(counts, "COUNT_LIMIT", 2)
    for _ in range(4):
        waiting(alias, "a", MINUTE, frozen)
    (found,) = external_counts(alias)
    assert str(found.available) == "2+"


def test_a_type_that_nobody_asks_for(alias, frozen):
    waiting(alias, "a", 6 * MINUTE, frozen)
    waiting(alias, "b", 4 * MINUTE, frozen)
    (found,) = types_without_worker(alias, AFTER)
    assert (found.type, found.waiting_since) == ("a", frozen.now - 6 * MINUTE)


def test_a_worker_that_has_asked_lately(alias, frozen):
    waiting(alias, "a", 6 * MINUTE, frozen)
    worker(alias, "a", MINUTE, frozen)
    assert without(alias) == []
    frozen.tick(4 * MINUTE)
    assert without(alias) == ["a"], "it has gone"


def test_of_several_workers_the_last_counts(alias, frozen):
    waiting(alias, "a", 6 * MINUTE, frozen)
    worker(alias, "a", 7 * MINUTE, frozen)
    worker(alias, "a", MINUTE, frozen, gateway="h")
    assert without(alias) == []


def test_a_worker_of_another_type_is_none(alias, frozen):
    waiting(alias, "a", 6 * MINUTE, frozen)
    worker(alias, "A", MINUTE, frozen)
    assert without(alias) == ["a"]


def test_who_holds_a_job_of_the_type_is_a_worker(alias, frozen):
    waiting(alias, "a", 6 * MINUTE, frozen)
    held(alias, "a", frozen)
    assert without(alias) == []


def test_a_back_off_is_no_wait(alias, frozen):
    waiting(alias, "a", -MINUTE, frozen, create_time=frozen.now - timedelta(days=1))
    assert without(alias) == []


def test_the_statements_are_as_many_as_the_types(alias, frozen):
    for number in range(5):
        for _ in range(5):
            waiting(alias, f"type {number}", 6 * MINUTE, frozen)
    with CaptureQueriesContext(connections[alias]) as captured:
        assert len(types_without_worker(alias, AFTER)) == 5
    assert len(captured) <= 13
