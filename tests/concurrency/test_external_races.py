"""Workers who report at the same moment: of several outcomes of one job one counts, and nobody waits in a circle."""

from collections import Counter
from datetime import timedelta
from functools import partial

import pytest
from django.db import OperationalError, transaction

from jobexec.exceptions import IncidentNotFound, JobNotFound, JobStateError, WrongWorker
from jobexec.handlers import registry
from jobexec.handlers.decorator import job as job_decorator
from jobexec.models import (
    JOB_TABLES,
    DeadLetterJob,
    ExclusiveLock,
    ExternalWorkerJob,
    Incident,
    IncidentState,
    Job,
    JobLog,
    SuspendedJob,
)
from jobexec.operations import activate, suspend
from jobexec.operations.external import (
    complete_external_job,
    extend_external_deadline,
    fail_external_job,
    lock_external_job,
    resolve_external_incident,
    set_external_retries,
    throw_external_error,
    unlock_external_job,
)
from jobexec.operations.external.find import in_transaction
from tests.support.factories import fetch, in_hands, make_external, tables_of
from tests.support.threads import finish, held, start, together, undo, wait_until_waiting

pytestmark = pytest.mark.transactional
servers = pytest.mark.databases("postgresql", "mariadb")
WORKERS = ("one", "two", "three", "four")


@pytest.fixture(autouse=True)
def after():
    with registry.isolated():
        job_decorator(name="tests.after")(lambda variables: None)
        yield


def told(call):
    """What a worker is told: nothing, or the name of a refusal."""
    try:
        call()
    except (JobNotFound, JobStateError, IncidentNotFound, WrongWorker) as error:
        return type(error).__name__
    return "done"


def test_of_workers_that_fetch_at_once_each_job_goes_to_one(alias):
    for number in range(12):
        make_external(alias, process_instance_id="p" if number % 4 == 0 else "")

    def until_nothing_is_found(worker):
        taken = []
        while page := fetch(alias, worker=worker, max_jobs=2):
            taken += [job.id for job in page]
        return taken

    taken = together(alias, *[partial(until_nothing_is_found, worker) for worker in WORKERS])
    assert max(Counter(id for ids in taken for id in ids).values()) == 1
    rows = ExternalWorkerJob.objects.using(alias)
    assert {row.pk: row.lock_owner for row in rows.exclude(lock_owner=None)} == {
        id: worker for worker, ids in zip(WORKERS, taken, strict=True) for id in ids
    }
    assert {row.process_instance_id for row in rows.filter(lock_owner=None)} <= {"p"}
    assert rows.filter(lock_owner=None).count() == 2, "the siblings of the exclusive job that a worker holds"


@servers
def test_the_second_worker_passes_over_what_the_first_is_just_fetching(alias):
    rows = [make_external(alias) for _ in range(3)]
    with held(alias) as inside:
        first = inside(partial(fetch, alias, worker="one", max_jobs=2))
        second = finish(start(alias, partial(fetch, alias, worker="two")))
        third = finish(start(alias, partial(fetch, alias, worker="three", max_jobs=2)))
    assert [job.id for job in first] == [row.pk for row in rows[:2]]
    assert [job.id for job in second] == [rows[2].pk], "without waiting"
    assert third == [], "without an error"


def test_of_workers_that_lock_one_job_by_its_key_one_has_it(alias):
    for _ in range(5):
        row = make_external(alias, process_instance_id="p", exclusive=False)
        calls = [partial(lock_external_job, alias, row.job_key, worker, timedelta(minutes=1)) for worker in WORKERS]
        results = together(alias, *[partial(told, call) for call in calls])
        assert Counter(results) == {"done": 1, "WrongWorker": 3}
        locked = ExternalWorkerJob.objects.using(alias).get(pk=row.pk)
        assert (locked.lock_owner, locked.attempts) == (WORKERS[results.index("done")], 1)


@pytest.mark.gate
@pytest.mark.parametrize("callback", [None, "tests.after"])
def test_of_several_completions_exactly_one_counts(alias, callback):
    for _ in range(5):
        job = in_hands(alias, on_complete=callback, process_instance_id="p", exclusive=False)
        results = together(alias, *[partial(told, partial(complete_external_job, alias, job.key)) for _ in range(4)])
        assert Counter(results) == {"done": 1, "JobNotFound": 3}
    assert JobLog.objects.using(alias).filter(state="successful").count() == 5
    assert Job.objects.using(alias).count() == (5 if callback else 0)
    assert not ExternalWorkerJob.objects.using(alias).exists()


@pytest.mark.gate
def test_of_different_outcomes_exactly_one_counts(alias):
    for _ in range(5):
        job = in_hands(alias, on_complete="tests.after")
        calls = [
            partial(complete_external_job, alias, job.key),
            partial(fail_external_job, alias, job.key, retries=0),
            partial(throw_external_error, alias, job.key, code="A"),
        ]
        results = together(alias, *[partial(told, call) for call in calls])
        assert results.count("done") == 1, results
        ((place,),) = tables_of(alias).values()
        assert place is (Job if results[0] == "done" else DeadLetterJob)
        incidents = Incident.objects.using(alias).filter(state=IncidentState.OPEN)
        assert incidents.count() == (results[0] != "done")
        assert JobLog.objects.using(alias).count() == 1
        for table in (*JOB_TABLES, Incident, JobLog):
            table._base_manager.using(alias).all().delete()


@servers
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("callback", [None, "tests.after"])
def test_the_second_waits_for_the_first_and_counts_only_if_that_gives_up(alias, commits, callback):
    job = in_hands(alias, on_complete=callback)
    with held(alias) as inside:
        inside(partial(complete_external_job, alias, job.key))
        other = start(alias, partial(told, partial(complete_external_job, alias, job.key)))
        wait_until_waiting(alias, other)
        if not commits:
            inside(undo)
    assert finish(other) == ("JobNotFound" if commits else "done")
    assert JobLog.objects.using(alias).count() == 1


@servers
def test_a_completion_that_waits_for_the_last_failure_is_told_of_the_state(alias):
    job = in_hands(alias)
    with held(alias) as inside:
        inside(partial(fail_external_job, alias, job.key, retries=0))
        other = start(alias, partial(told, partial(complete_external_job, alias, job.key)))
        wait_until_waiting(alias, other)
    assert finish(other) == "JobStateError"
    assert list(tables_of(alias).values()) == [[DeadLetterJob]]


@servers
def test_a_completion_that_waits_for_a_failure_with_retries_left_still_counts(alias):
    job = in_hands(alias)
    with held(alias) as inside:
        inside(partial(fail_external_job, alias, job.key, retries=2))
        other = start(alias, partial(told, partial(complete_external_job, alias, job.key)))
        wait_until_waiting(alias, other)
    assert finish(other) == "done"
    assert tables_of(alias) == {}


@servers
def test_a_fetch_passes_over_what_is_just_being_reported(alias):
    job = in_hands(alias)
    with held(alias) as inside:
        inside(partial(unlock_external_job, alias, job.key))
        assert finish(start(alias, partial(fetch, alias, worker="two"))) == []
    (again,) = fetch(alias, worker="two")
    assert again.id == job.id


@servers
def test_a_failure_waits_for_whoever_lifts_the_suspension_and_is_not_left_behind(alias):
    job = in_hands(alias, process_instance_id="p")
    suspend(process_instance_id="p", using=alias)
    with held(alias) as inside:
        inside(partial(activate, process_instance_id="p", using=alias))
        failure = start(alias, partial(fail_external_job, alias, job.key, retries=1))
        wait_until_waiting(alias, failure)
    finish(failure)
    assert tables_of(alias) == {job.id: [ExternalWorkerJob]}
    assert not SuspendedJob.objects.using(alias).exists()


def test_a_conflict_of_the_database_is_tried_again_unless_the_transaction_is_the_callers(alias):
    calls = []

    def conflicting():
        calls.append(1)
        if len(calls) < 3:
            raise OperationalError("database is locked")  # is a conflict by its text, whatever the database
        return "done"

    with pytest.raises(OperationalError), transaction.atomic(using=alias):
        in_transaction(alias, conflicting)
    assert len(calls) == 1
    assert in_transaction(alias, conflicting) == "done"
    assert len(calls) == 3

    def endless():
        calls.append(1)
        raise OperationalError("database is locked")

    with pytest.raises(OperationalError):
        in_transaction(alias, endless)
    assert len(calls) == 8, "five times"


def test_an_incident_is_resolved_once(alias):
    job = in_hands(alias)
    fail_external_job(alias, job.key, retries=0)
    set_external_retries(alias, job.key, 2)
    key = Incident.objects.using(alias).get().incident_key
    results = together(alias, *[partial(told, partial(resolve_external_incident, alias, key)) for _ in range(3)])
    assert Counter(results) == {"done": 1, "IncidentNotFound": 2}
    assert tables_of(alias) == {job.id: [ExternalWorkerJob]}


def test_incidents_that_are_opened_at_once_have_keys_of_their_own(alias):
    jobs = [in_hands(alias) for _ in range(6)]
    together(alias, *[partial(fail_external_job, alias, job.key, retries=0) for job in jobs])
    keys = {job.key for job in jobs} | set(Incident.objects.using(alias).values_list("incident_key", flat=True))
    assert len(keys) == 12


def test_many_workers_finish_each_job_once(alias):
    """Four workers fetch, complete, fail, extend and unlock over three process instances."""
    instances = ["p", "q", "r", ""]
    rows = [
        make_external(alias, process_instance_id=instances[number % 4], retries=3, on_complete="tests.after")
        for number in range(24)
    ]

    def work(name):
        done = []
        for round_ in range(200):
            jobs = fetch(alias, worker=name, max_jobs=3, timeout=timedelta(minutes=5))
            for number, job in enumerate(jobs):
                extend_external_deadline(alias, job.key, timedelta(minutes=6), worker=name)
                if (round_ + number) % 5 == 3 and job.failures < 2:
                    fail_external_job(alias, job.key, retries=2, worker=name)
                elif (round_ + number) % 5 == 4 and round_ < 10:
                    unlock_external_job(alias, job.key, worker=name)
                else:
                    complete_external_job(alias, job.key, {"by": name}, worker=name)
                    done.append(job.id)
            if not jobs and not ExternalWorkerJob.objects.using(alias).exists():
                break
        return done

    finished = [id for ids in together(alias, *[partial(work, name) for name in "abcd"]) for id in ids]
    assert Counter(finished) == Counter(row.pk for row in rows)
    assert not ExternalWorkerJob.objects.using(alias).exists()
    assert not ExclusiveLock.objects.using(alias).exists()
    assert Job.objects.using(alias).count() == 24
    assert JobLog.objects.using(alias).filter(state="successful").count() == 24
