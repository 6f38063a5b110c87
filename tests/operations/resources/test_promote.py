"""Resources: how many of their jobs may run, in which order, and who gets the permits that become free."""

from datetime import timedelta

import pytest

import jobexec
from jobexec.exceptions import InvalidJob
from jobexec.models import BlockedJob, DeadLetterJob, Job, Resource, SuspendedJob, TimerJob
from jobexec.operations import activate, cancel, requeue, retry_now, set_priority, suspend, trigger_due_timers
from jobexec.operations.resources import promote_statement
from jobexec.operations.resources.promote import blocked_resources, promote
from jobexec.operations.rows import move_statement
from jobexec.operations.settle.complete import complete_jobs
from jobexec.operations.settle.fail import fail_job
from jobexec.operations.settle.release import release_jobs
from jobexec.testing import ManualExecutor
from tests.support.factories import a_failure, a_run, acquire, make_job, make_row, table_of, tables_of

pytestmark = pytest.mark.every_database


@pytest.fixture(autouse=True)
def resources(configure):
    """Change RESOURCES; at first one resource with two permits, and one for each customer."""

    def change(**entries):
        configure(RESOURCES={name.replace("_", "."): entry for name, entry in entries.items()})

    configure(RESOURCES={"pay.example": {"limit": 2}, "customer:*": {"limit": 1}, "customer:big": {"limit": 3}})
    return change


@pytest.fixture(params=["statement", "portable"])
def form(request, monkeypatch):
    """Both forms in which rows move."""
    if request.param == "portable":
        for module in (move_statement, promote_statement):
            monkeypatch.setattr(module, "is_possible", lambda using: False)


def blocked(alias, count=1, resource="pay.example", **columns):
    return [make_job(alias, resource=resource, **columns) for _ in range(count)]


def look(alias, *names, limit=100):
    return promote(alias, names or blocked_resources(alias), limit)


def permits(alias, resource="pay.example"):
    return Job.objects.using(alias).filter(resource=resource).count()


def test_a_job_waits_for_its_resource(alias, form):
    rows = blocked(alias, 3)
    assert {type(row) for row in rows} == {BlockedJob}
    assert acquire(alias) == []
    assert look(alias).moved == 2
    assert [job.id for job in acquire(alias)] == [row.pk for row in rows[:2]]
    assert look(alias).moved == 0


def test_each_name_that_a_pattern_covers_is_a_resource_of_its_own(alias, form):
    for name in ("customer:1", "customer:2", "customer:big"):
        blocked(alias, 4, resource=name)
    assert look(alias).moved == 5
    assert [permits(alias, name) for name in ("customer:1", "customer:2", "customer:big")] == [1, 1, 3]


def test_in_the_order_of_their_ranks(alias, frozen, form):
    late, urgent = blocked(alias)[0], blocked(alias, priority=10_000)[0]
    first = blocked(alias)[0]
    set_priority(first, 20_000, using=alias)
    assert look(alias, limit=1).moved == 1
    assert look(alias).moved == 1
    assert tables_of(alias) == {first.pk: [Job], urgent.pk: [Job], late.pk: [BlockedJob]}


def test_a_job_keeps_its_place_when_it_gets_its_permit(alias, frozen, form):
    (row,) = blocked(alias)
    frozen.tick(3600)
    look(alias)
    assert Job.objects.using(alias).get().rank == row.rank


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "suspend"])
def test_a_permit_goes_with_its_job(alias, end):
    rows = blocked(alias, 3)
    look(alias)
    (job, *_) = acquire(alias, limit=1)
    other = Job.objects.using(alias).get(lock_owner=None)
    if end == "complete":
        complete_jobs(alias, [(job, a_run(alias))])
    elif end == "fail":
        fail_job(alias, job, a_failure(), a_run(alias))
        assert table_of(alias, job) is TimerJob
    elif end == "cancel":
        cancel(other, using=alias)
    else:
        suspend(other, using=alias)
    assert look(alias).moved == 1
    assert table_of(alias, rows[2]) is Job
    assert permits(alias) == 2


def test_a_job_that_is_given_back_keeps_its_permit(alias):
    blocked(alias, 3)
    look(alias)
    jobs = acquire(alias)
    release_jobs(alias, jobs)
    assert look(alias).moved == 0
    assert {job.id for job in acquire(alias, "another")} == {job.id for job in jobs}


def test_a_retry_holds_no_permit_and_waits_again(alias, frozen, form):
    blocked(alias, 3)
    look(alias)
    job, other = acquire(alias)
    fail_job(alias, job, a_failure(), a_run(alias))
    look(alias)
    frozen.tick(3600)
    assert trigger_due_timers(alias, 10) == 1
    assert table_of(alias, job) is BlockedJob
    assert look(alias).moved == 0
    complete_jobs(alias, [(other, a_run(alias))])
    assert look(alias).moved == 1


def test_what_is_covered_by_a_suspension_takes_no_permit(alias, form):
    suspend(tenant_id="t", using=alias)
    covered, free = blocked(alias, tenant_id="t")[0], blocked(alias)[0]
    assert look(alias).moved == 2
    assert tables_of(alias) == {covered.pk: [SuspendedJob], free.pk: [Job]}
    activate(tenant_id="t", using=alias)
    assert table_of(alias, covered) is BlockedJob


def test_requeued_and_due_jobs_wait_for_their_resource(alias, frozen):
    dead = make_row(DeadLetterJob, alias, resource="pay.example")
    timer = blocked(alias, due_date=jobexec.clock.now(alias) + timedelta(hours=1))[0]
    requeue(dead, using=alias)
    retry_now(timer, using=alias)
    assert tables_of(alias) == {dead.pk: [BlockedJob], timer.pk: [BlockedJob]}


def test_a_resource_that_no_entry_covers_is_refused(alias):
    for name in ("pay.exampl", "customer:", "customer:*"):
        with pytest.raises(InvalidJob, match="resource: expected a name that RESOURCES covers"):
            make_job(alias, resource=name)
    assert not BlockedJob.objects.using(alias).exists()


def test_the_call_is_named_whose_resource_no_entry_covers(alias, handle):
    work = handle(lambda name: None, database=alias, resource=lambda name: name)
    calls = [("customer:1",), ("customer:2",), ("nobody",)]
    for given in (calls, iter(calls)):
        with pytest.raises(InvalidJob, match=r"^Call 3 of enqueue_many: resource: .* got 'nobody'"):
            work.enqueue_many(given)
    with pytest.raises(InvalidJob, match="resource: expected a name that RESOURCES covers"):
        work.s("nobody")
    assert not BlockedJob.objects.using(alias).exists()


def test_jobs_of_a_resource_that_this_process_does_not_know_stay(alias, resources):
    blocked(alias)
    resources(other={"limit": 1})
    assert look(alias).moved == 0


def test_a_rate_lets_one_job_after_the_other(alias, frozen, resources, form):
    resources(pay_example={"rate": "6/PT1M"})
    blocked(alias, 3)
    result = look(alias)
    assert (result.moved, result.again) == (1, {"pay.example": frozen.now + timedelta(seconds=10)})
    assert look(alias).moved == 0
    frozen.tick(10)
    assert look(alias).moved == 1
    frozen.tick(3600)  # an idle hour is no credit
    blocked(alias, 3)
    assert look(alias).moved == 1


def test_jobs_that_have_expired_use_up_no_rate(alias, frozen, resources, handle, form):
    """They are promoted only to be cancelled: none of them calls what the rate protects."""
    calls = []
    work = handle(calls.append, database=alias, resource="pay.example")
    resources(pay_example={"rate": "1/PT1M"})
    for number in range(3):
        work.using(expires=60).enqueue(number)
    frozen.tick(120)
    for number in (3, 4):
        work.enqueue(number)
    executor = ManualExecutor(using=alias, reraise=False)
    executor.run_until_empty()
    assert (calls, BlockedJob.objects.using(alias).count()) == ([3], 1)
    frozen.tick(60)
    executor.run_until_empty()
    assert (calls, tables_of(alias)) == ([3, 4], {})


@pytest.mark.gate
def test_a_burst(alias, frozen, resources):
    resources(pay_example={"rate": "6/PT1M", "burst": 3})
    blocked(alias, 20)
    moved = []
    for _ in range(240):
        moved.append(look(alias).moved)
        frozen.tick(1)
    assert moved[0] == 3
    assert max(sum(moved[start : start + 60]) for start in range(180)) == 6  # in no minute more


def test_a_fast_rate_needs_no_step_for_each_job(alias, frozen, resources):
    resources(pay_example={"rate": "6000/PT1M"})
    blocked(alias, 50)
    assert look(alias).moved == 10


def test_a_limit_and_a_rate(alias, frozen, resources):
    resources(pay_example={"rate": "60/PT1M", "burst": 10, "limit": 4})
    blocked(alias, 20)
    assert look(alias).moved == 4
    complete_jobs(alias, [(job, a_run(alias)) for job in acquire(alias)])
    assert look(alias).moved == 4
    complete_jobs(alias, [(job, a_run(alias)) for job in acquire(alias)])
    assert look(alias).moved == 2


def test_more_than_a_page(alias):
    blocked(alias, 3, resource="customer:big")
    result = look(alias, limit=2)
    assert (result.moved, result.again) == (2, {"customer:big": None})
    assert look(alias, limit=2).moved == 1


def test_how_many_were_promoted_is_counted(alias):
    blocked(alias, 3)
    look(alias)
    assert Resource.objects.using(alias).get(pk="pay.example").promoted == 2


def test_the_limits_of_operators_win(alias):
    blocked(alias, 5)
    Resource.objects.using(alias).create(name="pay.example", limit=4)
    assert look(alias).moved == 4
    blocked(alias, 3, resource="customer:7")
    Resource.objects.using(alias).create(name="customer:*", limit=2)
    assert look(alias).moved == 2
    Resource.objects.using(alias).filter(name="customer:7").update(limit=0)  # none
    assert look(alias).moved == 1
