"""Jobs of workers outside are suspended and activated like all others, and stay what they are."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from jobexec.models import DeadLetterJob, ExternalWorkerJob, Job, SuspendedJob, Suspension, SuspensionScope, TimerJob
from jobexec.operations import activate, start_batch, suspend, sweep_suspensions
from jobexec.operations.external import complete_external_job, fail_external_job
from tests.support.batches import run_to_the_end
from tests.support.factories import make_job, reload, table_of, tables_of
from tests.support.outside import MINUTE, fetch, held_by_worker, make_external, missed_by_worker

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


@pytest.mark.parametrize("count", [1, 3])
def test_there_and_back(alias, count):
    jobs = [make_external(alias, variables={"n": number}, headers={"h": 1}, priority=4) for number in range(count)]
    rows = ExternalWorkerJob.objects.using(alias).all() if count > 1 else jobs[0]
    assert len(suspend(rows, using=alias).changed) == count
    assert {table_of(alias, job) for job in jobs} == {SuspendedJob}
    assert fetch(alias) == []
    rows = SuspendedJob.objects.using(alias).all() if count > 1 else jobs[0]
    assert len(activate(rows, using=alias).changed) == count
    found = {job.key: job for job in fetch(alias)}
    assert [found[job.job_key].variables["n"] for job in jobs] == list(range(count))
    assert {(job.priority, tuple(job.headers)) for job in found.values()} == {(4, ("h",))}


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("missed", [False, True])
def test_a_leased_job_stays_leased(alias, frozen, count, missed):
    jobs = [make_external(alias) for _ in range(count)]
    held = fetch(alias, with_lease=True)
    for each in held:
        if not missed:
            fail_external_job(alias, each.key, retries=2, lease=each.lease_token)
    if missed:
        frozen.tick(timedelta(days=1))
    suspend([job.pk for job in jobs], using=alias)
    if missed:
        assert fetch(alias, with_lease=True) == []  # the fetch sets them aside
    assert {table_of(alias, job) for job in jobs} == {SuspendedJob}
    rows = SuspendedJob.objects.using(alias).all() if count > 1 else jobs[0]
    activate(rows, using=alias)
    assert fetch(alias) == []
    assert len(fetch(alias, with_lease=True)) == count


@pytest.mark.parametrize("count", [1, 3])
def test_a_back_off_goes_on_while_it_is_suspended(alias, frozen, count):
    jobs = [held_by_worker(alias) for _ in range(count)]
    for job in jobs:
        fail_external_job(alias, job.job_key, retries=2, back_off=timedelta(hours=1))
    suspend([job.pk for job in jobs], using=alias)
    rows = SuspendedJob.objects.using(alias).all() if count > 1 else jobs[0]
    activate(rows, using=alias)
    assert {reload(alias, job).available_at for job in jobs} == {LATER}
    assert fetch(alias) == []
    frozen.tick(timedelta(hours=1))
    assert len(fetch(alias)) == count


def test_a_date_that_has_passed_meanwhile_is_at_once(alias, frozen):
    job = make_external(alias, run_after=LATER)
    suspend(job, using=alias)
    frozen.tick(timedelta(hours=2))
    activate(job, using=alias)
    assert reload(alias, job).available_at is None


@pytest.mark.parametrize("count", [1, 3])
def test_what_a_worker_has_stays_and_its_retry_is_suspended(alias, count):
    jobs = [held_by_worker(alias) for _ in range(count)]
    rows = ExternalWorkerJob.objects.using(alias).all() if count > 1 else jobs[0]
    assert len(suspend(rows, using=alias).changed) == count
    assert all(reload(alias, job).suspend_requested for job in jobs)
    assert {table_of(alias, job) for job in jobs} == {ExternalWorkerJob}
    fail_external_job(alias, jobs[0].job_key, retries=2)
    assert table_of(alias, jobs[0]) is SuspendedJob
    for job in jobs[1:]:
        complete_external_job(alias, job.job_key)
        assert table_of(alias, job) is None


def test_activated_before_it_has_ended_nothing_has_happened(alias):
    job = held_by_worker(alias)
    suspend(job, using=alias)
    assert activate(job, using=alias)
    fail_external_job(alias, job.job_key, retries=2)
    assert [each.id for each in fetch(alias)] == [job.pk]


def test_a_missed_deadline_is_nobodys(alias, frozen):
    job = missed_by_worker(alias, frozen)
    suspend(job, using=alias)
    assert table_of(alias, job) is SuspendedJob


@pytest.mark.gate
def test_a_scope(alias, frozen):
    free, held, other = (
        make_external(alias, tenant_id="acme"),
        held_by_worker(alias, type="mail", tenant_id="acme"),
        make_external(alias),
    )
    ours = make_job(alias, tenant_id="acme")
    timer = make_job(alias, tenant_id="acme", due_date=LATER)
    assert suspend(tenant_id="acme", using=alias) == 3
    new = make_external(alias, tenant_id="acme")
    assert [job.id for job in fetch(alias)] == [other.pk]
    assert [table_of(alias, job) for job in (free, held, new)] == [SuspendedJob, ExternalWorkerJob, SuspendedJob]
    assert activate(tenant_id="acme", using=alias) == 4
    assert [table_of(alias, job) for job in (free, new, ours, timer)] == [
        ExternalWorkerJob,
        ExternalWorkerJob,
        Job,
        TimerJob,
    ]
    assert {job.id for job in fetch(alias)} == {free.pk, new.pk}


def test_a_scope_whose_jobs_workers_have_is_swept_and_holds_their_retries(alias, frozen):
    job = held_by_worker(alias, process_instance_id="p")
    assert suspend(process_instance_id="p", using=alias) == 0
    assert Suspension.objects.using(alias).get().swept
    frozen.tick(MINUTE)
    assert fetch(alias, worker="w2") == [], "its deadline is over, and it is suspended"
    assert table_of(alias, job) is SuspendedJob
    assert activate(process_instance_id="p", using=alias) == 1
    assert [each.id for each in fetch(alias, worker="w2")] == [job.pk]


def test_by_the_type_of_job(alias):
    payment, mail = make_external(alias), make_external(alias, "mail")
    assert suspend(job_definition_id="payment", using=alias) == 1
    assert (table_of(alias, payment), table_of(alias, mail)) == (SuspendedJob, ExternalWorkerJob)


@pytest.mark.parametrize("until", [None, LATER])
def test_from_a_date_until_a_date(alias, frozen, until):
    job = make_external(alias)
    suspend(job, at=NOW + MINUTE, until=until, using=alias)
    assert table_of(alias, job) is ExternalWorkerJob
    frozen.tick(MINUTE)
    assert sweep_suspensions(alias) == (1 if until else 0)
    assert table_of(alias, job) is SuspendedJob
    assert Suspension.objects.using(alias).filter(scope=SuspensionScope.JOB).exists() is (until is not None)
    frozen.tick(timedelta(hours=2))
    sweep_suspensions(alias)
    assert table_of(alias, job) is (ExternalWorkerJob if until else SuspendedJob)


def test_new_jobs_only(alias, frozen):
    before = make_external(alias, tenant_id="acme")
    frozen.tick(1)
    suspend(tenant_id="acme", include_jobs=False, using=alias)
    frozen.tick(1)
    after = make_external(alias, tenant_id="acme")
    assert [job.id for job in fetch(alias)] == [before.pk]
    assert tables_of(alias)[after.pk] == [SuspendedJob]


@pytest.mark.parametrize(
    ("operation", "arguments", "left"),
    [
        ("suspend", {}, {SuspendedJob: 3, ExternalWorkerJob: 1}),
        ("cancel", {}, {ExternalWorkerJob: 1}),
        ("move_to_dead_letter", {}, {DeadLetterJob: 3, ExternalWorkerJob: 1}),
        ("set_priority", {"priority": 8}, {ExternalWorkerJob: 4}),
    ],
)
def test_a_batch_does_it_to_many(alias, frozen, configure, operation, arguments, left):
    configure(INVOCATIONS_PER_BATCH_JOB=2)
    held = held_by_worker(alias)
    jobs = [make_external(alias) for _ in range(3)]
    rows = ExternalWorkerJob.objects.using(alias).filter(handler_type="payment")
    batch = start_batch(operation, rows, arguments=arguments, using=alias)
    assert run_to_the_end(alias, frozen, batch).over
    found = Counter(table for (table,) in tables_of(alias).values())
    assert found == left
    assert table_of(alias, held) is ExternalWorkerJob
    if operation == "set_priority":
        assert {reload(alias, job).priority for job in (held, *jobs)} == {8}
