"""Deadlines, locks by name, retries and priorities of external jobs, and how they are found."""

from datetime import UTC, datetime, timedelta

import pytest

from jobexec.exceptions import (
    InvalidJob,
    JobNotFound,
    JobStateError,
    NotAllowed,
    StaleLease,
    WrongWorker,
)
from jobexec.models import DeadLetterJob, ExclusiveLock, ExternalWorkerJob, JobLog, SuspendedJob
from jobexec.operations import cancel, suspend
from jobexec.operations.external import (
    Caller,
    complete_external_job,
    extend_external_deadline,
    fail_external_job,
    find_external_job,
    lock_external_job,
    set_external_priority,
    set_external_retries,
    unlock_external_job,
)
from jobexec.operations.notify import wake_workers
from tests.support.factories import fetch, in_hands, make_external, make_job, tables_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
STRANGER = Caller("c", None, frozenset({"other"}))
#: Each verb that changes a job, as a call with what else it takes.
VERBS = {
    "extend": lambda alias, key, **more: extend_external_deadline(alias, key, MINUTE, **more),
    "lock": lambda alias, key, **more: lock_external_job(alias, key, "one", MINUTE, **more),
    "unlock": lambda alias, key, **more: unlock_external_job(alias, key, **more),
    "retries": lambda alias, key, **more: set_external_retries(alias, key, 5, **more),
    "priority": lambda alias, key, **more: set_external_priority(alias, key, 5, **more),
}
verbs = pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)


def row_of(alias, job):
    return ExternalWorkerJob.objects.using(alias).get(job_key=job.key)


def suspended(alias):
    row = make_external(alias)
    suspend(row.pk, using=alias)
    return SuspendedJob.objects.using(alias).get()


@pytest.fixture
def woken(alias, django_capture_on_commit_callbacks):
    found = []

    def listen(using, types):
        found.append(set(types))

    wake_workers.add_worker_listener(listen)

    def during(call):
        found.clear()
        with django_capture_on_commit_callbacks(using=alias, execute=True):
            call()
        return list(found)

    yield during
    wake_workers.remove_worker_listener(listen)


@verbs
def test_none_finds_what_is_not_there_or_not_the_callers(alias, verb):
    job = in_hands(alias, tenant_id="acme")
    with pytest.raises(JobNotFound):
        verb(alias, job.key + 1000)
    with pytest.raises(JobNotFound):
        verb(alias, job.key, caller=STRANGER)
    with pytest.raises(NotAllowed):
        verb(alias, job.key, caller=Caller("c", frozenset({"mail"})))
    verb(alias, job.key, caller=Caller("c", frozenset({"payment"}), frozenset({"acme"})))


@pytest.mark.parametrize("name", ["extend", "lock", "unlock"])
def test_a_dead_letter_or_a_suspended_job_has_no_deadline(alias, name):
    job, held = in_hands(alias), suspended(alias)
    fail_external_job(alias, job.key, retries=0)
    with pytest.raises(JobStateError, match="'FAILED'"):
        VERBS[name](alias, job.key)
    with pytest.raises(JobStateError, match="'SUSPENDED'"):
        VERBS[name](alias, held.job_key)


@pytest.mark.parametrize("name", ["extend", "retries", "priority"])
def test_a_lease_is_looked_at_if_it_is_given(alias, name):
    job = in_hands(alias, lease=True)
    with pytest.raises(StaleLease):
        VERBS[name](alias, job.key, lease="another")
    VERBS[name](alias, job.key, lease=job.lease_token)
    VERBS[name](alias, job.key)


# Deadlines.


def test_a_deadline_counts_from_now(alias, frozen):
    job = in_hands(alias)
    frozen.tick(30)
    extend_external_deadline(alias, job.key, timedelta(minutes=5))
    row = row_of(alias, job)
    assert row.lock_expiration_time == row.available_at == NOW + timedelta(seconds=330)
    frozen.tick(timedelta(minutes=4))
    assert fetch(alias, worker="two") == []


def test_a_shorter_one_is_told_to_those_who_wait(alias, frozen, woken):
    job = in_hands(alias)
    assert woken(lambda: extend_external_deadline(alias, job.key, 2 * MINUTE)) == []
    assert woken(lambda: extend_external_deadline(alias, job.key, timedelta(seconds=1))) == [{"payment"}]
    frozen.tick(1)
    assert [each.id for each in fetch(alias, worker="two")] == [job.id]


@pytest.mark.parametrize("case", ["new", "failed", "expired"])
def test_without_a_running_deadline_there_is_nothing_to_extend(alias, frozen, case):
    key = make_external(alias).job_key if case == "new" else in_hands(alias).key
    if case == "failed":
        fail_external_job(alias, key, retries=1)
    frozen.tick(MINUTE)
    with pytest.raises(JobStateError, match="no worker holds it"):
        extend_external_deadline(alias, key, MINUTE)


def test_only_the_worker_who_has_it_extends_it(alias):
    job = in_hands(alias, worker="one")
    with pytest.raises(WrongWorker):
        extend_external_deadline(alias, job.key, MINUTE, worker="two")
    extend_external_deadline(alias, job.key, 5 * MINUTE, worker="one")
    assert row_of(alias, job).available_at == NOW + 5 * MINUTE


@pytest.mark.parametrize("bad", [timedelta(seconds=-1), 5, None, timedelta.max])
def test_a_timeout_is_a_duration(alias, bad):
    job = in_hands(alias)
    with pytest.raises(InvalidJob, match=r"^timeout: "):
        extend_external_deadline(alias, job.key, bad)
    with pytest.raises(InvalidJob, match=r"^timeout: "):
        lock_external_job(alias, job.key, "one", bad)


# Locking by name.


def test_a_job_can_be_locked_by_name_as_if_it_had_been_fetched(alias):
    row = make_external(alias, process_instance_id="p")
    lock_external_job(alias, row.job_key, "w", MINUTE)
    locked = ExternalWorkerJob.objects.using(alias).get()
    assert (locked.lock_owner, locked.lock_expiration_time, locked.available_at) == ("w", NOW + MINUTE, NOW + MINUTE)
    assert (locked.attempts, locked.revision) == (1, row.revision + 1)
    assert ExclusiveLock.objects.using(alias).get().lock_owner == f"external:{row.pk}"
    assert fetch(alias) == []
    complete_external_job(alias, row.job_key, worker="w")
    assert not ExclusiveLock.objects.using(alias).exists()


def test_the_same_worker_may_lock_it_again_and_another_may_not(alias, frozen):
    job = in_hands(alias, worker="w", process_instance_id="p")
    lock_external_job(alias, job.key, "w", 5 * MINUTE)
    row = row_of(alias, job)
    assert (row.available_at, row.attempts, row.lost_runs) == (NOW + 5 * MINUTE, 1, 0)
    with pytest.raises(WrongWorker, match="the worker 'w' holds it"):
        lock_external_job(alias, job.key, "v", MINUTE)
    frozen.tick(6 * MINUTE)
    lock_external_job(alias, job.key, "v", MINUTE)
    row = row_of(alias, job)
    assert (row.lock_owner, row.attempts, row.lost_runs) == ("v", 2, 1)
    assert ExclusiveLock.objects.using(alias).get().process_instance_id == "p"


def test_a_leased_job_is_locked_by_nobody_without_a_lease_until_it_is_unlocked(alias, frozen):
    job = in_hands(alias, lease=True)
    frozen.tick(6 * MINUTE)
    with pytest.raises(JobStateError, match="it was leased"):
        lock_external_job(alias, job.key, "v", MINUTE)
    unlock_external_job(alias, job.key)
    lock_external_job(alias, job.key, "v", MINUTE)
    with pytest.raises(StaleLease):
        complete_external_job(alias, job.key, lease=job.lease_token)
    complete_external_job(alias, job.key, worker="v")


def test_what_waits_is_suspended_cancelled_or_excluded_cannot_be_locked(alias):
    later = make_external(alias, delay=60)
    with pytest.raises(JobStateError, match="not available before"):
        lock_external_job(alias, later.job_key, "w", MINUTE)
    sibling, other = make_external(alias, process_instance_id="p"), make_external(alias, process_instance_id="p")
    lock_external_job(alias, sibling.job_key, "w", MINUTE)
    with pytest.raises(JobStateError, match="another job of the process instance 'p'"):
        lock_external_job(alias, other.job_key, "w", MINUTE)
    ExternalWorkerJob.objects.using(alias).filter(pk=other.pk).update(cancel_requested=True)
    with pytest.raises(JobStateError, match="cancelled"):
        lock_external_job(alias, other.job_key, "w", MINUTE)
    ExternalWorkerJob.objects.using(alias).filter(pk=other.pk).update(cancel_requested=False, suspend_requested=True)
    with pytest.raises(JobStateError, match="suspended"):
        lock_external_job(alias, other.job_key, "w", MINUTE)


@pytest.mark.parametrize("bad", [None, 5, "x" * 256, "\x00"])
def test_a_worker_has_a_name(alias, bad):
    row = make_external(alias)
    with pytest.raises(InvalidJob, match=r"^worker: "):
        lock_external_job(alias, row.job_key, bad, MINUTE)


def test_an_unlocked_job_is_free_at_once_and_has_lost_nothing(alias, woken):
    job = in_hands(alias, process_instance_id="p", lease=True)
    assert woken(lambda: unlock_external_job(alias, job.key)) == [{"payment"}]
    row = row_of(alias, job)
    assert (row.lock_owner, row.lock_expiration_time, row.retries, row.lost_runs, row.lease_token) == (
        None,
        None,
        3,
        0,
        "",
    )
    assert not ExclusiveLock.objects.using(alias).exists()
    assert not JobLog.objects.using(alias).exists()
    assert [each.id for each in fetch(alias, worker="two")] == [job.id]
    unlock_external_job(alias, job.key, worker="two")


def test_what_nobody_has_fetched_is_left_alone_and_so_is_what_is_anothers(alias, woken):
    row = make_external(alias, delay=60)
    assert woken(lambda: unlock_external_job(alias, row.job_key)) == []
    assert ExternalWorkerJob.objects.using(alias).get().available_at == NOW + MINUTE
    job = in_hands(alias, worker="one")
    with pytest.raises(WrongWorker):
        unlock_external_job(alias, job.key, worker="two")


def test_what_was_to_happen_after_its_worker_happens_when_it_is_unlocked(alias):
    held, unwanted = in_hands(alias), in_hands(alias)
    suspend(held.id, using=alias)
    cancel(unwanted.id, using=alias)
    for job in (held, unwanted):
        unlock_external_job(alias, job.key)
    assert tables_of(alias) == {held.id: [SuspendedJob]}
    assert JobLog.objects.using(alias).get().state == "cancelled"


# Retries and priorities.


def test_retries_are_set_wherever_the_job_is(alias):
    job, dead, held = in_hands(alias), in_hands(alias), suspended(alias)
    fail_external_job(alias, dead.key, retries=0)
    for key in (job.key, dead.key, held.job_key):
        set_external_retries(alias, key, 9)
    places = [(type(row), row.retries) for row in (find_external_job(alias, key) for key in [job.key, dead.key])]
    assert places == [(ExternalWorkerJob, 9), (DeadLetterJob, 9)]
    assert SuspendedJob.objects.using(alias).get().retries == 9
    assert row_of(alias, job).locked, "it is still its worker's"
    complete_external_job(alias, job.key, worker="one")


@pytest.mark.parametrize("bad", [0, -1, None, "3", True, 2**31])
def test_retries_are_at_least_one(alias, bad):
    job = in_hands(alias)
    with pytest.raises(InvalidJob, match=r"^retries: "):
        set_external_retries(alias, job.key, bad)


def test_a_priority_changes_the_order_and_keeps_what_was_waited(alias, frozen):
    first = make_external(alias)
    frozen.tick(1)
    second = make_external(alias)
    set_external_priority(alias, second.job_key, 5)
    assert [each.id for each in fetch(alias, max_jobs=1)] == [second.pk]
    third = make_external(alias)
    set_external_priority(alias, third.job_key, 5)
    set_external_priority(alias, third.job_key, 0)
    jobs = fetch(alias)
    assert [(each.id, each.priority) for each in jobs] == [(first.pk, 0), (third.pk, 0)]
    with pytest.raises(InvalidJob, match=r"^priority: "):
        set_external_priority(alias, first.job_key, 10**7)


# Finding.


def test_a_job_is_found_wherever_its_key_is_good(alias):
    job, dead, held = in_hands(alias), in_hands(alias), suspended(alias)
    fail_external_job(alias, dead.key, retries=0)
    assert find_external_job(alias, job.key).pk == job.id
    assert isinstance(find_external_job(alias, dead.key), DeadLetterJob)
    assert isinstance(find_external_job(alias, held.job_key), SuspendedJob)
    make_job(alias)
    for key in (0, -1, 2**63, held.job_key + 1000):
        with pytest.raises(JobNotFound):
            find_external_job(alias, key)
    with pytest.raises(JobNotFound):
        find_external_job(alias, job.key, caller=STRANGER)
