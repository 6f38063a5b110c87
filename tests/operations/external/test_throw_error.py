"""Errors that workers throw and nothing catches, and the end of incidents."""

from datetime import UTC, datetime, timedelta

import pytest

from jobexec.exceptions import (
    IncidentNotFound,
    InvalidJob,
    JobNotFound,
    JobStateError,
    NotAllowed,
    StaleLease,
    WrongWorker,
)
from jobexec.models import DeadLetterJob, ExclusiveLock, ExternalWorkerJob, Incident, JobLog, SuspendedJob
from jobexec.operations import cancel, delete_jobs, requeue, suspend
from jobexec.operations.external import (
    Caller,
    complete_external_job,
    fail_external_job,
    find_external_job,
    resolve_external_incident,
    set_external_retries,
    throw_external_error,
)
from jobexec.operations.notify import wake_workers
from tests.support.factories import fetch, in_hands, reload, tables_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def incident_of(alias):
    return Incident.objects.using(alias).get()


def dead(alias, **options):
    """A job without retries, and the key of its incident."""
    job = in_hands(alias, **options)
    fail_external_job(alias, job.key, retries=0, message="no")
    return job, Incident.objects.using(alias).get(job_id=job.id).incident_key


def test_what_nothing_catches_is_an_incident(alias):
    job = in_hands(alias, worker="w", process_instance_id="p", retries=2)
    throw_external_error(alias, job.key, code="STOLEN", message="the card", variables={"a": 1})
    row, incident = DeadLetterJob.objects.using(alias).get(), incident_of(alias)
    assert (row.job_key, row.retries, row.died_at) == (job.key, 2, NOW)
    assert row.exception_message == incident.message == "Nothing catches the error STOLEN: the card"
    assert (incident.type, incident.state) == ("unhandledError", "open")
    assert incident.incident_key
    assert row.fingerprint == incident.fingerprint == JobLog.objects.using(alias).get().fingerprint
    assert not ExclusiveLock.objects.using(alias).exists()
    with pytest.raises(JobStateError, match="'ERROR_THROWN'"):
        complete_external_job(alias, job.key)


def test_another_code_catches_nothing(alias, handle):
    handle(lambda variables, error_code, error_message: None, name="tests.caught")
    job = in_hands(alias, on_error={"LOST": "tests.caught"})
    throw_external_error(alias, job.key, code="STOLEN")
    assert incident_of(alias).message == "Nothing catches the error STOLEN"


def test_it_can_be_resolved_at_once_for_no_retry_was_used(alias):
    job = in_hands(alias)
    throw_external_error(alias, job.key, code="STOLEN")
    resolve_external_incident(alias, incident_of(alias).incident_key)
    assert [each.id for each in fetch(alias)] == [job.id]


@pytest.mark.parametrize("code", ["", " ", None, 5, "a\x00"])
def test_a_code_is_needed(alias, code):
    job = in_hands(alias)
    with pytest.raises(InvalidJob, match=r"^code: "):
        throw_external_error(alias, job.key, code=code)


def test_it_is_fenced_like_a_completion(alias, frozen):
    job = in_hands(alias, worker="one", lease=True)
    with pytest.raises(StaleLease):
        throw_external_error(alias, job.key, code="A")
    with pytest.raises(WrongWorker):
        throw_external_error(alias, job.key, code="A", lease=job.lease_token, worker="two")
    with pytest.raises(JobNotFound):
        throw_external_error(alias, job.key, code="A", caller=Caller("c", None, frozenset()))
    throw_external_error(alias, job.key, code="A", lease=job.lease_token, worker="one")
    with pytest.raises(JobStateError):
        throw_external_error(alias, job.key, code="A", lease=job.lease_token)


def test_a_message_is_cut_and_shows_no_secrets(alias):
    job = in_hands(alias, variables={"password": "swordfish"})
    throw_external_error(alias, job.key, code="A", message="swordfish" + "x" * 5000)
    message = incident_of(alias).message
    assert len(message) == 4000
    assert message.startswith("Nothing catches the error A: ●●●x")


def test_one_that_was_cancelled_meanwhile_opens_none(alias):
    job = in_hands(alias)
    cancel(job.id, using=alias)
    throw_external_error(alias, job.key, code="A", message="b")
    assert tables_of(alias) == {}
    line = JobLog.objects.using(alias).get()
    assert (line.state, line.exception_message) == ("cancelled", "A: b")


# The end of incidents.


def test_retries_first_and_then_the_job_is_there_again(alias, django_capture_on_commit_callbacks):
    heard = []
    listen = lambda using, types: heard.append(set(types))  # noqa: E731
    job, key = dead(alias, variables={"a": 1})
    with pytest.raises(JobStateError, match=f"incident with key '{key}', but the job with key '{job.key}' has no"):
        resolve_external_incident(alias, key)
    set_external_retries(alias, job.key, 2)
    assert tables_of(alias) == {job.id: [DeadLetterJob]}, "it is not requeued"
    assert incident_of(alias).state == "open"
    wake_workers.add_worker_listener(listen)
    try:
        with django_capture_on_commit_callbacks(using=alias, execute=True):
            resolve_external_incident(alias, key)
    finally:
        wake_workers.remove_worker_listener(listen)
    assert heard == [{"payment"}]
    assert (incident_of(alias).state, incident_of(alias).end_time) == ("resolved", NOW)
    (again,) = fetch(alias)
    assert (again.id, again.key, again.retries, again.variables) == (job.id, job.key, 2, {"a": 1})
    complete_external_job(alias, job.key)
    assert tables_of(alias) == {}


def test_one_that_is_over_or_never_was_is_not_found(alias):
    job, key = dead(alias)
    set_external_retries(alias, job.key, 1)
    resolve_external_incident(alias, key)
    for wrong in (key, job.key, key + 1000, 0, -5, 2**63):
        with pytest.raises(IncidentNotFound, match=f"'{wrong}', but no such incident"):
            resolve_external_incident(alias, wrong)


def test_a_second_incident_of_the_same_job_has_a_key_of_its_own(alias):
    job, first = dead(alias)
    set_external_retries(alias, job.key, 1)
    resolve_external_incident(alias, first)
    fetch(alias)
    fail_external_job(alias, job.key, retries=0)
    second = Incident.objects.using(alias).get(state="open").incident_key
    assert second != first
    set_external_retries(alias, job.key, 1)
    with pytest.raises(IncidentNotFound):
        resolve_external_incident(alias, first)
    resolve_external_incident(alias, second)


def test_it_is_not_there_for_whoever_may_not_see_the_job(alias):
    job, key = dead(alias, tenant_id="acme")
    set_external_retries(alias, job.key, 1)
    with pytest.raises(IncidentNotFound):
        resolve_external_incident(alias, key, caller=Caller("c", None, frozenset({""})))
    with pytest.raises(NotAllowed):
        resolve_external_incident(alias, key, caller=Caller("c", frozenset({"mail"})))
    resolve_external_incident(alias, key, caller=Caller("c", frozenset({"payment"}), frozenset({"acme"})))


def test_what_is_suspended_waits_with_its_key(alias):
    job, key = dead(alias, process_instance_id="p")
    suspend(process_instance_id="p", using=alias)
    set_external_retries(alias, job.key, 1)
    resolve_external_incident(alias, key)
    assert (type(find_external_job(alias, job.key)), incident_of(alias).state) == (SuspendedJob, "resolved")


@pytest.mark.parametrize("verb", [delete_jobs, requeue])
def test_it_ends_with_whatever_ends_the_dead_letter(alias, verb):
    job, key = dead(alias)
    assert verb(job.id, using=alias)
    with pytest.raises(IncidentNotFound):
        resolve_external_incident(alias, key)


def test_requeueing_by_hand_gives_the_job_back_to_the_workers(alias, frozen):
    job, _ = dead(alias)
    frozen.tick(timedelta(minutes=1))
    assert requeue(job.id, 4, using=alias)
    row = reload(alias, job)
    assert (type(row), row.job_key, row.retries, row.exception_message) == (ExternalWorkerJob, job.key, 4, "")
    assert [each.id for each in fetch(alias)] == [job.id]
