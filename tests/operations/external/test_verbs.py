"""What a person does to a job does the same to one of workers outside."""

from datetime import UTC, datetime, timedelta

import pytest

from jobexec import clock, signals
from jobexec.models import (
    DeadLetterJob,
    ExclusiveLock,
    ExternalWorkerJob,
    Incident,
    Job,
    JobLog,
    JobType,
    SuspendedJob,
)
from jobexec.operations import (
    cancel,
    complete_jobs,
    delete_jobs,
    move_to_dead_letter,
    recalculate_due_date,
    recover_expired_locks,
    recover_node,
    requeue,
    retry_now,
    set_due_date,
    set_priority,
    set_retries,
    suspend,
    unlock,
)
from jobexec.operations.external import complete_external_job, fail_external_job
from jobexec.operations.notify.wake_workers import add_worker_listener, remove_worker_listener
from jobexec.operations.values.ranking import rank
from tests.support.factories import a_run, acquire, make_job, make_node, make_row, reload, table_of
from tests.support.outside import MINUTE, fetch, held_by_worker, make_external, missed_by_worker

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HELD = f"the worker w1 holds it until {NOW + MINUTE}"


@pytest.fixture
def woken():
    """The types for which workers were woken, commit by commit."""
    found = []

    def listen(using, types):
        found.append(set(types))

    add_worker_listener(listen)
    yield found
    remove_worker_listener(listen)


def locks(alias):
    return sorted(ExclusiveLock.objects.using(alias).values_list("process_instance_id", flat=True))


def dead(alias, **options):
    """A dead letter whose worker has used up its retries."""
    job = held_by_worker(alias, retries=1, **options)
    fail_external_job(alias, job.job_key, retries=0, message="No account")
    return DeadLetterJob.objects.using(alias).get(pk=job.pk)


def one_or_many(alias, made):
    """A row as an operation takes it, and a queryset of it and another, which are done at once."""
    return made[0] if len(made) == 1 else type(made[0])._base_manager.using(alias).filter(pk__in=[m.pk for m in made])


@pytest.mark.parametrize("count", [1, 3])
def test_a_requeued_dead_letter_is_fetched_again_by_its_key(alias, count, woken, django_capture_on_commit_callbacks):
    letters = [dead(alias) for _ in range(count)]
    woken.clear()
    with django_capture_on_commit_callbacks(using=alias, execute=True):
        result = requeue(one_or_many(alias, letters), 2, using=alias)
    assert set(result.changed) == {letter.pk for letter in letters}
    assert woken == [{"payment"}]
    assert not Job.objects.using(alias).exists()
    jobs = fetch(alias)
    assert {job.key for job in jobs} == {letter.job_key for letter in letters}
    assert {job.retries for job in jobs} == {2}
    assert not Incident.objects.using(alias).filter(state="open").exists()


@pytest.mark.parametrize("count", [1, 3])
def test_a_covered_dead_letter_is_suspended_and_comes_back_later(alias, count):
    letters = [dead(alias, tenant_id="acme") for _ in range(count)]
    suspend(tenant_id="acme", using=alias)
    requeue(one_or_many(alias, letters), using=alias)
    assert {table_of(alias, letter) for letter in letters} == {SuspendedJob}
    assert SuspendedJob.objects.using(alias).filter(job_key=letters[0].job_key).exists()


def test_executors_and_workers_each_get_their_own_dead_letters(alias):
    ours, theirs = make_job(alias), dead(alias)
    move_to_dead_letter(ours, using=alias)
    requeue([ours.pk, theirs.pk], using=alias)
    assert (table_of(alias, ours), table_of(alias, theirs)) == (Job, ExternalWorkerJob)
    assert [job.id for job in acquire(alias)] == [ours.pk]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("later", [True, False])
def test_a_due_date_keeps_the_job_where_it_is(alias, frozen, count, later, woken, django_capture_on_commit_callbacks):
    jobs = [make_external(alias, delay=60, priority=number) for number in range(count)]
    date = NOW + timedelta(hours=1) if later else None
    with django_capture_on_commit_callbacks(using=alias, execute=True):
        assert len(set_due_date(one_or_many(alias, jobs), date, using=alias).changed) == count
    assert {"payment"} in woken
    for number, job in enumerate(jobs):
        row = reload(alias, job)
        assert isinstance(row, ExternalWorkerJob)
        assert (row.due_date, row.available_at) == (date, date)
        assert row.rank == rank(alias, date or NOW, number)
    assert len(fetch(alias)) == (0 if later else count)
    frozen.tick(timedelta(hours=1))
    assert len(fetch(alias, worker="w2")) == count


@pytest.mark.parametrize("count", [1, 3])
def test_a_job_that_is_put_off_keeps_nobody_waiting(alias, frozen, count):
    """Its worker has let the deadline pass, and holds the process instance until somebody fetches the job again."""
    jobs = [missed_by_worker(alias, frozen, process_instance_id=f"p{n}", exclusive=True) for n in range(count)]
    assert len(locks(alias)) == count
    date = clock.now(alias) + timedelta(hours=1)
    assert len(set_due_date(one_or_many(alias, jobs), date, using=alias).changed) == count
    assert locks(alias) == []
    assert fetch(alias) == []
    frozen.tick(timedelta(hours=1))
    assert {job.id for job in fetch(alias)} == {job.pk for job in jobs}
    assert len(locks(alias)) == count


def test_run_now_ends_a_back_off(alias):
    job = held_by_worker(alias)
    fail_external_job(alias, job.job_key, retries=2, back_off=timedelta(hours=1))
    assert fetch(alias) == []
    assert retry_now(job, using=alias)
    assert [each.id for each in fetch(alias)] == [job.pk]


def test_what_is_not_done_while_a_worker_has_it(alias):
    job = held_by_worker(alias)
    for verb in (retry_now, delete_jobs, move_to_dead_letter):
        assert verb(job, using=alias).skipped == {job.pk: HELD}
        assert verb(ExternalWorkerJob.objects.using(alias).all(), using=alias).skipped == {job.pk: HELD}
    complete_external_job(alias, job.job_key)
    assert table_of(alias, job) is None


def test_retries_and_priority_also_while_a_worker_has_it(alias):
    job = held_by_worker(alias)
    assert set_retries(job, 7, using=alias)
    assert set_priority(job, 5, using=alias)
    row = reload(alias, job)
    assert (row.retries, row.priority, row.revision) == (7, 5, job.revision)
    assert row.rank == rank(alias, NOW, 5)


@pytest.mark.parametrize("count", [1, 3])
def test_a_higher_priority_is_fetched_first(alias, count):
    first, others = make_external(alias), [make_external(alias) for _ in range(count)]
    set_priority(one_or_many(alias, others), 9, using=alias)
    assert [job.id for job in fetch(alias)] == [*(other.pk for other in others), first.pk]


@pytest.mark.parametrize("verb", [cancel, delete_jobs])
@pytest.mark.parametrize("count", [1, 3])
def test_what_waits_is_removed(alias, verb, count):
    jobs = [make_external(alias) for _ in range(count)]
    assert len(verb(one_or_many(alias, jobs), using=alias).changed) == count
    assert {table_of(alias, job) for job in jobs} == {None}
    assert JobLog.objects.using(alias).filter(state__in=["cancelled", "deleted"]).count() == count


def test_what_a_worker_has_is_asked_to_stop(alias, frozen):
    job, told = held_by_worker(alias), []

    def receive(sender, job, **_):
        told.append((sender, job.pk))

    signals.job_cancel_requested.connect(receive)
    try:
        assert cancel(job, using=alias)
    finally:
        signals.job_cancel_requested.disconnect(receive)
    assert reload(alias, job).cancel_requested
    frozen.tick(MINUTE)
    assert fetch(alias, worker="w2") == [], "nobody is given it again"
    assert table_of(alias, job) is None


@pytest.mark.parametrize("verb", [cancel, delete_jobs, move_to_dead_letter, suspend, unlock])
@pytest.mark.parametrize("count", [1, 3])
def test_the_process_instance_of_a_missed_deadline_is_freed(alias, frozen, verb, count):
    jobs = [missed_by_worker(alias, frozen, process_instance_id=f"p{number}") for number in range(count)]
    assert locks(alias) == [f"p{number}" for number in range(count)]
    assert len(verb(one_or_many(alias, jobs), using=alias).changed) == count
    assert locks(alias) == []


def test_siblings_of_executors_run_when_it_is_freed(alias, frozen):
    job = missed_by_worker(alias, frozen, process_instance_id="p")
    sibling = make_job(alias, process_instance_id="p")
    assert acquire(alias) == []
    delete_jobs(job, using=alias)
    assert [each.id for each in acquire(alias)] == [sibling.pk]


def test_workers_are_woken_when_executors_free_an_instance(alias, woken, django_capture_on_commit_callbacks):
    make_job(alias, process_instance_id="p")
    (held,) = acquire(alias)
    outside = {"handler_type": "payment", "type": JobType.EXTERNAL, "job_key": 1}
    job = make_row(ExternalWorkerJob, alias, **outside, process_instance_id="p")
    assert fetch(alias) == []
    with django_capture_on_commit_callbacks(using=alias, execute=True):
        complete_jobs(alias, [(held, a_run(alias))])
    assert woken == [{"payment"}]
    assert [each.id for each in fetch(alias)] == [job.pk]


def test_buried_by_hand_it_has_an_incident_with_a_key(alias):
    job = make_external(alias)
    assert move_to_dead_letter(job, "not before June", using=alias)
    letter = DeadLetterJob.objects.using(alias).get(pk=job.pk)
    assert (letter.job_key, letter.retries, letter.exception_message) == (job.job_key, 0, "not before June")
    assert Incident.objects.using(alias).get(job_id=job.pk).incident_key is not None


def test_unlocked_it_is_given_to_another_worker(alias):
    job = held_by_worker(alias, process_instance_id="p")
    assert unlock(job, using=alias)
    row = reload(alias, job)
    assert (row.lock_owner, row.lock_expiration_time, row.lease_token, row.available_at) == (None, None, "", None)
    assert row.revision == job.revision + 1
    assert locks(alias) == []
    assert [each.id for each in fetch(alias, worker="w2")] == [job.pk]


def test_all_that_a_worker_has_is_unlocked_at_once(alias):
    jobs = [held_by_worker(alias, tenant_id=tenant) for tenant in ("", "acme")]
    other = held_by_worker(alias, "w2")
    assert set(unlock(ExternalWorkerJob.objects.using(alias).filter(lock_owner="w1")).changed) == {j.pk for j in jobs}
    assert {each.id for each in fetch(alias, worker="w3")} == {job.pk for job in jobs}
    assert reload(alias, other).lock_owner == "w2"


def test_unlock_says_that_nobody_has_it(alias):
    job = make_external(alias)
    assert unlock(job, using=alias).skipped == {job.pk: "it is not locked"}


def test_unlocked_after_it_was_cancelled_it_is_gone(alias):
    job = held_by_worker(alias)
    cancel(job, using=alias)
    assert unlock(job, using=alias)
    assert table_of(alias, job) is None


def test_there_is_no_plan_for_its_back_off(alias):
    job = held_by_worker(alias)
    suspend(job, using=alias)
    fail_external_job(alias, job.job_key, retries=2, back_off=MINUTE)
    assert "set a due date" in recalculate_due_date(job, using=alias).skipped[job.pk]


def test_recovery_leaves_workers_alone(alias, frozen):
    job = missed_by_worker(alias, frozen, process_instance_id="p")
    node = make_node(alias)
    frozen.tick(timedelta(days=1))
    recover_node(alias, node)
    assert recover_expired_locks(alias) == 0
    row = reload(alias, job)
    assert (row.lock_owner, row.lost_runs, row.revision) == ("w1", 0, job.revision)
    assert locks(alias) == ["p"]
    complete_external_job(alias, job.job_key, worker="w1")
