"""What follows a batch may be encrypted: nothing of it is in the database in clear, and keys can be replaced."""

import base64
import json
import os

import pytest

import jobexec
from jobexec import clock, encryption
from jobexec.exceptions import NotAuthorized
from jobexec.models import JOB_TABLES, Batch, DeadLetterJob, OperatorType, TimerJob
from jobexec.operations import Operator, acting, requeue
from jobexec.operations.batches.jobs import MONITOR
from jobexec.operations.manage.reencrypt import reencrypt_results
from jobexec.redaction import redact_batch
from jobexec.testing import ManualExecutor

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
def tell(alias, handle):
    seen = []
    handler = handle(lambda card, order=None: seen.append((card, order)), name="tests.tell", encrypted=True)
    function = handler.using(database=alias)
    function.seen = seen
    return function


@pytest.fixture
def run(alias):
    return lambda: ManualExecutor(using=alias, reraise=False).run_until_empty()


def in_clear(alias):
    rows = [list(table._base_manager.using(alias).values()) for table in (*JOB_TABLES, Batch)]
    return SECRET in json.dumps(rows, default=str)


def test_calls_are_encrypted_until_they_run(alias, handle, tell, run):
    work = handle(lambda: None, name="tests.work").using(database=alias)
    when = {"completed >= 1": tell.s(SECRET, order=5)}
    with jobexec.batch(on_success=tell.using(delay=3600).s(SECRET), when=when, using=alias) as batch:
        batch.add(work.s())
        assert not in_clear(alias)
        assert redact_batch(batch.row)["on_success"] == {"handler": "tests.tell", "encrypted": {"key": "old"}}
    run()
    assert (batch.state, tell.seen) == ("completed", [(SECRET, 5)])
    assert TimerJob.objects.using(alias).filter(handler_type="tests.tell").exists()
    assert not in_clear(alias)
    TimerJob.objects.using(alias).update(due_date=clock.now(alias))
    run()
    assert tell.seen[1:] == [(SECRET, None)]


def test_with_the_setting_all_of_them_are(alias, handle, settings, run):
    settings.JOBEXEC = {**settings.JOBEXEC, "ENCRYPT_ARGUMENTS": True}
    seen = []
    tell = handle(lambda card: seen.append(card), name="tests.told").using(database=alias)
    with jobexec.batch(on_success=tell.s(SECRET), using=alias):
        assert not in_clear(alias)
    run()
    assert seen == [SECRET]


@pytest.mark.gate
def test_without_its_key_the_batch_ends_and_what_follows_is_a_dead_letter(alias, tell, keys, run):
    batch = jobexec.batch(on_success=tell.s(SECRET), using=alias)
    keys(new=NEW)
    batch.seal()
    run()
    assert batch.state == "completed"
    dead = DeadLetterJob.objects.using(alias).get()
    assert "'old', which is not in ENCRYPTION_KEYS" in dead.exception_message
    keys(new=NEW, old=OLD)
    assert requeue(dead, using=alias)
    run()
    assert not DeadLetterJob.objects.using(alias).exists()


def test_calls_get_the_newest_key(alias, tell, keys, run):
    batch = jobexec.batch(on_success=tell.s(SECRET), when={"failed >= 1": tell.s(SECRET)}, using=alias)
    plain = jobexec.batch(using=alias)
    keys(new=NEW, old=OLD)
    assert reencrypt_results(using=alias).changed == [batch.id]
    assert reencrypt_results(using=alias).changed == []
    given = batch.row.arguments
    calls = [given["on_success"], given["when"]["failed >= 1"]]
    assert {encryption.key_of(call["configuration"]) for call in calls} == {"new"}
    keys(new=NEW)
    for each in (batch, plain):
        each.seal()
    run()
    assert not DeadLetterJob.objects.using(alias).exists()
    assert batch.state == "completed"


def test_of_calls_that_cannot_be_decrypted_the_reason_is_told(alias, tell, keys):
    batch = jobexec.batch(on_success=tell.s(SECRET), using=alias)
    keys(new=NEW)
    result = reencrypt_results(using=alias)
    assert "'old', which is not in ENCRYPTION_KEYS" in result.skipped[batch.id]


class Refuses:
    """Refuses what it is told to refuse, and all that no one does."""

    actions: tuple[str, ...] = ()

    def __call__(self, request):
        return request.action not in self.actions and request.principal is not None


def test_a_policy_is_asked_about_calls_when_the_batch_begins_and_never_again(alias, tell, settings, run, monkeypatch):
    settings.JOBEXEC = {**settings.JOBEXEC, "AUTHORIZATION": f"{__name__}.Refuses"}
    anna = Operator(OperatorType.USER, "anna", "admin")
    monkeypatch.setattr(Refuses, "actions", ("enqueue",))
    with acting(anna), pytest.raises(NotAuthorized):
        jobexec.batch(on_success=tell.s(SECRET), using=alias)
    assert not Batch.objects.using(alias).exists()
    monkeypatch.setattr(Refuses, "actions", ())
    with acting(anna):
        batch = jobexec.batch(on_success=tell.s(SECRET), using=alias)
        batch.seal()
        late = jobexec.batch(on_failure=tell.s(SECRET), using=alias)
        late.add(tell.using(delay=3600).s(SECRET))
    Batch.objects.using(alias).filter(pk=late.id).update(deadline=clock.now(alias))
    TimerJob.objects.using(alias).filter(batch_id=late.id, handler_type=MONITOR).update(due_date=clock.now(alias))
    monkeypatch.setattr(Refuses, "actions", ("enqueue", "cancel"))
    run()
    assert (batch.state, late.state) == ("completed", "failed")
    assert late.progress().cancelled == 1
    assert not DeadLetterJob.objects.using(alias).exists()
