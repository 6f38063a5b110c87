"""What an operator sees first: numbers that end somewhere, the oldest due job, nodes, timers, suspensions."""

from datetime import timedelta

import pytest

from jobexec import clock
from jobexec.models import DeadLetterJob, HistoryJob, Job, SuspendedJob, TimerJob
from jobexec.operations import counts, requeue
from jobexec.operations.overview import overview
from tests.support.factories import acquire, make_job, make_row

MINUTE = timedelta(minutes=1)


def looked(alias, *parts, **options):
    return overview(alias, parts=parts, **options)


def test_jobs_are_counted_by_their_state(alias):
    later = clock.now(alias) + MINUTE
    for _ in range(3):
        make_job(alias)
    acquire(alias, limit=1)
    make_job(alias, due_date=later)
    make_row(TimerJob, alias, due_date=later, attempts=2)
    make_row(TimerJob, alias, due_date=later, attempts=1)
    make_row(SuspendedJob, alias)
    make_row(DeadLetterJob, alias)
    make_row(HistoryJob, alias)
    found = looked(alias, "counts").counts
    assert (found.free, found.in_progress) == (2, 1)
    assert (found.timers, found.retries) == (1, 2)
    assert (found.suspended, found.dead_letters, found.history) == (1, 1, 1)
    assert str(found.free) == "2"


def test_counting_ends(alias, monkeypatch):
    monkeypatch.setattr(counts, "COUNT_LIMIT", 3)
    for _ in range(5):
        make_row(DeadLetterJob, alias)
    for _ in range(3):
        make_row(SuspendedJob, alias)
    found = looked(alias, "counts").counts
    assert (str(found.dead_letters), str(found.suspended)) == ("3+", "3")


def test_the_oldest_due_job_is_the_one_that_waits_longest(alias, frozen):
    first = clock.now(alias)
    make_job(alias, priority=-7)
    frozen.tick(MINUTE)
    make_job(alias, priority=1000)
    frozen.tick(MINUTE)
    assert looked(alias, "counts").oldest_due == first
    acquire(alias, limit=2)
    assert looked(alias, "counts").oldest_due is None


def test_a_requeued_job_is_due_since_it_was_requeued(alias, frozen):
    job = make_row(DeadLetterJob, alias, create_time=clock.now(alias))
    frozen.tick(timedelta(days=3))
    requeue(job)
    frozen.tick(MINUTE)
    assert Job.objects.using(alias).get().create_time < clock.now(alias) - timedelta(days=2)
    assert looked(alias, "counts").oldest_due == clock.now(alias) - MINUTE


def test_a_priority_that_no_rank_can_hold_breaks_nothing(alias):
    make_row(Job, alias, priority=2_000_000_000, rank=-(2**63))
    assert looked(alias, "counts").oldest_due is None
    assert looked(alias, "counts").counts.free == 1


@pytest.mark.parametrize("parts", [(), ("counts",)])
def test_what_is_not_asked_for_is_none(alias, parts, django_assert_num_queries):
    with django_assert_num_queries(5 if parts else 0, using=alias):
        found = looked(alias, *parts)
    assert (found.counts is None) is (not parts)
    assert found.nodes is None


def test_unknown_parts_are_named():
    with pytest.raises(ValueError, match=r"parts: expected some of .*timers.*, got colours\."):
        overview("default", parts=["colours"])
