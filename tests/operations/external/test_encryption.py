"""External jobs whose variables are encrypted: workers get them decrypted, the database never has them."""

import base64
import json
import os
from datetime import timedelta

import pytest

from jobexec import clock, encryption, get_result
from jobexec.exceptions import InvalidJob
from jobexec.models import DeadLetterJob, ExternalWorkerJob, Incident, Job, JobLog, Resource, TaskResult, TimerJob
from jobexec.operations import activate, reencrypt, requeue, suspend
from jobexec.operations.external import complete_external_job, fail_external_job, throw_external_error
from jobexec.operations.resources import calls
from jobexec.operations.resources.promote import blocked_resources, promote
from tests.support.executor import run_one
from tests.support.outside import fetch, held_by_worker, make_external

pytestmark = [pytest.mark.transactional, pytest.mark.every_database]

SECRET = "marker-4111-1111"
KEY = base64.urlsafe_b64encode(os.urandom(32)).decode()


@pytest.fixture(autouse=True)
def keys(settings, alias):
    def change(**keys):
        settings.JOBEXEC = {"ENGINES": {alias: {}}, "ENCRYPTION_KEYS": keys}

    change(k1=KEY)
    yield change
    calls._of_workers.clear()


def rows_of(*tables, alias):
    return json.dumps([list(table.objects.using(alias).values()) for table in tables], default=str)


def nowhere(alias):
    tables = (ExternalWorkerJob, Job, TimerJob, DeadLetterJob, JobLog, Incident, TaskResult, Resource)
    return SECRET not in rows_of(*tables, alias=alias)


def make(alias, **options):
    return make_external(alias, variables={"card": SECRET}, encrypted=True, **options)


def test_a_worker_gets_them_decrypted(alias):
    job = make(alias, business_key="order-17", element_id="charge", tags=["vip"])
    assert SECRET not in json.dumps(job.handler_configuration)
    assert nowhere(alias)
    (found,) = fetch(alias)
    assert found.variables == {"card": SECRET}
    assert (found.business_key, found.element_id, found.tags) == ("order-17", "charge", ("vip",))
    complete_external_job(alias, found.key)
    assert not ExternalWorkerJob.objects.using(alias).exists()


@pytest.mark.parametrize("value", [{"card": SECRET, "of": object()}, [SECRET], {1: SECRET}])
def test_no_error_quotes_them(alias, handle, value):
    callback = handle(lambda variables, order: None, name="tests.after")
    for options in ({"variables": value}, {"variables": {}, "on_complete": (callback, {"order": value})}):
        if options["variables"] == {} and (isinstance(value, list) or 1 in value):
            continue  # a fine argument
        with pytest.raises(InvalidJob) as caught:
            make_external(alias, encrypted=True, **options)
        assert SECRET not in str(caught.value)


def test_the_setting_applies_to_them(alias, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "ENCRYPT_ARGUMENTS": True}
    make_external(alias, variables={"card": SECRET})
    assert nowhere(alias)


def test_the_next_job_gets_them_and_is_encrypted(alias, handle):
    seen = []

    def after(variables, order):
        seen.append((variables, order))

    callback = handle(after, name="tests.after")
    held_by_worker(alias, variables={"card": SECRET}, encrypted=True, on_complete=(callback, {"order": SECRET}))
    job = ExternalWorkerJob.objects.using(alias).get()
    assert nowhere(alias)
    complete_external_job(alias, job.job_key, {"paid": SECRET})
    assert encryption.key_of(Job.objects.using(alias).get().handler_configuration) == "k1"
    assert nowhere(alias)
    run_one(alias)
    assert seen == [({"card": SECRET, "paid": SECRET}, SECRET)]


def test_a_callback_that_somebody_writes_beside_the_envelope_is_none(alias, handle):
    handle(lambda variables: None, name="tests.print")
    job = held_by_worker(alias, variables={"card": SECRET}, encrypted=True)
    added = {"on_complete": {"handler": "tests.print", "kwargs": {}, "columns": {}}, "local": {"card": "other"}}
    rows = ExternalWorkerJob.objects.using(alias)
    rows.update(handler_configuration={**job.handler_configuration, **added})
    complete_external_job(alias, job.job_key)
    assert not Job.objects.using(alias).exists()
    assert not rows.exists()


def test_a_callback_may_be_encrypted_alone(alias, handle):
    seen = []
    callback = handle(lambda variables: seen.append(variables), name="tests.after", encrypted=True)
    job = held_by_worker(alias, on_complete=callback)
    complete_external_job(alias, job.job_key, {"paid": SECRET})
    assert nowhere(alias)
    run_one(alias)
    assert seen == [{"paid": SECRET}]


@pytest.mark.parametrize("which", ["on_complete", "on_error"])
def test_fixed_arguments_of_an_encrypted_callback_are_encrypted(alias, handle, which):
    callback = handle(lambda order, **given: None, name="tests.after", encrypted=True)
    with pytest.raises(InvalidJob, match=r"the fixed arguments of tests\.after would be stored as they are"):
        make_external(alias, encrypted=False, **{which: (callback, {"order": SECRET})})
    make_external(alias, **{which: (callback, {"order": SECRET})})
    assert nowhere(alias)
    (found,) = fetch(alias)
    if which == "on_complete":
        complete_external_job(alias, found.key)
    else:
        throw_external_error(alias, found.key, code="E1")
    assert Job.objects.using(alias).get().handler_type == "tests.after"
    assert nowhere(alias)


@pytest.mark.parametrize("retries", [0, 2])
def test_no_text_of_a_failure_is_recorded_and_new_variables_are_encrypted(alias, retries):
    job = held_by_worker(alias, variables={"card": SECRET}, encrypted=True)
    told = {"message": f"no {SECRET}", "details": f"at {SECRET}"}
    fail_external_job(alias, job.job_key, retries=retries, **told, local_variables={"tried": SECRET})
    assert nowhere(alias)
    if retries:
        (again,) = fetch(alias)
        assert again.variables == {"card": SECRET, "tried": SECRET}
        assert (again.failures, again.error_message) == (1, encryption.NOT_RECORDED)


def test_an_error_reaches_its_handler_with_its_text_and_no_record(alias, handle):
    seen = []
    callback = handle(lambda **given: seen.append(given), name="tests.caught")
    job = held_by_worker(alias, variables={"card": SECRET}, encrypted=True, on_error={"E1": callback})
    throw_external_error(alias, job.job_key, code="E1", message=f"no {SECRET}")
    assert nowhere(alias)
    run_one(alias)
    assert seen == [{"variables": {"card": SECRET}, "error_code": "E1", "error_message": f"no {SECRET}"}]


def test_an_error_that_nobody_handles_leaves_its_code(alias):
    job = held_by_worker(alias, variables={"card": SECRET}, encrypted=True)
    throw_external_error(alias, job.job_key, code="E1", message=f"no {SECRET}")
    assert nowhere(alias)
    assert f"E1: {encryption.NOT_RECORDED}" in DeadLetterJob.objects.using(alias).get().exception_message


def test_what_cannot_be_decrypted_is_set_aside_and_blocks_no_other(alias, keys):
    broken = make(alias)
    keys(k2=KEY, k1=KEY)
    fine = make(alias)
    keys(k2=KEY)
    assert [job.id for job in fetch(alias)] == [fine.pk]
    dead = DeadLetterJob.objects.using(alias).get()
    assert dead.pk == broken.pk
    assert "'k1', which is not in ENCRYPTION_KEYS" in dead.exception_message
    keys(k1=KEY)
    assert requeue(dead, using=alias)
    assert fetch(alias)[0].variables == {"card": SECRET}


def test_a_later_release_is_waited_for(alias):
    job = make(alias)
    rows = ExternalWorkerJob.objects.using(alias)
    rows.update(handler_configuration={"encrypted": {**job.handler_configuration["encrypted"], "version": 9}})
    other = make(alias)
    assert [each.id for each in fetch(alias)] == [other.pk]
    row = rows.get(pk=job.pk)
    assert timedelta(seconds=25) < row.available_at - clock.now(alias) < timedelta(seconds=31)
    assert (row.retries, row.attempts, row.lost_runs, row.lock_owner) == (3, 0, 0, None)


def test_what_waits_for_a_later_release_is_still_leased(alias):
    job = make(alias)
    rows = ExternalWorkerJob.objects.using(alias)
    rows.update(
        handler_configuration={"encrypted": {**job.handler_configuration["encrypted"], "version": 9}}, lease_token="t"
    )
    assert fetch(alias, with_lease=True) == []
    row = rows.get()
    assert (row.lease_token, row.available_at is None) == ("t", False)


@pytest.mark.parametrize("instance", ["", "order-17"])
def test_a_kept_result_is_encrypted_and_kept_as_long_as_the_job_says(alias, frozen, instance):
    job = held_by_worker(
        alias, variables={"card": SECRET}, encrypted=True, keep_result="PT1H", process_instance_id=instance
    )
    complete_external_job(alias, job.job_key, {"receipt": SECRET})
    assert nowhere(alias)
    row = TaskResult.objects.using(alias).get()
    assert encryption.key_of(row.return_value) == "k1"
    assert row.expires_at == row.end_time + timedelta(hours=1)
    assert get_result(job.pk, using=alias).return_value == {"receipt": SECRET}


def test_a_kept_result_that_looks_like_an_envelope_is_read_as_it_was_sent(alias):
    sent = {"encrypted": {"version": 1, "key": "none", "data": ""}}
    job = held_by_worker(alias, keep_result=True)
    complete_external_job(alias, job.job_key, sent)
    assert get_result(job.pk, using=alias).return_value == sent


def test_a_thrown_error_opens_a_breaker_without_its_text(alias, settings, caplog):
    breaker = {"minimum_calls": 1, "window": 1, "failure_rate": 100}
    settings.JOBEXEC = {**settings.JOBEXEC, "RESOURCES": {"pay.example": {"breaker": breaker}}}
    make(alias, resource="pay.example")
    promote(alias, blocked_resources(alias), 1)
    (held,) = fetch(alias)
    throw_external_error(alias, held.key, code="E1", message=f"no {SECRET}")
    assert "E1" in Resource.objects.using(alias).get().reason
    assert nowhere(alias)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("encrypted", [True, False])
def test_encrypted_again_while_it_is_suspended_a_job_still_needs_a_lease(alias, keys, encrypted):
    make_external(alias, variables={"card": SECRET}, encrypted=encrypted)
    (held,) = fetch(alias, with_lease=True)
    suspend(held.id, using=alias)
    fail_external_job(alias, held.key, retries=1, lease=held.lease_token)
    keys(k2=KEY, k1=KEY)
    assert reencrypt(held.id, True, using=alias)
    activate(held.id, using=alias)
    row = ExternalWorkerJob.objects.using(alias).get()
    assert encryption.key_of(row.handler_configuration) == "k2"
    assert row.lease_token == held.lease_token
    assert not fetch(alias), "a worker without a lease"
    assert fetch(alias, with_lease=True)[0].variables == {"card": SECRET}
