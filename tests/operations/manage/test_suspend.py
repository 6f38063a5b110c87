"""Suspend and activate: single jobs and scopes, also for jobs that are created or come due later."""

import sys
from datetime import UTC, datetime, timedelta

import pytest

from jobexec import signals
from jobexec.identifiers import uuid7
from jobexec.models import DeadLetterJob, Job, SuspendedJob, Suspension, SuspensionScope, TimerJob
from jobexec.operations import (
    activate,
    complete_jobs,
    fail_job,
    release_jobs,
    suspend,
    sweep_suspensions,
    trigger_due_timers,
)
from jobexec.operations.manage.suspend import lift
from jobexec.operations.why.explain import why
from tests.support.factories import a_failure, a_run, acquire, make_job, make_row, reload, table_of, tables_of, work

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
_COLUMNS = [
    scope
    for scope in SuspensionScope.values
    if scope not in (SuspensionScope.JOB, SuspensionScope.TENANT_PROCESS_DEFINITION)
]
scopes = pytest.mark.parametrize("scope", _COLUMNS)


@scopes
def test_a_scope_holds_what_is_there_and_what_comes_later(alias, scope, frozen, configure):
    served = {"categories": ("default", "x", "y")}
    configure(CATEGORIES=served["categories"])
    inside, outside = {scope: "x"}, {scope: "y"}
    waiting, due, other = (
        make_job(alias, due_date=LATER, **inside),
        make_job(alias, **inside),
        make_job(alias, **outside),
    )
    dead = make_row(DeadLetterJob, alias, **inside)
    assert suspend(using=alias, **inside) == 2
    assert suspend(using=alias, **inside) == 0
    created = make_job(alias, **inside)
    timer = make_job(alias, due_date=NOW + timedelta(seconds=9), **inside)
    frozen.tick(10)
    trigger_due_timers(alias, 10)
    assert [job.id for job in acquire(alias, **served)] == [other.pk]
    held = (waiting, due, created, timer)
    assert tables_of(alias) == {row.pk: [SuspendedJob] for row in held} | {other.pk: [Job], dead.pk: [DeadLetterJob]}

    assert activate(using=alias, **inside) == 4
    assert not Suspension.objects.using(alias).exists()
    assert {row: table_of(alias, row) for row in held} == {waiting: TimerJob, due: Job, created: Job, timer: Job}
    assert reload(alias, waiting).due_date == LATER, "what waited for a time waits on"
    assert {job.id for job in acquire(alias, **served)} == {due.pk, created.pk, timer.pk}


def test_running_jobs_finish(alias):
    done, failing = work(alias, tenant_id="t"), work(alias, tenant_id="t", retry_plan="R3/PT1M")
    assert suspend(tenant_id="t", using=alias) == 0
    assert complete_jobs(alias, [(done, a_run(alias))]) == {done.id}
    assert type(fail_job(alias, failing, a_failure(), a_run(alias))) is SuspendedJob
    activate(tenant_id="t", using=alias)
    after = reload(alias, failing)
    assert (type(after), after.due_date, after.retries) == (TimerJob, NOW + timedelta(minutes=1), 2)


def test_a_job_that_is_given_back_is_suspended_at_the_next_acquisition(alias):
    job = work(alias, process_instance_id="p")
    suspend(process_instance_id="p", using=alias)
    release_jobs(alias, [job])
    assert acquire(alias) == []
    assert table_of(alias, job) is SuspendedJob


@pytest.mark.parametrize("table", [Job, TimerJob])
def test_a_single_job(alias, table):
    due = LATER if table is TimerJob else None
    row, other = make_row(table, alias, due_date=due), make_row(table, alias, due_date=due)
    assert suspend(row, using=alias).changed == [row.pk]
    held = SuspendedJob.objects.using(alias).get()
    assert (held.pk, held.suspend_requested, held.suspended_at, held.due_date) == (row.pk, True, NOW, due)
    assert suspend(row.pk, using=alias).skipped == {row.pk: "it is already suspended individually"}
    assert activate(row, using=alias).changed == [row.pk]
    assert tables_of(alias) == {row.pk: [table], other.pk: [table]}
    assert not reload(alias, row).suspend_requested


def test_a_running_job_is_marked_and_can_be_unmarked(alias):
    job = work(alias)
    assert suspend(job.id, using=alias).changed == [job.id]
    assert Job.objects.using(alias).get().revision == job.revision
    assert activate(job.id, using=alias).changed == [job.id]
    release_jobs(alias, [job])
    assert [again.id for again in acquire(alias)] == [job.id]


def test_dead_letters_are_neither_suspended_nor_activated(alias):
    row = make_row(DeadLetterJob, alias)
    refusal = {row.pk: "not possible for a job that is dead letter"}
    assert suspend(row, using=alias).skipped == activate(row, using=alias).skipped == refusal


def test_activating_a_scope_leaves_what_was_suspended_by_itself(alias):
    itself, swept = make_job(alias, process_instance_id="p"), make_job(alias, process_instance_id="p")
    suspend(itself, using=alias)
    suspend(process_instance_id="p", using=alias)
    assert activate(process_instance_id="p", using=alias) == 1
    assert tables_of(alias) == {itself.pk: [SuspendedJob], swept.pk: [Job]}


def test_a_job_that_its_scope_suspended_can_be_suspended_by_itself(alias):
    itself, swept = make_job(alias, process_instance_id="p"), make_job(alias, process_instance_id="p")
    suspend(process_instance_id="p", using=alias)
    assert suspend(itself, using=alias).changed == [itself.pk]
    assert suspend(itself, using=alias).skipped == {itself.pk: "it is already suspended individually"}
    assert activate(process_instance_id="p", using=alias) == 1
    assert tables_of(alias) == {itself.pk: [SuspendedJob], swept.pk: [Job]}
    assert activate(itself, using=alias).changed == [itself.pk]
    assert table_of(alias, itself) is Job


def test_activating_a_job_does_not_overrule_its_scope(alias):
    row = make_job(alias, tenant_id="t")
    suspend(row, using=alias)
    suspend(tenant_id="t", using=alias)
    reason = "still suspended by its process instance, process definition, job definition, category or tenant"
    assert activate(row, using=alias).skipped == {row.pk: reason}
    assert table_of(alias, row) is SuspendedJob
    assert activate(tenant_id="t", using=alias) == 1, "its own suspension is lifted all the same"
    assert table_of(alias, row) is Job


def test_a_job_runs_when_its_last_suspension_is_lifted(alias):
    row = make_job(alias, tenant_id="t", process_definition_key="d", process_instance_id="p")
    for scope in ({"tenant_id": "t"}, {"process_definition_key": "d"}, {"process_instance_id": "p"}):
        suspend(using=alias, **scope)
    assert activate(tenant_id="t", using=alias) == 0
    assert activate(process_instance_id="p", using=alias) == 0
    assert table_of(alias, row) is SuspendedJob
    assert activate(process_definition_key="d", using=alias) == 1
    assert table_of(alias, row) is Job


def test_activating_what_is_not_suspended_changes_nothing(alias):
    rows = [make_job(alias), make_job(alias, due_date=LATER), make_row(DeadLetterJob, alias)]
    before = [(type(row), vars(reload(alias, row)) | {"_state": None}) for row in rows]
    result = activate([*rows, nobody := uuid7()], using=alias)
    assert result.skipped[nobody] == "the job no longer exists"
    assert activate(using=alias, tenant_id="t") == 0
    assert [(type(reload(alias, row)), vars(reload(alias, row)) | {"_state": None}) for row in rows] == before


def test_names_that_differ_only_in_case_are_different(alias):
    lower, upper = make_job(alias, tenant_id="acme"), make_job(alias, tenant_id="ACME")
    suspend(tenant_id="acme", using=alias)
    suspend(tenant_id="Acme", using=alias)
    assert tables_of(alias) == {lower.pk: [SuspendedJob], upper.pk: [Job]}
    assert Suspension.objects.using(alias).count() == 2
    assert [job.id for job in acquire(alias)] == [upper.pk]


def test_many_pages(alias, monkeypatch):
    monkeypatch.setattr(sys.modules["jobexec.operations.manage.suspension_sweep"], "_PAGE", 3)
    for number in range(10):
        make_job(alias, tenant_id="t", due_date=LATER if number % 3 else None)
    assert suspend(tenant_id="t", using=alias) == 10
    assert activate(tenant_id="t", using=alias) == 10
    assert (Job.objects.using(alias).count(), TimerJob.objects.using(alias).count()) == (4, 6)


@pytest.mark.parametrize(
    "scope",
    [
        {},
        {"tenant_id": ""},
        {"tenant_id": 5},
        {"tenant_id": "a", "process_instance_id": "b"},
        {"id": "a"},
        {"tenant": "a"},
        {"target": [], "tenant_id": "a"},
        {"tenant_id": "a" * 65},
        {"tenant_id": "a" * 65, "process_definition_key": "a"},
        {"process_instance_id": "a" * 256},
        {"category": "a\ud800"},
        {"tenant_id": "a\0"},
    ],
)
@pytest.mark.parametrize("verb", [suspend, activate])
def test_the_scope_must_be_one(alias, verb, scope):
    with pytest.raises(ValueError, match=r"xpected|cannot be stored"):
        verb(using=alias, **scope)
    assert not Suspension.objects.using(alias).exists()


@pytest.mark.transactional
def test_it_is_announced(alias):
    heard = []

    def receiver(signal, sender, using, jobs, **kwargs):
        heard.append((signal, sender, using, {job.pk for job in jobs}))

    one, two = make_job(alias, tenant_id="t"), make_job(alias, tenant_id="t", due_date=LATER)
    for signal in (signals.job_suspended, signals.job_activated):
        signal.connect(receiver)
    try:
        suspend(one, using=alias)
        activate(one, using=alias)
        suspend(tenant_id="t", using=alias)
        activate(tenant_id="t", using=alias)
    finally:
        for signal in (signals.job_suspended, signals.job_activated):
            signal.disconnect(receiver)
    off, on = signals.job_suspended, signals.job_activated
    assert heard[:2] == [(off, SuspendedJob, alias, {one.pk}), (on, Job, alias, {one.pk})]
    assert heard[2:4] == [(off, SuspendedJob, alias, {two.pk}), (off, SuspendedJob, alias, {one.pk})]
    assert heard[4:] == [(on, TimerJob, alias, {two.pk}), (on, Job, alias, {one.pk})]


KEY = {"process_definition_key": "order"}


@pytest.mark.parametrize(
    ("scope", "held"),
    [
        ({"process_definition_id": "order:2"}, {"of acme, new"}),
        ({**KEY, "tenant_id": "acme"}, {"of acme", "of acme, new"}),
        ({**KEY, "tenant_id": ""}, {"of nobody"}),
        (KEY, {"of acme", "of acme, new", "of nobody"}),
    ],
    ids=["a version", "of a tenant", "without a tenant", "all"],
)
def test_a_version_and_the_definition_of_a_tenant(alias, scope, held):
    kinds = {
        "of acme": {**KEY, "tenant_id": "acme", "process_definition_id": "order:1"},
        "of acme, new": {**KEY, "tenant_id": "acme", "process_definition_id": "order:2"},
        "of nobody": {**KEY, "process_definition_id": "order:1"},
        "another": {"process_definition_key": "claim", "tenant_id": "acme"},
    }
    there = {kind: make_job(alias, **columns).pk for kind, columns in kinds.items()}
    assert suspend(using=alias, **scope) == len(held)
    later = {kind: make_job(alias, **columns).pk for kind, columns in kinds.items()}
    acquired = {job.id for job in acquire(alias)}
    assert acquired == {jobs[kind] for jobs in (there, later) for kind in kinds if kind not in held}
    for kind in held:
        assert why(there[kind], using=alias).reasons[0].code == "suspended_by_scope"
    ids = {jobs[kind] for jobs in (there, later) for kind in held}
    assert set(SuspendedJob.objects.using(alias).values_list("pk", flat=True)) == ids
    assert activate(using=alias, **scope) == len(ids)
    assert not Suspension.objects.using(alias).exists()


def test_a_definition_stays_suspended_for_a_tenant_for_which_it_is_activated(alias):
    make_job(alias, **KEY, tenant_id="acme")
    assert suspend(using=alias, **KEY) == 1
    assert suspend(using=alias, **KEY, tenant_id="acme") == 0
    assert activate(using=alias, **KEY, tenant_id="acme") == 0
    assert activate(using=alias, **KEY) == 1


@pytest.mark.parametrize("scope", [SuspensionScope.TENANT_PROCESS_DEFINITION, "colour"])
@pytest.mark.parametrize("live", [True, None])
def test_to_lift_a_suspension_that_is_broken_activates_nothing(alias, scope, live):
    job = make_row(SuspendedJob, alias, **KEY, tenant_id="acme")
    row = Suspension.objects.using(alias).create(scope=scope, value="acme", live=live)
    assert lift(row) == 0
    assert SuspendedJob.objects.using(alias).filter(pk=job.pk).exists()


def test_a_suspension_of_a_definition_of_a_tenant_that_is_broken_means_nothing(alias):
    make_job(alias, **KEY, tenant_id="acme")
    table = Suspension.objects.using(alias)
    row = table.create(scope=SuspensionScope.TENANT_PROCESS_DEFINITION, value="acme", swept=False)
    assert sweep_suspensions(alias) == 0 and len(acquire(alias)) == 1
    table.filter(pk=row.pk).update(live=None)
    assert sweep_suspensions(alias) == 0 and not table.exists()


def test_what_a_definition_of_a_tenant_is(alias):
    with pytest.raises(ValueError, match="tenant_id: expected a string"):
        suspend(using=alias, **KEY, tenant_id=7)
    with pytest.raises(ValueError, match="process_definition_key: expected a string that is not empty"):
        suspend(using=alias, process_definition_key="", tenant_id="acme")
