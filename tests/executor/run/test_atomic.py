"""Atomic jobs: the handler's effects and the end of the job are one transaction."""

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, connections, transaction

from jobexec import signals
from jobexec.models import ExclusiveLock, Job, JobLog, TimerJob
from tests.support.executor import run_one
from tests.support.factories import make_job, tables_of
from tests.support.threads import finish, start

pytestmark = pytest.mark.transactional


def names(alias):
    return sorted(group.name for group in Group.objects.using(alias).all())


def test_effects_and_the_end_of_the_job_are_committed_together(alias, handle):
    seen = []

    def work():
        assert connections[alias].in_atomic_block
        Group.objects.using(alias).create(name="effect")
        transaction.on_commit(lambda: seen.append(Job.objects.using(alias).count()), using=alias)

    handle(work, name="tests.work")
    make_job(alias, handler_type="tests.work", atomic=True, process_instance_id="order-1")
    host = run_one(alias)
    assert (names(alias), seen, tables_of(alias)) == (["effect"], [0], {})
    assert JobLog.objects.using(alias).get().state == "successful"
    assert not ExclusiveLock.objects.using(alias).exists()
    assert host.outcomes == [], "the settlement has nothing to do"


def test_a_failure_rolls_the_effects_back_and_is_recorded(alias, handle):
    def work():
        Group.objects.using(alias).create(name="effect")
        raise ValueError("no")

    handle(work, name="tests.work")
    make_job(alias, handler_type="tests.work", atomic=True)
    run_one(alias)
    assert names(alias) == []
    assert TimerJob.objects.using(alias).get().exception_message == "ValueError: no"


@pytest.mark.parametrize("change", [{"revision": 99}, {"lock_owner": "another"}])
def test_a_lost_lock_rolls_the_effects_back(alias, handle, change):
    def work():
        Group.objects.using(alias).create(name="effect")
        Job.objects.using(alias).update(**change)

    handle(work, name="tests.work")
    make_job(alias, handler_type="tests.work", atomic=True)
    host = run_one(alias)
    assert names(alias) == []
    assert "LockLost" in host.outcomes[0].failure.message


@pytest.mark.databases("postgresql", "mariadb")  # on SQLite nobody can write beside an atomic job
def test_a_lock_that_is_lost_for_good_leaves_the_job_to_its_new_owner(alias, handle):
    def take_over():
        Job.objects.using(alias).update(lock_owner="another", revision=9)

    def work():
        finish(start(alias, take_over))
        Group.objects.using(alias).create(name="effect")

    handle(work, name="tests.work")
    make_job(alias, handler_type="tests.work", atomic=True)
    host = run_one(alias)
    row = Job.objects.using(alias).get()
    assert (row.lock_owner, row.retries, names(alias), host.outcomes[0].counted) == ("another", 3, [], False)


def test_an_error_in_a_hook_on_the_commit_is_logged_and_no_failure(alias, handle, caplog):
    def work():
        Group.objects.using(alias).create(name="effect")
        transaction.on_commit(lambda: 1 / 0, using=alias)

    handle(work, name="tests.work")
    make_job(alias, handler_type="tests.work", atomic=True)
    host = run_one(alias)
    assert (names(alias), tables_of(alias), host.outcomes) == (["effect"], {}, [])
    assert "a hook on its commit failed" in caplog.text


def test_a_commit_that_fails_is_a_failure(alias, handle, monkeypatch):
    connection_class = type(connections[alias])
    commit = connection_class._commit

    def fail_once(connection):
        monkeypatch.setattr(connection_class, "_commit", commit)
        raise IntegrityError("a deferred constraint")

    def work():
        Group.objects.using(alias).create(name="effect")
        monkeypatch.setattr(connection_class, "_commit", fail_once)

    handle(work, name="tests.work")
    make_job(alias, handler_type="tests.work", atomic=True)
    run_one(alias)
    assert names(alias) == []
    assert TimerJob.objects.using(alias).get().exception_message == "IntegrityError: a deferred constraint"


def test_what_an_atomic_job_enqueues_comes_and_goes_with_it(alias, handle):
    def work():
        make_job(alias, handler_type="tests.next")
        raise ValueError("no")

    handle(work, name="tests.work")
    make_job(alias, handler_type="tests.work", atomic=True)
    run_one(alias)
    assert not Job.objects.using(alias).exists()


def test_async_atomic_jobs_write_in_the_same_transaction(alias, handle):
    async def work():
        await Group.objects.using(alias).acreate(name="effect")
        raise ValueError("no")

    handle(work, name="tests.work")
    make_job(alias, handler_type="tests.work", atomic=True)
    run_one(alias)
    assert names(alias) == []


def test_its_end_is_announced_after_the_commit(alias, handle):
    heard = []

    def hear(sender, using, jobs, **kwargs):
        heard.append((using, [job.handler_type for job in jobs], Job.objects.using(alias).count()))

    signals.job_completed.connect(hear)
    try:
        handle(lambda: None, name="tests.work")
        make_job(alias, handler_type="tests.work", atomic=True)
        run_one(alias)
    finally:
        signals.job_completed.disconnect(hear)
    assert heard == [(alias, ["tests.work"], 0)]
