"""Exclusive jobs: one owner and one batch at a time for each process instance."""

from datetime import timedelta

import pytest

from jobexec import clock
from jobexec.models import ExclusiveLock, Job
from jobexec.operations import acquire_jobs, complete_jobs, fail_job, release_jobs, trigger_due_timers
from jobexec.operations.rows.exclusive import lock_instances, unlock_all, unlock_instances
from jobexec.operations.values.acquired_job import ServedJobs, batches
from tests.support.factories import LOCK_TIME, a_failure, a_run, acquire, make_job, work

pytestmark = pytest.mark.every_database


def held(alias):
    return dict(ExclusiveLock.objects.using(alias).values_list("process_instance_id", "lock_owner"))


def test_siblings_on_a_page_are_one_batch_in_rank_order(alias, strategy, frozen):
    second, other = make_job(alias, process_instance_id="p"), make_job(alias, process_instance_id="q")
    frozen.tick(1)
    third, first = make_job(alias, process_instance_id="p"), make_job(alias, process_instance_id="p", priority=1)
    loose = [make_job(alias, process_instance_id="p", exclusive=False), make_job(alias), make_job(alias)]
    got = batches(acquire(alias, strategy=strategy))
    assert [[job.id for job in batch] for batch in got if len(batch) > 1] == [[first.pk, second.pk, third.pk]]
    assert sorted(batch[0].id for batch in got if len(batch) == 1) == sorted([other.pk, *(row.pk for row in loose)])
    assert held(alias) == {"p": "one", "q": "one"}


def test_a_later_sibling_waits_for_the_last_outcome_of_the_batch(alias, strategy):
    make_job(alias, process_instance_id="p")
    make_job(alias, process_instance_id="p")
    first, second = acquire(alias, strategy=strategy)
    later = make_job(alias, process_instance_id="p")
    for owner in ("one", "two"):
        assert acquire(alias, owner, strategy=strategy) == []
    complete_jobs(alias, [(first, a_run(alias))])
    assert acquire(alias, "two", strategy=strategy) == []
    assert held(alias) == {"p": "one"}
    complete_jobs(alias, [(second, a_run(alias))])
    assert held(alias) == {}
    assert [job.id for job in acquire(alias, "two", strategy=strategy)] == [later.pk]


def test_jobs_that_are_not_exclusive_are_not_held_up(alias, strategy):
    work(alias, process_instance_id="p")
    free = make_job(alias, process_instance_id="p", exclusive=False)
    assert [job.id for job in acquire(alias, "two", strategy=strategy)] == [free.pk]
    assert make_job(alias).exclusive, "the default"
    make_job(alias)
    assert len(acquire(alias, "two", strategy=strategy)) == 2, "no process instance, nothing to exclude"


def test_locked_instances_do_not_stand_in_the_way_of_others(alias, strategy):
    work(alias, process_instance_id="p")
    for _ in range(5):
        make_job(alias, process_instance_id="p", priority=9)
    free = make_job(alias)
    assert [job.id for job in acquire(alias, "two", limit=2, strategy=strategy)] == [free.pk]


@pytest.mark.parametrize("end", ["fail", "dead letter", "release"])
def test_every_end_gives_the_instance_up(alias, strategy, end):
    job = work(alias, process_instance_id="p")
    sibling = make_job(alias, process_instance_id="p")
    if end == "release":
        release_jobs(alias, [job])
    else:
        fail_job(alias, job, a_failure(kind="fatal" if end == "dead letter" else "error"), a_run(alias))
    assert held(alias) == {}
    assert sibling.pk in {job.id for job in acquire(alias, "two", strategy=strategy)}


def test_an_instance_that_is_locked_between_the_look_and_the_insert_costs_nothing(alias, strategy, monkeypatch):
    """The filter is only a help; the primary key decides."""
    from jobexec.operations.acquire import candidates as module

    rows = [make_job(alias, process_instance_id="p"), make_job(alias, process_instance_id="q"), make_job(alias)]
    read = module._candidates

    def read_and_be_overtaken(*args, **kwargs):
        found = read(*args, **kwargs)
        lock_instances(alias, "two", ["p"])
        return found

    monkeypatch.setattr(module, "_candidates", read_and_be_overtaken)
    result = acquire_jobs(alias, "one", 9, ServedJobs(), lock_time=LOCK_TIME, strategy=strategy)
    assert [job.id for job in result.jobs] == [row.pk for row in rows[1:]]
    assert (result.found, result.blocked, result.lock_failures) == (3, 1, 0)
    left = Job.objects.using(alias).get(pk=rows[0].pk)
    assert (left.lock_owner, left.retries, left.attempts) == (None, 3, 0)
    assert held(alias) == {"p": "two", "q": "one"}
    for job in result.jobs:
        assert job.load().pk == job.id, "the revision in hand is that of the row"


def test_a_lock_row_is_held_by_the_call_that_inserted_it(alias):
    assert lock_instances(alias, "one", {"b", "a"}) == {"a", "b"}
    assert lock_instances(alias, "one", {"b", "c"}) == {"c"}, "also our own earlier call has it"
    assert lock_instances(alias, "two", ["a", "b", "c"]) == set()
    assert lock_instances(alias, "two", []) == set()


def test_only_the_owner_gives_up_and_only_without_siblings(alias):
    job = work(alias, "one", process_instance_id="p")
    lock_instances(alias, "one", ["q"])
    unlock_instances(alias, "two", ["p", "q"])
    unlock_instances(alias, "one", ["p", "q"])
    assert held(alias) == {"p": "one"}
    Job.objects.using(alias).filter(pk=job.id).update(exclusive=False)
    unlock_instances(alias, "one", ["p"])
    assert held(alias) == {}
    lock_instances(alias, "one", ["a", "b"])
    lock_instances(alias, "two", ["c"])
    assert unlock_all(alias, "one") == 2
    assert held(alias) == {"c": "two"}


def test_names_that_differ_only_in_case_are_different_instances(alias, strategy):
    make_job(alias, process_instance_id="Order-1")
    make_job(alias, process_instance_id="order-1")
    jobs = acquire(alias, strategy=strategy)
    assert [[job.process_instance_id for job in batch] for batch in batches(jobs)] == [["Order-1"], ["order-1"]]
    complete_jobs(alias, [(jobs[0], a_run(alias))])
    assert held(alias) == {"order-1": "one"}


def test_the_root_of_process_instances_is_not_looked_at(alias, strategy):
    for instance in ("order-1/a", "order-1/b"):
        make_job(alias, process_instance_id=instance, root_process_instance_id="order-1")
    got = batches(acquire(alias, strategy=strategy))
    assert sorted(batch[0].process_instance_id for batch in got) == ["order-1/a", "order-1/b"]
    assert held(alias) == {"order-1/a": "one", "order-1/b": "one"}


def test_timers_that_came_due_are_exclusive_too(alias, strategy, frozen):
    second, first = (
        make_job(alias, process_instance_id="p", due_date=clock.now(alias) + timedelta(seconds=seconds))
        for seconds in (9, 3)
    )
    message = make_job(alias, process_instance_id="p")
    frozen.tick(10)
    assert trigger_due_timers(alias, 10) == 2
    (batch,) = batches(acquire(alias, strategy=strategy))
    assert [job.id for job in batch] == [message.pk, first.pk, second.pk]
    assert acquire(alias, "two", strategy=strategy) == []


class TestTenants:
    """A process instance belongs to a tenant: its namesakes elsewhere are others."""

    NAMES = (("", "17"), ("acme", "17"), ("globex", "17"), ("a", "b\x1fc"), ("", "x\x1fc"), ("", "c"))

    def rows(self, alias, times=1):
        return {
            name: [make_job(alias, tenant_id=name[0], process_instance_id=name[1]) for _ in range(times)]
            for name in self.NAMES
        }

    def test_namesakes_do_not_wait_for_each_other(self, alias, strategy):
        for tenant, instance in self.NAMES:
            row = make_job(alias, tenant_id=tenant, process_instance_id=instance)
            assert [job.id for job in acquire(alias, f"{tenant} {instance}", strategy=strategy)] == [row.pk]

    def test_siblings_wait_for_those_of_their_tenant(self, alias, strategy):
        for tenant in ("acme", "globex"):
            make_job(alias, tenant_id=tenant, process_instance_id="17")
        acme, globex = acquire(alias, strategy=strategy)
        later = {
            tenant: make_job(alias, tenant_id=tenant, process_instance_id="17").pk for tenant in ("acme", "globex", "")
        }
        assert [job.id for job in acquire(alias, "two", strategy=strategy)] == [later[""]]
        complete_jobs(alias, [(acme, a_run(alias))])
        assert [job.id for job in acquire(alias, "two", strategy=strategy)] == [later["acme"]]
        fail_job(alias, globex, a_failure(kind="fatal"), a_run(alias))
        assert [job.id for job in acquire(alias, "two", strategy=strategy)] == [later["globex"]]

    def test_batches_are_of_one_tenant_and_in_order(self, alias, strategy):
        rows = self.rows(alias, 3)
        got = {batch[0].serial_key: [job.id for job in batch] for batch in batches(acquire(alias, strategy=strategy))}
        assert sorted(got.values()) == sorted([row.pk for row in siblings] for siblings in rows.values())
        assert set(held(alias)) == set(got)

    def test_what_is_still_in_hand_keeps_its_instance(self, alias, strategy):
        self.rows(alias, 2)
        jobs = acquire(alias, strategy=strategy)
        by_key = {job.serial_key: job for job in jobs}
        everything = set(by_key)
        complete_jobs(alias, [(job, a_run(alias)) for job in by_key.values()])
        assert set(held(alias)) == everything, "each has a sibling in hand"
        last = by_key["acme\x1f17"].id
        release_jobs(alias, [job for job in jobs if job.serial_key == "acme\x1f17" and job.id != last])
        assert set(held(alias)) == everything - {"acme\x1f17"}

    def test_what_a_page_takes_is_in_turn_for_its_tenant(self, alias, strategy):
        first = make_job(alias, tenant_id="acme", process_instance_id="17", priority=1)
        make_job(alias, tenant_id="globex", process_instance_id="17")
        job = acquire(alias, limit=1, strategy=strategy)[0]
        assert job.id == first.pk
        assert len(acquire(alias, "two", strategy=strategy)) == 1, "a namesake in front of it is none of its siblings"
