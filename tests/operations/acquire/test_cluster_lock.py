"""The global acquire lock: one acquirer at a time, taken over after a while, fenced, freed only by its holder."""

from datetime import timedelta

import pytest
from django.db import transaction

from jobexec.models import AcquisitionLock, ExecutorNode
from jobexec.operations import recover_node
from jobexec.operations.acquire import acquire
from jobexec.operations.acquire.acquire import acquire_jobs
from jobexec.operations.nodes import cluster_lock
from jobexec.operations.nodes.leases import NodeProfile, register_node
from jobexec.operations.settle.recover import release_owned
from jobexec.operations.values.acquired_job import ServedJobs
from tests.support.factories import locked_ids, make_job

pytestmark = pytest.mark.every_database

MINUTE = timedelta(minutes=1)


def acquire_under_lock(alias, owner, limit=10):
    return acquire_jobs(
        alias, owner, limit, ServedJobs(), lock_time=timedelta(minutes=5), strategy="global_lock", force_after=MINUTE
    )


def confirmed(alias, owner, token):
    with transaction.atomic(alias):
        return cluster_lock.confirm(alias, owner, token)


def lock(alias):
    return AcquisitionLock.objects.using(alias).get()


def test_the_first_one_makes_the_row(alias):
    assert cluster_lock.take(alias, "a", MINUTE) == 1
    row = lock(alias)
    assert (row.name, row.lock_owner, row.token) == ("acquire-jobs", "a", 1)


def test_one_has_it_until_he_frees_it(alias):
    token = cluster_lock.take(alias, "a", MINUTE)
    assert cluster_lock.take(alias, "b", MINUTE) is None
    assert cluster_lock.release(alias, "a", token)
    assert lock(alias).lock_owner is None
    assert cluster_lock.take(alias, "b", MINUTE) == token + 1


def test_the_holder_himself_may_take_it_again(alias):
    """After an error he cannot know whether it was freed."""
    first = cluster_lock.take(alias, "a", MINUTE)
    second = cluster_lock.take(alias, "a", MINUTE)
    assert second == first + 1
    assert not confirmed(alias, "a", first)
    assert confirmed(alias, "a", second)


def test_it_is_taken_over_after_a_while(alias, frozen, caplog):
    old = cluster_lock.take(alias, "a", MINUTE)
    frozen.tick(59)
    assert cluster_lock.take(alias, "b", MINUTE) is None
    frozen.tick(1)
    new = cluster_lock.take(alias, "b", MINUTE)
    assert new == old + 1
    assert "from a, which has held it too long" in caplog.text
    assert not confirmed(alias, "a", old), "the fence"
    assert not cluster_lock.release(alias, "a", old), "and the successor's lock is not freed"
    assert lock(alias).lock_owner == "b"


def test_fractions_of_a_second_count(alias, frozen):
    for _ in range(2):  # the first time makes the row
        token = cluster_lock.take(alias, "a", timedelta(milliseconds=500))
        assert token
        frozen.tick(0.4)
        assert cluster_lock.take(alias, "b", MINUTE) is None, "not rounded down to nothing"
        frozen.tick(0.1)
        token = cluster_lock.take(alias, "b", MINUTE)
        assert token
        assert cluster_lock.release(alias, "b", token)


def test_who_does_not_have_it_frees_nothing(alias):
    assert not cluster_lock.release(alias, "a", 1), "there is not even a row"
    token = cluster_lock.take(alias, "a", MINUTE)
    assert not cluster_lock.release(alias, "b", token)
    cluster_lock.release_of(alias, "b")
    assert confirmed(alias, "a", token)


def test_acquires_and_frees(alias):
    ids = {make_job(alias).pk for _ in range(3)}
    result = acquire_under_lock(alias, "a")
    assert {job.id for job in result.jobs} == ids == locked_ids(alias)
    assert not result.lock_taken
    assert lock(alias).lock_owner is None


def test_acquires_nothing_while_another_has_it(alias):
    make_job(alias)
    cluster_lock.take(alias, "a", MINUTE)
    result = acquire_under_lock(alias, "b")
    assert (result.jobs, result.found, result.lock_taken) == ([], 0, True)
    assert locked_ids(alias) == set()


def test_one_who_stalled_acquires_nothing(alias, frozen, monkeypatch):
    """Between taking the lock and using it the holder is paused for longer than others wait."""
    make_job(alias)
    take = cluster_lock.take

    def stalled(using, owner, force_after):
        token = take(using, owner, force_after)
        frozen.tick(120)
        assert take(using, "b", force_after) == token + 1
        return token

    monkeypatch.setattr(acquire.cluster_lock, "take", stalled)
    result = acquire_under_lock(alias, "a")
    assert (result.jobs, result.lock_taken) == ([], True)
    assert locked_ids(alias) == set()
    assert lock(alias).lock_owner == "b"


@pytest.mark.transactional
def test_an_error_frees_it(alias, monkeypatch):
    def fail(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr(acquire, "_acquire", fail)
    with pytest.raises(ZeroDivisionError):
        acquire_under_lock(alias, "a")
    assert lock(alias).lock_owner is None


def test_a_dead_holder_frees_it_with_the_recovery(alias):
    node = register_node(alias, NodeProfile(name="here", threads=1, queue_size=1), timedelta(seconds=30))
    cluster_lock.take(alias, node.lock_owner, MINUTE)
    recover_node(alias, node)
    assert lock(alias).lock_owner is None
    assert not ExecutorNode.objects.using(alias).exists()


def test_so_does_one_who_leaves(alias):
    cluster_lock.take(alias, "a", MINUTE)
    release_owned(alias, "a")
    assert lock(alias).lock_owner is None
