"""Permits that a transaction returns go to the next jobs in the same one: to how many, which, and when to none."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import transaction

from jobexec import clock
from jobexec.models import BlockedJob, Job, Resource
from jobexec.operations import suspend
from jobexec.operations.resources.pass_on import pass_on
from jobexec.operations.resources.promote import promote
from jobexec.operations.settle.complete import complete_or_lose
from tests.support.factories import a_run, acquire, make_job
from tests.support.threads import held

pytestmark = pytest.mark.databases("postgresql")


@pytest.fixture(autouse=True)
def resources(configure):
    configure(RESOURCES={"pay.example": {"limit": 2}, "customer:*": {"limit": 1}})


@pytest.fixture
def home(alias):
    """A node that takes every job without a priority."""
    lock = {"lock_owner": "node", "lock_expiration_time": clock.now(alias) + timedelta(minutes=5)}
    return SimpleNamespace(lock=lock, wide=False, takes=lambda job, deployment: job.priority == 0)


def blocked(alias, count=1, resource="pay.example", **columns):
    return [make_job(alias, resource=resource, **columns) for _ in range(count)]


def end(alias, home, jobs):
    """Complete jobs and pass their permits on; returns the ids of those that are taken, and of the others."""
    passed = []
    runs = [(job, a_run(alias)) for job in jobs]
    complete_or_lose(alias, runs, (), lambda counts: passed.extend(pass_on(alias, counts, home)))
    return [[job.id for job in each] for each in passed]


def running(alias, *names):
    promote(alias, names or ["pay.example"], 100)
    return acquire(alias)


def test_as_many_begin_as_have_ended_in_the_order_of_their_ranks(alias, frozen, home):
    ids = [row.pk for row in blocked(alias, 4)]
    urgent = blocked(alias, priority=10_000)[0].pk
    jobs = running(alias)
    assert end(alias, home, jobs) == [[job for job in ids if job not in {each.id for each in jobs}][:2], []]
    assert urgent in {each.id for each in jobs}
    rows = Job.objects.using(alias).values_list("lock_owner", "lock_expiration_time")
    assert {*rows} == {("node", home.lock["lock_expiration_time"])}
    assert Resource.objects.using(alias).get().promoted == 4


def test_the_jobs_are_those_in_the_table(alias, home):
    blocked(alias, 5)
    taken = []
    home.takes = lambda job, deployment: not taken.append(job)
    end(alias, home, running(alias))
    assert [job.load().pk for job in taken] == [job.id for job in taken]
    assert end(alias, home, [*taken]) == [[taken[-1].id], []]


def test_what_was_lost_returns_no_permit(alias, home):
    blocked(alias, 3)
    jobs = running(alias)
    Job.objects.using(alias).filter(pk=jobs[0].id).update(lock_owner="another")
    taken, _ = end(alias, home, jobs)
    assert len(taken) == 1
    assert Job.objects.using(alias).count() == 2


def test_jobs_that_the_node_does_not_run_are_told_apart(alias, home):
    blocked(alias, 2)
    jobs = running(alias)
    (elsewhere,) = blocked(alias, priority=5)
    (here,) = blocked(alias)
    assert end(alias, home, jobs) == [[here.pk], [elsewhere.pk]]


def test_a_limit_that_was_lowered_holds_soon(alias, home):
    blocked(alias, 6)
    jobs = running(alias)
    Resource.objects.using(alias).update(limit=1)
    assert end(alias, home, jobs[:1]) == [[], []]
    taken, _ = end(alias, home, jobs[1:])
    assert len(taken) == 1
    assert Job.objects.using(alias).count() == 1


def test_the_limit_of_a_pattern_counts(alias, home):
    blocked(alias, 3, "customer:7")
    jobs = running(alias, "customer:7")
    entry = Resource.objects.using(alias).create(name="customer:*", limit=2)
    promote(alias, ["customer:7"], 100)
    entry.limit = 1
    entry.save()
    assert end(alias, home, jobs) == [[], []]


@pytest.mark.parametrize("changed", [{"hold": "open"}, {"rate": "1/PT1M"}])
def test_what_an_operator_has_changed_is_left_alone(alias, home, changed):
    blocked(alias, 3)
    jobs = running(alias)
    Resource.objects.using(alias).update(**changed)
    assert end(alias, home, jobs) == [[], []]


def test_while_anything_is_suspended_nothing_is_passed_on(alias, home):
    blocked(alias, 3)
    jobs = running(alias)
    suspend(category="elsewhere", using=alias)
    assert end(alias, home, jobs) == [[], []]


@pytest.mark.parametrize(
    "first",
    [{"process_instance_id": "order"}, {"suspend_requested": True}, {"job_key": 7}],
    ids=lambda value: str(*value),
)
def test_none_overtakes_a_job_that_takes_more_than_a_move(alias, home, first):
    blocked(alias, 2)
    jobs = running(alias)
    row = blocked(alias)[0]
    BlockedJob.objects.using(alias).filter(pk=row.pk).update(**first)
    blocked(alias, 2)
    assert end(alias, home, jobs) == [[], []]
    assert BlockedJob.objects.using(alias).count() == 3


def test_a_job_that_waits_for_a_message_is_not_in_line(alias, home):
    blocked(alias, 2)
    jobs = running(alias)
    row = blocked(alias)[0]
    BlockedJob.objects.using(alias).filter(pk=row.pk).update(waits_for="paid")
    assert end(alias, home, jobs) == [[], []]


def test_an_error_before_the_commit_undoes_both(alias, home):
    blocked(alias, 4)
    jobs = running(alias)

    def fail(job, deployment):
        raise ValueError("the node")

    home.takes = fail
    with pytest.raises(ValueError, match="the node"), transaction.atomic(alias):
        end(alias, home, jobs)
    assert {row.pk for row in Job.objects.using(alias)} == {job.id for job in jobs}
    assert BlockedJob.objects.using(alias).count() == 2


@pytest.mark.transactional
def test_it_does_not_wait_for_whoever_holds_the_resource(alias, home):
    blocked(alias, 4)
    jobs = running(alias)
    with held(alias) as inside:
        inside(lambda: list(Resource.objects.using(alias).select_for_update()))
        assert end(alias, home, jobs) == [[], []]
    assert (Job.objects.using(alias).count(), promote(alias, ["pay.example"], 100).moved) == (0, 2)


@pytest.mark.transactional
def test_it_skips_a_job_that_another_transaction_holds(alias, home):
    blocked(alias, 2)
    jobs = running(alias)
    first, second, third = blocked(alias, 3)
    with held(alias) as inside:
        inside(lambda: BlockedJob.objects.using(alias).select_for_update().get(pk=first.pk))
        assert end(alias, home, jobs) == [[second.pk, third.pk], []]
