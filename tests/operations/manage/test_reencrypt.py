"""Encrypting again: with the newest key, whatever state a job is in, and nothing else changes."""

import base64
import json
import os

import pytest

from jobexec import encryption
from jobexec.exceptions import InvalidJob
from jobexec.models import AuditLog, Batch, Job, Message, OperatorType, SuspendedJob, TaskResult
from jobexec.operations import Operator, acting, move_to_dead_letter, publish_message, reencrypt, start_batch, suspend
from jobexec.operations.manage.reencrypt import reencrypt_results
from jobexec.operations.manage.reveal import reveal
from jobexec.operations.messages.deliver import deliver
from jobexec.operations.tasks.results import find_task_result
from jobexec.operations.values.messages import ReceivedMessage
from tests.support.batches import run_to_the_end
from tests.support.executor import run_one
from tests.support.factories import acquire, make_job, reload
from tests.support.jobs_command import jobs
from tests.support.outside import fetch, make_external

pytestmark = [pytest.mark.transactional, pytest.mark.every_database]

SECRET = "marker-4111-1111"


def a_key():
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


OLD, NEW = a_key(), a_key()


@pytest.fixture(autouse=True)
def keys(settings, alias):
    def change(**keys):
        settings.JOBEXEC = {"ENGINES": {alias: {}}, "ENCRYPTION_KEYS": keys}

    change(old=OLD)
    return change


@pytest.fixture
def charge(alias, handle):
    seen = []
    handler = handle(lambda card: seen.append(card), name="tests.charge", encrypted=True).using(database=alias)
    handler.seen = seen
    return handler


def key_of(row, alias):
    return encryption.key_of(reload(alias, row).handler_configuration)


@pytest.mark.gate
def test_jobs_in_every_state_get_the_newest_key(alias, charge, keys):
    running, due, later, dead, held = (charge.using(delay=60 * (n == 2)).enqueue(SECRET) for n in range(5))
    outside, plain = make_external(alias, variables={"card": SECRET}, encrypted=True), make_job(alias)
    move_to_dead_letter(dead, using=alias)
    suspend(held, using=alias)
    (work,) = acquire(alias, "one", limit=1)
    assert work.id == running.pk
    rows = [running, due, later, dead, held, outside]
    assert {key_of(row, alias) for row in rows} == {"old"}
    keys(new=NEW, old=OLD)
    revision = reload(alias, running).revision
    result = reencrypt([*(row.pk for row in rows), plain.pk], using=alias)
    assert not result.skipped
    assert {key_of(row, alias) for row in rows} == {"new"}
    assert reload(alias, running).revision == revision, "its run still counts"
    assert reload(alias, plain).handler_configuration == plain.handler_configuration
    keys(new=NEW)
    run_one(alias)
    assert charge.seen == [SECRET]
    assert fetch(alias)[0].variables == {"card": SECRET}


def test_plain_jobs_are_encrypted_if_that_is_asked_for(alias, charge):
    row = charge.using(encrypted=False).enqueue(SECRET)
    assert reencrypt(row, True, using=alias)
    assert key_of(row, alias) == "old"
    run_one(alias)
    assert charge.seen == [SECRET]


def test_one_that_cannot_be_decrypted_is_skipped_with_the_reason(alias, charge, keys):
    lost = charge.enqueue(SECRET)
    keys(new=NEW)
    fine = charge.enqueue(SECRET)
    result = reencrypt(Job.objects.using(alias).all(), using=alias)
    assert result.changed == [fine.pk]
    assert "'old', which is not in ENCRYPTION_KEYS" in result.skipped[lost.pk]


def test_without_a_key_it_is_refused(alias, charge, keys):
    row = charge.enqueue(SECRET)
    keys()
    with pytest.raises(InvalidJob, match="ENCRYPTION_KEYS"):
        reencrypt(row, using=alias)


def test_no_batch_begins_without_a_key(alias, charge, keys):
    charge.enqueue(SECRET)
    keys()
    with pytest.raises(InvalidJob, match="ENCRYPTION_KEYS"):
        start_batch("reencrypt", Job.objects.using(alias).all())
    assert not Batch.objects.using(alias).exists()


def test_a_batch_does_it(alias, charge, keys, frozen):
    rows = [charge.enqueue(SECRET) for _ in range(3)]
    for row in rows:
        suspend(row, using=alias)
    keys(new=NEW, old=OLD)
    selected = SuspendedJob.objects.using(alias).filter(handler_type="tests.charge")
    batch = run_to_the_end(alias, frozen, start_batch("reencrypt", selected))
    assert (batch.changed, batch.skipped) == (3, 0)
    assert {key_of(row, alias) for row in rows} == {"new"}


def a_result(alias, handler):
    row = handler.enqueue(SECRET)
    Job.objects.using(alias).filter(pk=row.pk).update(task_backend="default")
    return row


def test_results_get_the_newest_key(alias, handle, keys):
    from jobexec.operations.tasks.return_values import encode_return_value

    handler = handle(lambda card: card, name="tests.task", encrypted=True)
    handler.keeps_result, handler.encode_result = True, encode_return_value
    handler.finished = lambda *args: None
    row = a_result(alias, handler.using(database=alias))
    run_one(alias)
    keys(new=NEW, old=OLD)
    assert reencrypt_results(using=alias).changed == [row.pk]
    assert reencrypt_results(using=alias).changed == []
    stored = TaskResult.objects.using(alias).get()
    assert {encryption.key_of(each) for each in (stored.handler_configuration, stored.return_value)} == {"new"}
    keys(new=NEW)
    sight = find_task_result(row.pk, alias)
    assert (sight.args, sight.return_value) == ([SECRET], SECRET)


def test_messages_get_the_newest_key(alias, keys):
    """Those that are kept as results do, those that jobs have received with their jobs."""
    job = make_job(alias, waits_for="paid", waits_for_key="1")
    kept = publish_message("paid", key="1", payload=SECRET, ttl=60, using=alias)
    while deliver(alias, 10).more:
        pass
    keys(new=NEW, old=OLD)
    assert reencrypt_results(using=alias).changed == [kept.pk]
    assert reencrypt_results(using=alias).changed == []
    assert reencrypt(job, using=alias).changed == [job.pk]
    keys(new=NEW)
    assert encryption.unseal_payload(Message.objects.using(alias).get().payload, kept.pk) == SECRET
    assert ReceivedMessage.read(reload(alias, job).message).payload == SECRET


@pytest.mark.gate
def test_the_command(alias, charge, keys):
    row = charge.enqueue(SECRET)
    keys(new=NEW, old=OLD)
    code, text = jobs("reencrypt", "--all-matching", alias=alias)
    assert (code, key_of(row, alias)) == (0, "new")
    assert "newest key" in text
    assert SECRET not in text
    code, text = jobs("reencrypt", "--results", alias=alias)
    assert SECRET not in text
    plain = charge.using(encrypted=False).enqueue(SECRET)
    assert jobs("reencrypt", plain.pk, alias=alias)[0] == 0
    assert key_of(plain, alias) is None
    assert jobs("reencrypt", plain.pk, "--plain", alias=alias)[0] == 0
    assert key_of(plain, alias) == "new"


def test_who_reveals_them_is_in_the_audit_log(alias, charge):
    row = charge.enqueue(SECRET)
    with acting(Operator(OperatorType.USER, "anna")):
        assert reveal(row, using=alias)["args"] == [SECRET]
    entry = AuditLog.objects.using(alias).get()
    assert (entry.verb, entry.operator, entry.object_id) == ("reveal", "anna", str(row.pk))
    assert SECRET not in json.dumps([entry.new_value, entry.old_value])


@pytest.mark.parametrize("given", [["--dry-run"], ["--batch"], ["--handler", "shop.*"], ["--all-matching"]])
def test_the_command_for_results_takes_nothing_that_is_about_jobs(alias, keys, given):
    publish_message("paid", key="1", payload=SECRET, ttl=60, using=alias)
    keys(new=NEW, old=OLD)
    code, text = jobs("reencrypt", "--results", *given, alias=alias)
    assert code == 2 and "--results is about no jobs" in text
    assert encryption.key_of(Message.objects.using(alias).get().payload) == "old"
    assert not AuditLog.objects.using(alias).exists()
