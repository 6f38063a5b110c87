"""Suspensions that hold only what is created after they came into force."""

from datetime import UTC, datetime, timedelta

import pytest

from jobexec.exceptions import InvalidJob
from jobexec.models import DeadLetterJob, Job, SuspendedJob, Suspension, SuspensionScope, TimerJob
from jobexec.models.suspension import columns_of
from jobexec.operations import (
    activate,
    fail_job,
    release_jobs,
    requeue,
    suspend,
    sweep_suspensions,
    trigger_due_timers,
)
from tests.support.factories import a_failure, a_run, acquire, make_job, make_row, reload, table_of, tables_of, work
from tests.support.forms import MOVES, move

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MOMENT = timedelta(milliseconds=0.5)
SOON, LATER = NOW + timedelta(hours=1), NOW + timedelta(hours=2)
scopes = pytest.mark.parametrize("scope", [name for name in SuspensionScope.values if name != SuspensionScope.JOB])


@pytest.fixture(autouse=True)
def categories(configure):
    configure(CATEGORIES=("default", "x", "y"))


def taken(alias, strategy="auto"):
    return {job.id for job in acquire(alias, strategy=strategy)}


def only(alias):
    return Suspension.objects.using(alias).get()


@scopes
def test_what_was_there_runs_and_what_comes_later_does_not(alias, scope, frozen, strategy):
    job, timer = (
        make_job(alias, **dict.fromkeys(columns_of(scope), "x")),
        make_job(alias, due_date=SOON, **dict.fromkeys(columns_of(scope), "x")),
    )
    frozen.tick()
    assert suspend(**dict.fromkeys(columns_of(scope), "x"), include_jobs=False, using=alias) == 0
    assert only(alias).include_jobs is False
    frozen.tick()
    held, free = (
        make_job(alias, **dict.fromkeys(columns_of(scope), "x")),
        make_job(alias, **dict.fromkeys(columns_of(scope), "y")),
    )
    first, second = acquire(alias, strategy=strategy)
    assert {first.id, second.id} == {job.pk, free.pk}
    release_jobs(alias, [first, second])
    assert sweep_suspensions(alias) == 0
    assert tables_of(alias) == {job.pk: [Job], timer.pk: [TimerJob], held.pk: [SuspendedJob], free.pk: [Job]}
    assert activate(**dict.fromkeys(columns_of(scope), "x"), using=alias) == 1
    assert taken(alias, strategy) == {job.pk, free.pk, held.pk}
    assert not Suspension.objects.using(alias).exists()


@pytest.mark.parametrize("form", MOVES)
def test_old_jobs_go_their_way_to_the_end(alias, form, frozen, monkeypatch):
    move(form, alias, monkeypatch)
    old = work(alias, tenant_id="x")
    timer, dead = make_job(alias, tenant_id="x", due_date=SOON), make_row(DeadLetterJob, alias, tenant_id="x")
    frozen.tick()
    suspend(tenant_id="x", include_jobs=False, using=alias)
    new_timer = make_job(alias, tenant_id="x", due_date=SOON)
    fail_job(alias, old, a_failure(retry_at=SOON), a_run(alias))
    requeue(dead, using=alias)
    frozen.tick(SOON - NOW)
    assert trigger_due_timers(alias, 10) == 3
    assert taken(alias) == {old.id, timer.pk, dead.pk}
    assert table_of(alias, new_timer) is SuspendedJob


@pytest.mark.parametrize("swept", [True, False], ids=["swept", "nobody sweeps"])
def test_with_dates(alias, swept, frozen):
    before = make_job(alias, tenant_id="x")
    suspend(tenant_id="x", include_jobs=False, at=SOON, until=LATER, using=alias)
    frozen.tick(SOON - NOW - SECOND)
    planned, waiting = make_job(alias, tenant_id="x"), make_job(alias, tenant_id="x", due_date=LATER)
    frozen.tick(SECOND)
    during = make_job(alias, tenant_id="x", due_date=LATER + SECOND)
    if swept:
        assert sweep_suspensions(alias) == 1
        assert only(alias).swept
    assert table_of(alias, during) is (SuspendedJob if swept else TimerJob)
    assert taken(alias) == {before.pk, planned.pk}
    assert table_of(alias, waiting) is TimerJob, "created before"
    frozen.tick(LATER - SOON)
    assert sweep_suspensions(alias) == (1 if swept else 0)
    assert table_of(alias, during) is TimerJob
    assert not Suspension.objects.using(alias).exists()


def test_what_was_planned_and_begins_now_holds_what_is_created_from_now_on(alias, frozen):
    suspend(tenant_id="x", include_jobs=False, at=SOON, using=alias)
    frozen.tick(60)
    between = make_job(alias, tenant_id="x")
    frozen.tick(60)
    suspend(tenant_id="x", include_jobs=False, using=alias)
    after = make_job(alias, tenant_id="x")
    assert taken(alias) == {between.pk}
    assert table_of(alias, after) is SuspendedJob


def test_it_is_widened_and_never_narrowed(alias, frozen):
    old = make_job(alias, tenant_id="x")
    frozen.tick()
    suspend(tenant_id="x", include_jobs=False, using=alias)
    frozen.tick()
    assert suspend(tenant_id="x", using=alias) == 1
    assert (table_of(alias, old), only(alias).include_jobs) == (SuspendedJob, True)
    assert suspend(tenant_id="x", include_jobs=False, using=alias) == 0
    assert only(alias).include_jobs
    assert taken(alias) == set()


def test_a_sweep_that_is_overtaken_by_the_widening_leaves_the_rest_to_the_next(alias, frozen):
    """A node has read the narrow suspension, and says that it is done with the wide one."""
    from jobexec.operations.manage.suspension_sweep import begin

    old = make_job(alias, tenant_id="x")
    frozen.tick()
    suspend(tenant_id="x", include_jobs=False, using=alias)
    narrow = only(alias)
    Suspension.objects.using(alias).update(include_jobs=True, swept=False)
    assert begin(narrow) == 0
    assert not only(alias).swept
    assert sweep_suspensions(alias) == 1
    assert table_of(alias, old) is SuspendedJob


def test_another_suspension_covers_the_old_ones(alias, frozen):
    old = make_job(alias, tenant_id="x", process_instance_id="p")
    frozen.tick()
    suspend(tenant_id="x", include_jobs=False, using=alias)
    suspend(process_instance_id="p", using=alias)
    new = make_job(alias, tenant_id="x", process_instance_id="p")
    assert taken(alias) == set()
    assert activate(process_instance_id="p", using=alias) == 1
    assert taken(alias) == {old.pk}
    assert table_of(alias, new) is SuspendedJob


def test_an_old_job_that_was_suspended_by_itself_stays_so(alias, frozen):
    old = make_job(alias, tenant_id="x")
    suspend(old, using=alias)
    frozen.tick()
    suspend(tenant_id="x", include_jobs=False, using=alias)
    activate(tenant_id="x", using=alias)
    assert table_of(alias, old) is SuspendedJob
    assert activate(old, using=alias)
    assert reload(alias, old).suspend_requested is False


def test_it_says_nothing_about_jobs_that_are_named(alias):
    with pytest.raises(ValueError, match="Expected jobs or a scope, got both: include_jobs"):
        suspend(make_job(alias), include_jobs=False, using=alias)


@pytest.mark.parametrize("value", [None, 0, "no"])
def test_yes_or_no(alias, value):
    with pytest.raises(InvalidJob, match=f"include_jobs: expected True or False, got {value!r}"):
        suspend(tenant_id="x", include_jobs=value, using=alias)


@pytest.mark.gate
def test_what_begins_at_a_thousand_moments_is_one_question(alias, frozen, strategy):
    """SQLite takes no condition that is a thousand deep."""
    old = make_job(alias, tenant_id="t7")
    frozen.tick()
    Suspension.objects.using(alias).bulk_create(
        Suspension(
            scope=SuspensionScope.TENANT, value=f"t{number}", include_jobs=False, suspend_time=NOW + number * MOMENT
        )
        for number in range(1100)
    )
    held = make_job(alias, tenant_id="t8")
    # Created after the first of them began, and before its own did.
    between = make_row(Job, alias, tenant_id="t9", create_time=NOW + 8 * MOMENT)
    assert taken(alias, strategy) == {old.pk, between.pk}
    assert table_of(alias, held) is SuspendedJob
