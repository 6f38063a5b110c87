"""Sweeps of suspensions that are killed, that several nodes do at once, and beside people who change their minds."""

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError, connections

from jobexec import clock
from jobexec.clock import FrozenClock
from jobexec.models import Job, SuspendedJob, Suspension, TimerJob
from jobexec.operations import activate, fail_job, release_jobs, suspend, sweep_suspensions, trigger_due_timers
from jobexec.operations.manage import suspension_sweep
from jobexec.operations.sql.errors import is_conflict
from tests.support.factories import a_failure, a_run, acquire, make_job, make_row, table_of, tables_of
from tests.support.machines.killed import Killed, killed_at
from tests.support.threads import finish, held, start, together, wait_until_waiting

pytestmark = pytest.mark.transactional
slow = pytest.mark.slow
servers = pytest.mark.databases("postgresql", "mariadb")

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOON, LATER = NOW + timedelta(hours=1), NOW + timedelta(hours=2)


@pytest.fixture(autouse=True)
def frozen():
    with FrozenClock(NOW) as frozen:
        yield frozen


@contextmanager
def killed_before(alias, number):
    """Whoever sends the statement of this number is killed before it arrives, with all that is not committed."""
    reached = True
    with killed_at(alias, number):
        try:
            yield lambda: reached
            reached = False
        except Killed:
            pass
    if reached:
        connections[alias].close()


def every_kill(alias, prepare, act, check):
    """Do it again and again, killed before its first statement, its second, ... until it comes to its end."""
    for number in range(1, 1000):
        for table in (Job, TimerJob, SuspendedJob, Suspension):
            table.objects.using(alias).all().delete()
        jobs = prepare()
        with killed_before(alias, number) as was_killed:
            act(*jobs)
        check(*jobs)
        if not was_killed():
            assert number > 5
            return
    raise AssertionError("it never ends")


def a_due_one_and_a_timer(alias, **columns):
    return make_job(alias, tenant_id="x", **columns), make_job(alias, tenant_id="x", due_date=NOW + timedelta(days=1))


@slow
def test_a_sweep_that_begins_is_killed_anywhere(alias, monkeypatch, frozen):
    monkeypatch.setattr(suspension_sweep, "_PAGE", 1)
    frozen.tick(SOON - NOW)

    def prepare():
        Suspension.objects.using(alias).create(
            scope="tenant_id", value="x", suspend_time=SOON, activate_time=LATER, swept=False
        )
        return a_due_one_and_a_timer(alias)

    def check(due, timer):
        assert acquire(alias) == []
        sweep_suspensions(alias)
        assert tables_of(alias) == {due.pk: [SuspendedJob], timer.pk: [SuspendedJob]}
        assert Suspension.objects.using(alias).get().swept

    every_kill(alias, prepare, lambda *jobs: sweep_suspensions(alias), check)


@pytest.mark.nightly
@slow
def test_a_sweep_that_ends_is_killed_anywhere(alias, monkeypatch, frozen):
    monkeypatch.setattr(suspension_sweep, "_PAGE", 1)

    def prepare():
        jobs = a_due_one_and_a_timer(alias)
        Suspension.objects.using(alias).create(scope="tenant_id", value="x", activate_time=SOON, swept=False)
        with FrozenClock(NOW):
            assert sweep_suspensions(alias) == 2
        return jobs

    def check(due, timer):
        sweep_suspensions(alias)
        assert tables_of(alias) == {due.pk: [Job], timer.pk: [TimerJob]}
        assert not Suspension.objects.using(alias).exists()

    frozen.tick(SOON - NOW)
    every_kill(alias, prepare, lambda *jobs: sweep_suspensions(alias), check)


@slow
def test_who_activates_is_killed_anywhere(alias, monkeypatch):
    monkeypatch.setattr(suspension_sweep, "_PAGE", 1)

    def prepare():
        jobs = a_due_one_and_a_timer(alias)
        assert suspend(tenant_id="x", using=alias) == 2
        return jobs

    def check(due, timer):
        sweep_suspensions(alias)
        if Suspension.objects.using(alias).exists():  # killed before it said anything
            assert tables_of(alias) == {due.pk: [SuspendedJob], timer.pk: [SuspendedJob]}
            assert activate(tenant_id="x", using=alias) == 2
        assert tables_of(alias) == {due.pk: [Job], timer.pk: [TimerJob]}
        assert not Suspension.objects.using(alias).exists()

    every_kill(alias, prepare, lambda *jobs: activate(tenant_id="x", using=alias), check)


@slow
def test_who_suspends_is_killed_anywhere(alias, monkeypatch):
    monkeypatch.setattr(suspension_sweep, "_PAGE", 1)

    def check(due, timer):
        moved = sweep_suspensions(alias)
        if not Suspension.objects.using(alias).exists():
            assert (moved, tables_of(alias)) == (0, {due.pk: [Job], timer.pk: [TimerJob]})
        else:
            assert tables_of(alias) == {due.pk: [SuspendedJob], timer.pk: [SuspendedJob]}

    every_kill(alias, lambda: a_due_one_and_a_timer(alias), lambda *jobs: suspend(tenant_id="x", using=alias), check)


@pytest.mark.nightly
@slow
def test_a_sweep_over_single_jobs_is_killed_anywhere(alias, frozen):
    def prepare():
        jobs = a_due_one_and_a_timer(alias)
        for job, end in zip(jobs, (None, LATER), strict=True):
            dates = {"suspend_time": SOON, "activate_time": end, "swept": False}
            Suspension.objects.using(alias).create(scope="id", value=str(job.pk), **dates)
        return jobs

    def check(due, timer):
        assert acquire(alias) == []
        sweep_suspensions(alias)
        assert tables_of(alias) == {due.pk: [SuspendedJob], timer.pk: [SuspendedJob]}
        assert SuspendedJob.objects.using(alias).get(pk=due.pk).suspend_requested
        assert Suspension.objects.using(alias).get().value == str(timer.pk)

    frozen.tick(SOON - NOW)
    every_kill(alias, prepare, lambda *jobs: sweep_suspensions(alias), check)


@pytest.mark.gate
def test_several_nodes_sweep_at_once(alias, monkeypatch, frozen):
    monkeypatch.setattr(suspension_sweep, "_PAGE", 2)
    jobs = [make_job(alias, tenant_id="x") for _ in range(9)]
    single = make_job(alias)
    suspend(tenant_id="x", at=SOON, until=LATER, using=alias)
    suspend(single, at=SOON, until=LATER, using=alias)
    frozen.tick(SOON - NOW)
    moved = together(alias, *[lambda: sweep_until_done(alias)] * 3)
    assert sum(moved) == 10
    assert {table_of(alias, job) for job in [*jobs, single]} == {SuspendedJob}
    frozen.tick(LATER - SOON)
    moved = together(alias, *[lambda: sweep_until_done(alias)] * 3)
    assert sum(moved) == 10
    assert {table_of(alias, job) for job in [*jobs, single]} == {Job}
    assert not Suspension.objects.using(alias).exists()


def sweep_until_done(alias):
    """As the loop does: a conflict of the database costs a round, and what was passed over is met again."""
    count = 0
    while Suspension.objects.using(alias).exclude(live=True, swept=True).exists() or _over(alias):
        try:
            count += sweep_suspensions(alias)
        except Exception as error:
            if not is_conflict(error):
                raise
    return count


def _over(alias):
    return Suspension.objects.using(alias).filter(activate_time__lte=clock.now(alias)).exists()


@servers
def test_a_row_that_was_passed_over_when_it_ended_is_found_by_the_next_sweep(alias, frozen):
    busy, free = make_job(alias, tenant_id="x"), make_job(alias, tenant_id="x")
    suspend(tenant_id="x", until=SOON, using=alias)
    frozen.tick(SOON - NOW)
    with held(alias) as inside:
        inside(lambda: SuspendedJob.objects.using(alias).select_for_update().get(pk=busy.pk))
        assert sweep_suspensions(alias) == 1
        assert tables_of(alias) == {busy.pk: [SuspendedJob], free.pk: [Job]}
        assert Suspension.objects.using(alias).get().live is None, "it holds nothing, but is still to be finished"
        assert {job.id for job in acquire(alias)} == {free.pk}
    assert sweep_suspensions(alias) == 1
    assert table_of(alias, busy) is Job
    assert not Suspension.objects.using(alias).exists()


@servers
def test_who_lifts_it_while_a_sweep_is_under_way_leaves_nothing_behind(alias, monkeypatch):
    """The walk that moves jobs away must not go on when the walk that brings them back has passed."""
    monkeypatch.setattr(suspension_sweep, "_PAGE", 1)
    jobs = [make_job(alias, tenant_id="x") for _ in range(3)]
    real, lifted = suspension_sweep.lock_rows, []

    def lift_after_the_first_page(rows, **how):
        if not lifted and SuspendedJob.objects.using(alias).exists():
            lifted.append(None)
            lifted.append(finish(start(alias, lambda: activate(tenant_id="x", using=alias))))
        return real(rows, **how)

    monkeypatch.setattr(suspension_sweep, "lock_rows", lift_after_the_first_page)
    assert suspend(tenant_id="x", using=alias) == 1
    assert lifted == [None, 1]
    assert {table_of(alias, job) for job in jobs} == {Job}


@servers
def test_the_end_waits_for_somebody_who_still_thinks_that_it_is_in_force(alias, frozen):
    """Clocks differ: who moves a job away holds the suspension, and the sweep that ends it comes after him."""
    make_job(alias, tenant_id="x")
    Suspension.objects.using(alias).create(scope="tenant_id", value="x", activate_time=SOON)
    with held(alias) as inside:
        assert inside(lambda: acquire(alias)) == []
        frozen.tick(SOON - NOW)
        other = start(alias, lambda: sweep_suspensions(alias))
        wait_until_waiting(alias, other)
    assert finish(other) == 1
    assert list(tables_of(alias).values()) == [[Job]]


@servers
def test_two_people_suspend_the_same_at_once(alias):
    jobs = [make_job(alias, tenant_id="x") for _ in range(3)]
    dates = [LATER, None]
    together(alias, *[lambda until=until: suspend(tenant_id="x", until=until, using=alias) for until in dates])
    assert Suspension.objects.using(alias).get().activate_time in dates
    assert {table_of(alias, job) for job in jobs} == {SuspendedJob}


@slow
def test_dates_that_come_and_go_under_acquirers_timers_and_sweeps(alias, frozen):
    """Nothing is acquired while it holds, and when all is over nothing is left behind."""
    rows = [make_job(alias, tenant_id="x", retries=100_000) for _ in range(6)]
    for _ in range(6):
        rows.append(make_row(TimerJob, alias, tenant_id="x", retries=100_000, due_date=clock.now(alias)))
    over = []

    def dates():
        try:
            for _ in range(6):
                come_and_go(alias, frozen)
        finally:
            over.append(True)

    def until_over(function, *arguments):
        while not over:
            tolerating_conflicts(function, *arguments)

    together(
        alias,
        dates,
        *[lambda owner=owner: until_over(work_once, alias, owner) for owner in ("one", "two")],
        *[lambda: until_over(sweep_suspensions, alias)] * 2,
    )
    sweep_until_done(alias)
    tables = tables_of(alias)
    assert set(tables) == {row.pk for row in rows}
    assert all(len(found) == 1 and found != [SuspendedJob] for found in tables.values()), tables
    assert not Suspension.objects.using(alias).exists()


def come_and_go(alias, frozen):
    at = clock.now(alias) + timedelta(seconds=1)
    dates = {"at": at, "until": at + timedelta(seconds=1)}
    while tolerating_conflicts(lambda: suspend(tenant_id="x", **dates, using=alias)) is None:
        pass
    frozen.tick(1)
    assert tolerating_conflicts(acquire, alias, "checker") in ([], None)
    frozen.tick(1)


def work_once(alias, owner):
    jobs = acquire(alias, owner, 3)
    for job in jobs[1:]:
        fail_job(alias, job, a_failure(retry_at=clock.now(alias) - timedelta(seconds=1)), a_run(alias))
    release_jobs(alias, jobs[:1])
    trigger_due_timers(alias, 2)


def tolerating_conflicts(function, *arguments):
    """What the function returns; None after a deadlock of InnoDB or a busy SQLite, for which loops go on."""
    try:
        return function(*arguments)
    except OperationalError as error:
        if not is_conflict(error):
            raise
        return None
