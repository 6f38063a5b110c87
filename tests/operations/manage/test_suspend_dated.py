"""Suspensions with dates: in force by the time alone, swept by anybody, and nothing stays behind."""

from datetime import UTC, datetime, timedelta

import pytest

from jobexec import clock
from jobexec.exceptions import InvalidJob
from jobexec.models import DeadLetterJob, Job, SuspendedJob, Suspension, SuspensionScope, TimerJob
from jobexec.models.suspension import columns_of
from jobexec.operations import (
    activate,
    complete_jobs,
    delete_jobs,
    fail_job,
    lift,
    next_suspension_date,
    release_jobs,
    requeue,
    suspend,
    sweep_suspensions,
    trigger_due_timers,
)
from jobexec.operations.rows import suspension_cover
from tests.support.factories import a_failure, a_run, acquire, make_job, make_row, reload, table_of, tables_of, work

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOON, LATER = NOW + timedelta(hours=1), NOW + timedelta(hours=2)
SECOND = timedelta(seconds=1)
scopes = pytest.mark.parametrize("scope", SuspensionScope.values)


@pytest.fixture(autouse=True)
def categories(configure):
    configure(CATEGORIES=("default", "x", "y"))


def target_of(scope, job):
    """The arguments that mean the scope in which the job is."""
    return {"target": job.pk} if scope == SuspensionScope.JOB else dict.fromkeys(columns_of(scope), "x")


def taken(alias):
    return {job.id for job in acquire(alias)}


def only(alias):
    return Suspension.objects.using(alias).get()


@scopes
@pytest.mark.parametrize("swept", [True, False], ids=["swept", "nobody sweeps"])
def test_it_holds_from_the_one_date_to_the_other(alias, scope, swept, frozen):
    columns = {} if scope == SuspensionScope.JOB else dict.fromkeys(columns_of(scope), "x")
    job, other = make_job(alias, **columns), make_job(alias)

    def sweep():
        if swept:
            sweep_suspensions(alias)

    suspend(**target_of(scope, job), at=SOON, until=LATER, using=alias)
    frozen.tick(SOON - NOW - SECOND)
    sweep()
    jobs = acquire(alias)
    assert {one.id for one in jobs} == {job.pk, other.pk}, "a second before, it holds nothing"
    release_jobs(alias, jobs)
    frozen.tick(SECOND)
    sweep()
    assert table_of(alias, job) is (SuspendedJob if swept else Job)
    assert taken(alias) == {other.pk}
    assert table_of(alias, job) is SuspendedJob, "acquisition moves it if nobody has"
    frozen.tick(LATER - SOON - SECOND)
    sweep()
    assert taken(alias) == set()
    frozen.tick(SECOND)
    assert sweep_suspensions(alias) == 1
    assert taken(alias) == {job.pk}
    assert not Suspension.objects.using(alias).exists()


@scopes
def test_what_is_created_or_comes_due_or_fails_meanwhile_is_held(alias, scope, frozen):
    columns = {} if scope == SuspensionScope.JOB else dict.fromkeys(columns_of(scope), "x")
    timer, failing = make_job(alias, due_date=SOON + SECOND, **columns), work(alias, **columns)
    dead = make_row(DeadLetterJob, alias, **columns)
    for job in [timer, reload(alias, failing)] if scope == SuspensionScope.JOB else [None]:
        suspend(**target_of(scope, job), at=SOON, until=LATER, using=alias)
    frozen.tick(SOON - NOW + SECOND)
    trigger_due_timers(alias, 10)
    fail_job(alias, failing, a_failure(retry_at=SOON + SECOND), a_run(alias))
    held = [timer, failing]
    if scope != SuspensionScope.JOB:
        requeue(dead, using=alias)
        held += [dead, make_job(alias, **columns)]
    assert taken(alias) == set()
    assert {table_of(alias, job) for job in held} == {SuspendedJob}
    frozen.tick(LATER - SOON)
    assert sweep_suspensions(alias) == len(held)
    assert {table_of(alias, job) for job in held} == {Job}


def test_once_it_is_over_nothing_new_is_held_even_if_nobody_sweeps(alias, frozen):
    suspend(tenant_id="x", until=SOON, using=alias)
    frozen.tick(SOON - NOW)
    created = make_job(alias, tenant_id="x")
    timer, dead = make_job(alias, tenant_id="x", due_date=SOON + SECOND), make_row(DeadLetterJob, alias, tenant_id="x")
    frozen.tick(SECOND)
    trigger_due_timers(alias, 10)
    requeue(dead, using=alias)
    assert taken(alias) == {created.pk, timer.pk, dead.pk}


def test_a_sweep_moves_what_is_there_when_it_begins_and_back_when_it_ends(alias, frozen):
    running = work(alias, tenant_id="x", process_instance_id="p")
    due, waiting = make_job(alias, tenant_id="x"), make_job(alias, tenant_id="x", due_date=LATER + SECOND)
    assert suspend(tenant_id="x", at=SOON, until=LATER, using=alias) == 0
    assert sweep_suspensions(alias) == 0
    frozen.tick(SOON - NOW)
    assert (sweep_suspensions(alias), sweep_suspensions(alias)) == (2, 0)
    held = {due.pk: [SuspendedJob], waiting.pk: [SuspendedJob]}
    assert tables_of(alias) == held | {running.id: [Job]}, "what runs finishes"
    assert only(alias).swept
    assert complete_jobs(alias, [(running, a_run(alias))]) == {running.id}
    frozen.tick(LATER - SOON)
    assert (sweep_suspensions(alias), sweep_suspensions(alias)) == (2, 0)
    assert tables_of(alias) == {due.pk: [Job], waiting.pk: [TimerJob]}
    assert reload(alias, waiting).due_date == LATER + SECOND


def test_the_past_is_now(alias, frozen):
    job = make_job(alias, tenant_id="x")
    assert suspend(tenant_id="x", at=NOW - SECOND, until=SOON, using=alias) == 1
    assert (only(alias).suspend_time, only(alias).activate_time) == (None, SOON)
    assert activate(tenant_id="x", at=NOW, using=alias) == 1
    assert table_of(alias, job) is Job


@pytest.mark.parametrize(
    ("dates", "message"),
    [
        ({"at": datetime(2026, 4, 1)}, "at: expected a datetime with a time zone, got the naive"),
        ({"until": datetime(2026, 4, 1)}, "until: expected a datetime with a time zone, got the naive"),
        ({"at": "tomorrow"}, "at: expected an aware datetime, got 'tomorrow'"),
        ({"until": 60}, "until: expected an aware datetime, got 60"),
        ({"until": NOW}, "until: expected a time after now, 2026-03-01 12:00"),
        ({"at": LATER, "until": SOON}, "until: expected a time after at, 2026-03-01 14:00"),
        ({"at": SOON, "until": SOON}, "until: expected a time after at"),
        ({"at": datetime.max.replace(tzinfo=UTC), "until": NOW}, "until: expected a time after at"),
    ],
)
def test_bad_dates_are_refused_and_nothing_is_written(alias, dates, message):
    job = make_job(alias, tenant_id="x")
    for target in ({"tenant_id": "x"}, {"target": job}):
        with pytest.raises(InvalidJob, match=message):
            suspend(**target, **dates, using=alias)
        if "until" not in dates:
            with pytest.raises(InvalidJob, match=message):
                activate(**target, **dates, using=alias)
    assert not Suspension.objects.using(alias).exists()
    assert table_of(alias, job) is Job


def test_overlapping_suspensions_hold_until_the_last_has_ended(alias, frozen):
    job = make_job(alias, tenant_id="x", process_instance_id="p")
    suspend(tenant_id="x", until=SOON, using=alias)
    suspend(process_instance_id="p", at=SOON - SECOND, until=LATER, using=alias)
    frozen.tick(SOON - NOW)
    assert sweep_suspensions(alias) == 0
    assert (only(alias).scope, table_of(alias, job)) == (SuspensionScope.PROCESS_INSTANCE, SuspendedJob)
    suspend(job, using=alias)
    frozen.tick(LATER - SOON)
    assert sweep_suspensions(alias) == 0
    assert table_of(alias, job) is SuspendedJob, "it was also suspended by itself"
    assert activate(job, using=alias).changed == [job.pk]
    assert table_of(alias, job) is Job


def test_one_that_begins_later_takes_over_where_another_ends(alias, frozen):
    job = make_job(alias, tenant_id="x", process_instance_id="p")
    suspend(tenant_id="x", until=SOON, using=alias)
    suspend(process_instance_id="p", at=LATER, using=alias)
    frozen.tick(SOON - NOW)
    assert sweep_suspensions(alias) == 1
    assert table_of(alias, job) is Job
    frozen.tick(LATER - SOON)
    assert sweep_suspensions(alias) == 1
    assert table_of(alias, job) is SuspendedJob


@pytest.mark.parametrize("start", [None, SOON], ids=["in force", "planned"])
def test_without_dates_a_dated_one_holds_at_once_and_for_good(alias, start, frozen):
    job = make_job(alias, tenant_id="x")
    suspend(tenant_id="x", at=start, until=LATER, using=alias)
    suspend(tenant_id="x", using=alias)
    assert (only(alias).suspend_time, only(alias).activate_time) == (None, None)
    assert table_of(alias, job) is SuspendedJob
    frozen.tick(timedelta(days=1000))
    assert sweep_suspensions(alias) == 0
    assert taken(alias) == set()


def test_what_is_in_force_is_not_interrupted_by_a_later_beginning(alias, frozen):
    job = make_job(alias, tenant_id="x")
    suspend(tenant_id="x", using=alias)
    suspend(tenant_id="x", at=SOON, until=LATER, using=alias)
    assert table_of(alias, job) is SuspendedJob
    frozen.tick(SOON - NOW - SECOND)
    assert (sweep_suspensions(alias), taken(alias)) == (0, set())
    frozen.tick(LATER - SOON + SECOND)
    assert sweep_suspensions(alias) == 1


def test_what_is_only_planned_is_replaced(alias, frozen):
    job = make_job(alias, tenant_id="x")
    suspend(tenant_id="x", at=SOON, until=LATER, using=alias)
    suspend(tenant_id="x", at=LATER, using=alias)
    frozen.tick(SOON - NOW)
    assert sweep_suspensions(alias) == 0
    assert next_suspension_date(alias) == LATER
    frozen.tick(LATER - SOON)
    assert sweep_suspensions(alias) == 1
    assert table_of(alias, job) is SuspendedJob


def test_putting_it_off_frees_what_somebody_with_a_fast_clock_has_moved(alias):
    job = make_row(SuspendedJob, alias, tenant_id="x")
    suspend(tenant_id="x", at=SOON, using=alias)
    suspend(tenant_id="x", at=LATER, using=alias)
    assert table_of(alias, job) is Job


def test_activating_takes_back_what_is_planned(alias, frozen):
    suspend(tenant_id="x", at=SOON, using=alias)
    assert activate(tenant_id="x", using=alias) == 0
    assert not Suspension.objects.using(alias).exists()


def test_an_end_can_be_set_and_moved(alias, frozen):
    job = make_job(alias, tenant_id="x")
    assert activate(tenant_id="x", at=SOON, using=alias) == 0
    assert not Suspension.objects.using(alias).exists(), "nothing to end"
    suspend(tenant_id="x", using=alias)
    assert activate(tenant_id="x", at=SOON, using=alias) == 0
    assert lift(only(alias), at=LATER) == 0
    frozen.tick(SOON - NOW)
    assert sweep_suspensions(alias) == 0
    frozen.tick(LATER - SOON)
    assert sweep_suspensions(alias) == 1
    assert table_of(alias, job) is Job
    suspend(tenant_id="x", at=LATER + SECOND, using=alias)
    with pytest.raises(InvalidJob, match="at: expected a time after the suspension begins, 2026-03-01 14:00:01"):
        activate(tenant_id="x", at=LATER + SECOND, using=alias)
    assert only(alias).activate_time is None


@pytest.mark.parametrize("at", [None, LATER], ids=["at once", "later"])
def test_suspending_again_before_anybody_swept_the_end(alias, at, frozen):
    job = make_job(alias, tenant_id="x")
    suspend(tenant_id="x", until=SOON, using=alias)
    frozen.tick(SOON - NOW)
    suspend(tenant_id="x", at=at, using=alias)
    sweep_suspensions(alias)
    assert table_of(alias, job) is (SuspendedJob if at is None else Job)
    assert only(alias).suspend_time == at, "the old one is gone, the new one is there"
    frozen.tick(LATER - SOON)
    sweep_suspensions(alias)
    assert table_of(alias, job) is SuspendedJob


def test_a_job_until_a_date(alias, frozen):
    due, waiting = make_job(alias), make_job(alias, due_date=LATER)
    assert suspend([due, waiting], until=SOON, using=alias).changed == [due.pk, waiting.pk]
    assert tables_of(alias) == {due.pk: [SuspendedJob], waiting.pk: [SuspendedJob]}
    frozen.tick(SOON - NOW)
    assert sweep_suspensions(alias) == 2
    assert tables_of(alias) == {due.pk: [Job], waiting.pk: [TimerJob]}
    assert not Suspension.objects.using(alias).exists()


def test_a_job_from_a_date_on_says_so_itself_then(alias, frozen):
    """The table of suspensions, which every page reads, must not keep a row for every job for ever."""
    running = work(alias)
    due, waiting = make_job(alias), make_job(alias, due_date=LATER)
    suspend([due.pk, waiting.pk, running.id], at=SOON, using=alias)
    assert (Suspension.objects.using(alias).count(), table_of(alias, due)) == (3, Job)
    frozen.tick(SOON - NOW)
    sweep_suspensions(alias)
    assert not Suspension.objects.using(alias).exists()
    assert tables_of(alias) == {due.pk: [SuspendedJob], waiting.pk: [SuspendedJob], running.id: [Job]}
    assert {reload(alias, job).suspend_requested for job in (due, waiting, running)} == {True}
    assert type(fail_job(alias, running, a_failure(), a_run(alias))) is SuspendedJob


def test_a_running_job_until_a_date(alias, frozen):
    failing, done = work(alias, retry_plan="R3/PT1S"), work(alias)
    assert suspend([failing.id, done.id], until=SOON, using=alias).changed == [failing.id, done.id]
    assert complete_jobs(alias, [(done, a_run(alias))]) == {done.id}
    assert type(fail_job(alias, failing, a_failure(), a_run(alias))) is SuspendedJob
    frozen.tick(SOON - NOW)
    assert sweep_suspensions(alias) == 1
    assert table_of(alias, failing) is Job


def test_the_suspension_of_a_job_that_is_gone_goes_at_its_date(alias, frozen):
    done, deleted, dead = work(alias), make_job(alias), make_row(DeadLetterJob, alias)
    suspend([done.id, deleted.pk], at=SOON, using=alias)
    Suspension.objects.using(alias).create(
        scope=SuspensionScope.JOB, value=str(dead.pk), suspend_time=SOON, swept=False
    )
    complete_jobs(alias, [(done, a_run(alias))])
    delete_jobs(deleted, using=alias)
    frozen.tick(SOON - NOW)
    assert sweep_suspensions(alias) == 0
    assert not Suspension.objects.using(alias).exists()
    assert tables_of(alias) == {dead.pk: [DeadLetterJob]}


@pytest.mark.parametrize("running", [False, True])
def test_a_job_that_was_suspended_for_good_can_be_given_an_end(alias, running, frozen):
    job = work(alias)
    if not running:
        release_jobs(alias, [job])
    suspend(job.id, using=alias)
    assert activate(job.id, at=SOON, using=alias).changed == [job.id]
    assert suspend(job.id, until=LATER, using=alias).changed == [job.id]
    assert only(alias).activate_time == LATER
    if running:
        fail_job(alias, job, a_failure(), a_run(alias))
    frozen.tick(SOON - NOW)
    assert (sweep_suspensions(alias), table_of(alias, job)) == (0, SuspendedJob)
    frozen.tick(LATER - SOON)
    assert (sweep_suspensions(alias), table_of(alias, job)) == (1, Job)


def test_what_is_said_of_a_single_job(alias):
    row = make_job(alias, tenant_id="x")
    assert activate(row, at=SOON, using=alias).skipped == {row.pk: "it is not suspended individually"}
    suspend(row, at=SOON, using=alias)
    refused = activate(row, at=SOON, using=alias).skipped[row.pk]
    assert refused.startswith("at: expected a time after the suspension begins")
    assert suspend(row, using=alias).changed == [row.pk]
    assert not Suspension.objects.using(alias).exists(), "at once and for good: the job says it itself"
    assert suspend(row, at=SOON, using=alias).skipped == {row.pk: "it is already suspended individually"}
    suspend(row, until=LATER, using=alias)
    assert suspend(row, at=SOON, using=alias).changed == [row.pk]
    assert (Suspension.objects.using(alias).count(), reload(alias, row).suspend_requested) == (0, True), "no end"
    suspend(row, until=LATER, using=alias)
    assert activate(row, using=alias).changed == [row.pk]
    assert (Suspension.objects.using(alias).count(), table_of(alias, row)) == (0, Job)


def test_dates_of_many_single_jobs_are_not_all_read_for_every_page(alias, monkeypatch, frozen):
    monkeypatch.setattr(suspension_cover, "_FEW", 1)
    suspend([make_job(alias).pk for _ in range(3)], until=SOON, using=alias)
    suspend(tenant_id="x", using=alias)
    ours, tenants = make_job(alias), make_job(alias, tenant_id="x")
    Suspension.objects.using(alias).create(scope=SuspensionScope.JOB, value=str(ours.pk))
    free = make_job(alias)
    seen = suspension_cover.Suspensions.of(alias, [ours.pk, free.pk])
    assert (seen.cover(ours), seen.cover(tenants), seen.cover(free)) == (True, True, False)
    assert taken(alias) == {free.pk}


def test_a_broken_row_stops_nobody(alias, frozen):
    for scope, dates in [
        (SuspensionScope.JOB, {}),
        (SuspensionScope.JOB, {"activate_time": SOON}),
        ("colour", {"activate_time": SOON}),
    ]:
        broken = Suspension.objects.using(alias).create(scope=scope, value="?", swept=False, **dates)
        job = make_job(alias)
        assert taken(alias) == {job.pk}
        sweep_suspensions(alias)
        frozen.tick(SOON - NOW)
        sweep_suspensions(alias)
        assert Suspension.objects.using(alias).filter(pk=broken.pk).exists() == (scope == "colour")


def test_the_next_date(alias, frozen):
    assert next_suspension_date(alias) is None
    suspend(tenant_id="a", using=alias)
    assert next_suspension_date(alias) is None
    suspend(tenant_id="b", until=LATER, using=alias)
    assert next_suspension_date(alias) == LATER
    suspend(tenant_id="c", at=SOON, using=alias)
    assert next_suspension_date(alias) == SOON
    frozen.tick(SOON - NOW)
    sweep_suspensions(alias)
    assert next_suspension_date(alias) == LATER
    frozen.tick(LATER - SOON)
    sweep_suspensions(alias)
    assert next_suspension_date(alias) is None


def test_it_is_changed_in_its_own_database(alias, settings):
    class Elsewhere:
        def db_for_write(self, model, **hints):
            return "elsewhere"

    settings.DATABASE_ROUTERS = [Elsewhere()]
    later = clock.now(alias) + timedelta(days=1)
    for until in (None, later):
        suspend(process_instance_id="p", until=until, using=alias)
    assert Suspension.objects.using(alias).get().activate_time == later
