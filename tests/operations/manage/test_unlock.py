"""Unlocking by hand: only what nobody living holds, and as recovery would do it."""

from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest

from jobexec import clock
from jobexec.models import DeadLetterJob, ExclusiveLock, ExecutorNode, Job, NodeState, SuspendedJob, TimerJob
from jobexec.operations import complete_jobs, recover_node, unlock
from jobexec.operations.nodes.leases import renew_lease
from jobexec.operations.settle.recover import mark_suspect_started
from jobexec.operations.sql import server_time
from tests.support.factories import LEASE_TIME, a_run, acquire, make_job, make_node, make_row, reload, table_of, work

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def refusal(alias, job):
    """Why it was not unlocked."""
    result = unlock(job.id, using=alias)
    assert not result.changed
    assert reload(alias, job).locked
    return result.skipped[job.id]


def test_of_a_living_node_it_is_refused_with_the_reason(alias, frozen):
    node = make_node(alias, "a")
    job = work(alias, node.lock_owner)
    frozen.tick(LEASE_TIME)
    assert refusal(alias, job) == f"node a holds it and is alive: lease valid until {NOW + LEASE_TIME}"
    assert complete_jobs(alias, [(job, a_run(alias))]) == {job.id}


def test_of_a_node_whose_lease_has_run_out(alias, frozen):
    node = make_node(alias)
    job, other = [work(alias, node.lock_owner, process_instance_id=name) for name in "pq"]
    frozen.tick(LEASE_TIME + timedelta(seconds=1))
    assert unlock(job.id, using=alias).changed == [job.id]
    row = Job.objects.using(alias).get(pk=job.id)
    assert (row.lock_owner, row.lock_expiration_time, row.lost_runs, row.retries) == (None, None, 1, 3)
    assert list(ExclusiveLock.objects.using(alias).values_list("process_instance_id", flat=True)) == ["q"]
    assert reload(alias, other).locked, "that is for recovery, or for another word"
    assert complete_jobs(alias, [(job, a_run(alias))]) == set(), "the outcome of the old run does not count"
    assert [again.id for again in acquire(alias, "two")] == [job.id]


def test_its_node_is_declared_dead_so_that_no_heartbeat_makes_its_lock_good_again(alias, frozen):
    node = make_node(alias)
    job = work(alias, node.lock_owner)
    frozen.tick(MINUTE)
    unlock(job.id, using=alias)
    assert ExecutorNode.objects.using(alias).get().state == NodeState.DEAD
    assert renew_lease(alias, node, LEASE_TIME) is None
    recover_node(alias, node)
    assert reload(alias, job).lost_runs == 1, "counted once"


def test_of_a_node_that_is_declared_dead_and_of_one_that_has_no_row(alias, frozen):
    dead, gone = make_node(alias, "dead"), None
    if alias != "default":  # SQLite has one node
        gone = make_node(alias, "gone")
    jobs = [work(alias, node.lock_owner) for node in (dead, gone) if node]
    ExecutorNode.objects.using(alias).filter(pk=dead.pk).update(state=NodeState.DEAD)
    if gone:
        ExecutorNode.objects.using(alias).filter(pk=gone.pk).delete()
        Job.objects.using(alias).filter(lock_owner=gone.lock_owner).update(lock_expiration_time=NOW)
    assert unlock([job.id for job in jobs], using=alias).changed == [job.id for job in jobs]


def test_a_node_that_comes_back_at_this_moment_keeps_its_jobs(alias, frozen, monkeypatch):
    module = import_module("jobexec.operations.manage.unlock")
    recover_job = module.recover_job
    node = make_node(alias)
    job = work(alias, node.lock_owner)
    frozen.tick(MINUTE)

    def come_back(*arguments):
        assert renew_lease(alias, node, LEASE_TIME)
        return recover_job(*arguments)

    monkeypatch.setattr(module, "recover_job", come_back)
    assert refusal(alias, job) == "node node has just come back"
    assert reload(alias, job).lost_runs == 0
    assert complete_jobs(alias, [(job, a_run(alias))]) == {job.id}


def test_a_lock_without_a_node_is_good_until_it_expires(alias, frozen):
    job = work(alias, "execute now:1")
    assert "is locked by 'execute now:1', which has no node, until" in refusal(alias, job)
    frozen.tick(timedelta(minutes=6))
    assert unlock(job.id, using=alias)
    assert not reload(alias, job).locked


@pytest.mark.parametrize("owner", ["somebody", ""])
def test_a_lock_that_says_no_time_is_freed(alias, owner):
    row = make_row(Job, alias, lock_owner=owner)
    assert unlock(row, using=alias)
    assert not reload(alias, row).locked


@pytest.mark.parametrize("table", [TimerJob, SuspendedJob, DeadLetterJob])
def test_a_lock_in_a_table_whose_jobs_nobody_runs_is_freed(alias, table):
    row = make_row(table, alias, lock_owner="x", lock_expiration_time=NOW + MINUTE, revision=5)
    assert unlock(row, using=alias)
    after = reload(alias, row)
    assert (type(after), after.lock_owner, after.lock_expiration_time) == (table, None, None)
    assert (after.revision, after.lost_runs) == (5, 0)


def test_what_is_not_locked(alias):
    row = make_job(alias)
    assert unlock(row, using=alias).skipped == {row.pk: "it is not locked"}


def test_one_that_kills_its_process_is_charged_as_by_recovery(alias, frozen):
    node = make_node(alias)
    job = work(alias, node.lock_owner, retries=1)
    Job.objects.using(alias).filter(pk=job.id).update(lost_runs=2)
    mark_suspect_started(job)
    frozen.tick(MINUTE)
    assert unlock(job.id, using=alias).changed == [job.id]
    assert table_of(alias, job) is DeadLetterJob


def test_the_time_of_the_database_counts_and_not_that_of_this_process(alias, frozen, monkeypatch):
    node = make_node(alias)
    job = work(alias, node.lock_owner)
    frozen.tick(MINUTE)
    monkeypatch.setattr(clock, "is_frozen", lambda: False)
    monkeypatch.setattr(server_time, "database_time", lambda using: NOW)
    assert "alive" in refusal(alias, job)
    monkeypatch.setattr(server_time, "database_time", lambda using: None)
    assert unlock(job.id, using=alias), "on SQLite it is this machine's"
