"""Suspending and activating beside acquirers: nothing runs that is suspended, nothing stays suspended for good."""

import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import OperationalError

from jobexec import clock
from jobexec.models import Job, SuspendedJob, Suspension, TimerJob
from jobexec.operations import activate, fail_job, release_jobs, suspend, trigger_due_timers
from jobexec.operations.sql.errors import is_conflict
from tests.support.factories import a_failure, a_run, acquire, make_job, make_row, tables_of, work
from tests.support.threads import finish, held, start, together, wait_until_waiting

pytestmark = pytest.mark.transactional
servers = pytest.mark.databases("postgresql", "mariadb")


@servers
def test_suspending_passes_over_what_is_just_being_acquired(alias, strategy):
    running, later = make_job(alias, tenant_id="t"), make_job(alias, tenant_id="t")
    with held(alias) as inside:
        assert [job.id for job in inside(lambda: acquire(alias, "one", 1, strategy=strategy))] == [running.pk]
        assert finish(start(alias, lambda: suspend(tenant_id="t", using=alias))) == 1
    assert tables_of(alias) == {running.pk: [Job], later.pk: [SuspendedJob]}, "what runs finishes"
    assert acquire(alias, "two", strategy=strategy) == []


@contextmanager
def suppress_deadlocks_of_innodb(alias):
    """InnoDB keeps index entries of rows that it passed over locked, which no order of ours can help; loops go on."""
    try:
        yield
    except OperationalError as error:
        if not (alias == "mariadb" and is_conflict(error)):
            raise


def lifted_while(alias, move_covered, expected):
    """Activation waits for somebody who is just moving a covered row, and then finds that row."""
    Suspension.objects.using(alias).create(scope="tenant_id", value="t")
    with held(alias) as inside:
        inside(move_covered)
        other = start(alias, lambda: activate(tenant_id="t", using=alias))
        wait_until_waiting(alias, other)
    assert finish(other) == 1
    assert list(tables_of(alias).values()) == [[expected]]


@servers
def test_activating_waits_for_an_acquirer_that_moves_a_row_away(alias, strategy):
    make_job(alias, tenant_id="t")
    lifted_while(alias, lambda: acquire(alias, strategy=strategy), Job)


@servers
def test_activating_waits_for_a_timer_that_comes_due(alias):
    make_row(TimerJob, alias, tenant_id="t", due_date=clock.now(alias))
    lifted_while(alias, lambda: trigger_due_timers(alias, 5), Job)


@servers
def test_activating_waits_for_a_failure(alias):
    job = work(alias, tenant_id="t")
    lifted_while(alias, lambda: fail_job(alias, job, a_failure(), a_run(alias)), TimerJob)


@servers
@pytest.mark.parametrize("verb", ["acquire", "timers", "fail"])
def test_a_suspension_that_is_lifted_between_look_and_move_does_not_hold(alias, verb, monkeypatch):
    """Without the look under lock the row would be suspended for good: the sweep of the activation is over."""
    from jobexec.operations.rows import suspension_cover

    job = work(alias, tenant_id="t")
    if verb == "acquire":
        release_jobs(alias, [job])
    elif verb == "timers":
        Job.objects.using(alias).all().delete()
        make_row(TimerJob, alias, tenant_id="t", due_date=clock.now(alias))
    Suspension.objects.using(alias).create(scope="tenant_id", value="t")
    look = suspension_cover.Suspensions.held.__func__

    def lift_and_look(cls, using, jobs):
        monkeypatch.undo()
        finish(start(alias, lambda: activate(tenant_id="t", using=alias)))
        return look(cls, using, jobs)

    monkeypatch.setattr(suspension_cover.Suspensions, "held", classmethod(lift_and_look))
    if verb == "acquire":
        acquire(alias)
        assert len(acquire(alias)) <= 1
    elif verb == "timers":
        trigger_due_timers(alias, 5)
    else:
        fail_job(alias, job, a_failure(), a_run(alias))
    assert not SuspendedJob.objects.using(alias).exists()


@servers
def test_suspending_one_that_is_just_being_acquired_waits_and_marks_it(alias):
    row = make_job(alias)
    with held(alias) as inside:
        (job,) = inside(lambda: acquire(alias, "one"))
        other = start(alias, lambda: suspend(row, using=alias))
        wait_until_waiting(alias, other)
    assert finish(other).changed == [row.pk]
    assert type(fail_job(alias, job, a_failure(), a_run(alias))) is SuspendedJob


@pytest.mark.slow
def test_nothing_is_acquired_once_the_suspension_is_there_and_nothing_is_left_behind(alias, strategy):
    rows = [make_job(alias, tenant_id="t") for _ in range(6)]
    rows += [make_row(TimerJob, alias, tenant_id="t", due_date=clock.now(alias)) for _ in range(6)]
    over = []

    def switch():
        try:
            for _ in range(6):
                suspend(tenant_id="t", using=alias)
                with suppress_deadlocks_of_innodb(alias):
                    assert acquire(alias, "checker", strategy=strategy) == []
                activate(tenant_id="t", using=alias)
        finally:
            over.append(True)

    def worker(owner):
        breath = threading.Event()
        while not over:
            with suppress_deadlocks_of_innodb(alias):
                work_once(owner)
            # Who waits for SQLite's lock looks for it now and then: loops that never pause would starve the others.
            breath.wait(0.005 if alias == "default" else 0)

    def work_once(owner):
        jobs = acquire(alias, owner, 3, strategy=strategy)
        for job in jobs[1:]:
            fail_job(alias, job, a_failure(retry_at=clock.now(alias) - timedelta(seconds=1)), a_run(alias))
        release_jobs(alias, jobs[:1])
        trigger_due_timers(alias, 2)

    Job.objects.using(alias).update(retries=100_000)
    TimerJob.objects.using(alias).update(retries=100_000)
    together(alias, switch, lambda: worker("one"), lambda: worker("two"))
    tables = tables_of(alias)
    assert set(tables) == {row.pk for row in rows}
    assert all(len(found) == 1 and found != [SuspendedJob] for found in tables.values()), tables
