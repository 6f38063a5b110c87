"""Acquisition: what may be acquired, in which order, and what it writes. Exclusivity has its own file."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from jobexec.models import DeadLetterJob, Job, SuspendedJob, Suspension, TimerJob
from jobexec.operations import acquire_jobs, release_jobs, trigger_due_timers
from jobexec.operations.values.acquired_job import AcquiredJob, ServedJobs
from tests.support.factories import LOCK_TIME, acquire, make_job, make_row, table_of, tables_of, work

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_locks_for_the_owner_and_raises_the_revision(alias, strategy):
    row = make_job(alias, handler_configuration={"args": ["ä"], "kwargs": {}}, timeout=timedelta(seconds=3))
    (job,) = acquire(alias, "one", strategy=strategy)
    stored = Job.objects.using(alias).get()
    assert (stored.lock_owner, stored.lock_expiration_time) == ("one", NOW + LOCK_TIME)
    assert stored.revision == job.revision == row.revision + 1
    assert (job.id, job.using, job.lock_owner, job.timeout) == (row.pk, alias, "one", timedelta(seconds=3))
    assert isinstance(job.configuration, str)
    assert job.load() == stored


def test_a_locked_job_is_nobody_elses_even_long_after_its_lock_expired(alias, strategy, frozen):
    make_job(alias)
    assert len(acquire(alias, "one", strategy=strategy)) == 1
    frozen.tick(LOCK_TIME * 100)
    assert acquire(alias, "two", strategy=strategy) == []
    assert acquire(alias, "one", strategy=strategy) == []


def test_takes_no_more_than_asked_for_in_rank_order(alias, strategy, frozen):
    low = [make_job(alias, priority=-5).pk for _ in range(2)]
    old = [make_job(alias).pk for _ in range(3)]
    frozen.tick(60)
    new = make_job(alias).pk
    overdue = make_job(alias, due_date=NOW - timedelta(days=1)).pk
    high = make_job(alias, priority=1).pk
    expected = [high, overdue, *old, new, *low]
    assert acquire(alias, limit=0, strategy=strategy) == []
    first = [job.id for job in acquire(alias, limit=3, strategy=strategy)]
    rest = [job.id for job in acquire(alias, limit=100, strategy=strategy)]
    assert first == expected[:3]
    assert rest == expected[3:]


def test_serves_only_its_categories_and_deployments(alias, strategy, configure):
    configure(CATEGORIES=["default", "mail", "slow"])
    rows = {
        (category, deployment): make_job(alias, category=category, deployment_id=deployment).pk
        for category in ("default", "mail", "slow")
        for deployment in ("", "shop:1", "shop:2")
    }
    scope = {"categories": ("mail", "default"), "deployments": ("shop:2",)}
    got = {job.id for job in acquire(alias, strategy=strategy, **scope)}
    assert got == {pk for (category, deployment), pk in rows.items() if category != "slow" and deployment != "shop:1"}


def test_several_runs_of_the_index_are_merged_by_rank(alias, strategy, configure, frozen):
    configure(CATEGORIES=["default", "mail"])
    order = []
    for number in range(8):
        order.append(make_job(alias, category=("default", "mail")[number % 2]).pk)
        frozen.tick(1)
    got = acquire(alias, limit=5, strategy=strategy, categories=("mail", "default"))
    assert [job.id for job in got] == order[:5]
    assert Job.objects.using(alias).exclude(lock_owner=None).count() == 5


RANGES = [
    (None, None, {-3, 0, 5, 9}),
    (0, None, {0, 5, 9}),
    (10, None, set()),
    (None, 5, {-3, 0, 5}),
    (None, -1, {-3}),
    (None, -4, set()),
    (1, 8, {5}),
    (5, 5, {5}),
    (-3, 0, {-3, 0}),
    (-9, -1, {-3}),
]


@pytest.mark.parametrize(("low", "high", "expected"), RANGES)
def test_serves_only_its_range_of_priorities(alias, strategy, low, high, expected):
    for priority in (-3, 0, 5, 9):
        make_job(alias, priority=priority)
    got = acquire(alias, strategy=strategy, priority_min=low, priority_max=high)
    assert {Job.objects.using(alias).get(pk=job.id).priority for job in got} == expected
    left = {job.priority for job in Job.objects.using(alias).filter(lock_owner=None)}
    assert left == {-3, 0, 5, 9} - expected


def test_jobs_of_one_rank_go_by_their_ids(alias, strategy):
    """Ids rise with time, so those of one millisecond go in the order of their creation."""
    ids = [make_job(alias).pk for _ in range(5)]
    assert [job.id for job in acquire(alias, strategy=strategy)] == sorted(ids) == ids
    Job.objects.using(alias).all().delete()
    rows = [make_row(Job, alias, rank=rank).pk for rank in (7, -1, 7, 2**63 - 1, -(2**63))]
    assert [job.id for job in acquire(alias, strategy=strategy)] == [rows[4], rows[1], rows[0], rows[2], rows[3]]


def test_what_was_due_first_goes_first_whatever_became_executable_first(alias, strategy, frozen):
    third = make_job(alias, due_date=NOW + timedelta(seconds=30)).pk
    frozen.tick(10)
    first, second = make_job(alias, due_date=NOW).pk, make_job(alias).pk
    frozen.tick(30)
    fourth = make_job(alias).pk
    assert trigger_due_timers(alias, 10) == 1
    assert [job.id for job in acquire(alias, strategy=strategy)] == [first, second, third, fourth]


def rounds_until_acquired(alias, strategy, frozen, job, most):
    """Every minute two urgent jobs come and one job is acquired: in which round it is this one; None if in none."""
    for number in range(1, most + 1):
        for _ in range(2):
            make_job(alias, priority=5)
        frozen.tick(60)
        if [one.id for one in acquire(alias, limit=1, strategy=strategy)] == [job.pk]:
            return number
    return None


def test_with_ageing_a_stream_of_urgent_jobs_starves_nobody(alias, strategy, configure, frozen):
    configure({"PRIORITY_AGEING": timedelta(minutes=1)})
    old = make_job(alias, priority=0)
    frozen.tick(1)
    # Five points of priority are worth five minutes: the ten urgent jobs of those five go first, and then it does.
    assert rounds_until_acquired(alias, strategy, frozen, old, 30) == 11


def test_without_ageing_it_would_starve(alias, strategy, frozen):
    old = make_job(alias, priority=0)
    frozen.tick(1)
    assert rounds_until_acquired(alias, strategy, frozen, old, 30) is None
    assert Job.objects.using(alias).get(pk=old.pk).lock_owner is None


def test_other_tables_are_left_alone(alias, strategy):
    make_job(alias, due_date=NOW + timedelta(seconds=1))
    make_row(SuspendedJob, alias)
    make_row(DeadLetterJob, alias)
    assert acquire(alias, strategy=strategy) == []


def test_what_a_suspension_covers_is_moved_out_of_the_way(alias, strategy):
    Suspension.objects.using(alias).create(scope="tenant_id", value="acme")
    covered = [make_job(alias, tenant_id="acme") for _ in range(2)]
    itself = make_row(Job, alias, suspend_requested=True)
    free = make_job(alias, tenant_id="other")
    result = acquire_jobs(alias, "one", 10, ServedJobs(), lock_time=LOCK_TIME, strategy=strategy)
    assert [job.id for job in result.jobs] == [free.pk]
    assert (result.found, result.suspended, result.blocked, result.lock_failures) == (4, 3, 0, 0)
    assert tables_of(alias) == {row.pk: [SuspendedJob] for row in (*covered, itself)} | {free.pk: [Job]}
    assert SuspendedJob.objects.using(alias).get(pk=itself.pk).suspended_at == NOW


def test_suspended_jobs_do_not_fill_the_page_for_ever(alias, strategy):
    Suspension.objects.using(alias).create(scope="job_definition_id", value="slow")
    for _ in range(5):
        make_job(alias, job_definition_id="slow")
    free = make_job(alias)
    rounds = [acquire(alias, limit=2, strategy=strategy) for _ in range(3)]
    assert [job.id for page in rounds for job in page] == [free.pk]


def test_released_jobs_cost_nothing_and_can_be_acquired_again(alias, strategy):
    make_job(alias)
    make_job(alias, process_instance_id="p")
    jobs = acquire(alias, "one", strategy=strategy)
    Job.objects.using(alias).update(start_time=NOW)
    assert release_jobs(alias, jobs) == 2
    for row in Job.objects.using(alias):
        assert (row.lock_owner, row.lock_expiration_time, row.start_time, row.revision) == (None, None, None, 3)
        assert (row.retries, row.attempts, row.lost_runs) == (3, 0, 0)
    assert len(acquire(alias, "two", strategy=strategy)) == 2


def test_only_ones_own_acquisition_is_released(alias):
    old = work(alias, "one")
    assert release_jobs(alias, [old]) == 1
    assert release_jobs(alias, [old]) == 0
    (again,) = acquire(alias, "one")
    assert release_jobs(alias, [old]) == 0, "the same owner has acquired it anew"
    foreign = AcquiredJob(**{name: getattr(again, name) for name in AcquiredJob.__slots__} | {"lock_owner": "two"})
    assert release_jobs(alias, [foreign]) == 0
    assert Job.objects.using(alias).get().lock_owner == "one"
    assert release_jobs(alias, []) == 0


def test_jobs_of_two_owners_are_released_together(alias):
    jobs = [work(alias, "one", process_instance_id="p"), work(alias, "two", process_instance_id="q")]
    assert release_jobs(alias, jobs) == 2
    assert {job.process_instance_id for job in acquire(alias, "three")} == {"p", "q"}


def test_a_job_that_is_gone_cannot_be_loaded(alias):
    from jobexec.exceptions import JobNotFound

    job = work(alias)
    Job.objects.using(alias).update(revision=9)
    with pytest.raises(JobNotFound, match="no longer locked"):
        job.load()


def test_jobs_of_a_page_are_not_compared_with_each_other(alias, monkeypatch, strategy):
    """A comparison takes all columns of both, and a page has a thousand jobs."""
    monkeypatch.setattr(AcquiredJob, "__eq__", lambda one, other: pytest.fail("two jobs were compared"))
    rows = [make_job(alias, process_instance_id=name, exclusive=True) for name in ("p", "q", "p")]
    assert {job.id for job in acquire(alias, strategy=strategy)} == {row.pk for row in rows}


def test_optimistic_leaves_what_changed_between_reading_and_locking(alias, monkeypatch):
    from jobexec.operations.acquire import candidates as module

    rows = [make_job(alias) for _ in range(3)]
    read = module._candidates

    def read_and_be_overtaken(*args, **kwargs):
        found = read(*args, **kwargs)
        Job.objects.using(alias).filter(pk=rows[0].pk).update(lock_owner="two", revision=2)
        Job.objects.using(alias).filter(pk=rows[1].pk).update(revision=2)
        return found

    monkeypatch.setattr(module, "_candidates", read_and_be_overtaken)
    result = acquire_jobs(alias, "one", 9, ServedJobs(), lock_time=LOCK_TIME, strategy="optimistic")
    assert [job.id for job in result.jobs] == [rows[2].pk]
    assert (result.found, result.lock_failures) == (3, 2)
    assert Job.objects.using(alias).get(pk=rows[0].pk).lock_owner == "two"
    assert Job.objects.using(alias).get(pk=rows[1].pk).lock_owner is None


def test_the_statements_of_a_page_are_as_many_as_those_of_one_job(alias, strategy):
    """A transaction that grows with the page outlasts the back-off that makes pages grow."""

    def statements(jobs):
        for _ in range(jobs):
            make_job(alias)
        with CaptureQueriesContext(connections[alias]) as captured:
            assert len(acquire(alias, strategy=strategy)) == jobs
        return len(captured)

    statements(1)  # the first one ever also makes the row of the global lock
    assert statements(20) == statements(1)


def test_timers_that_are_due_wait_for_the_timers_loop(alias, frozen):
    row = make_job(alias, due_date=NOW + timedelta(seconds=1))
    frozen.tick(10)
    assert acquire(alias) == []
    assert table_of(alias, row) is TimerJob
