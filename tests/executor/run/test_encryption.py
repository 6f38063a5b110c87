"""Arguments are encrypted from enqueue to the end of the job, and decrypted only for its handler."""

import base64
import json
import logging
import os
from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest
from django.db import OperationalError, transaction

from jobexec import clock, current_job, encryption, external_job, publish_message
from jobexec.exceptions import DecryptionFailed, InvalidJob, InvalidSchedule, NotDecryptableYet, RetryIn
from jobexec.executor.execute_now import execute_by_hand
from jobexec.models import DeadLetterJob, Job, JobKey, JobLog, Message, TaskResult, TimerJob
from jobexec.operations import requeue
from jobexec.operations.enqueue import create
from jobexec.operations.enqueue.create import create_job
from jobexec.operations.external import create as external_create
from jobexec.operations.messages.deliver import deliver
from jobexec.operations.schedules.manage import fire_now, save_schedule
from jobexec.operations.tasks.results import find_task_result
from jobexec.operations.tasks.return_values import encode_return_value
from tests.support.executor import all_gone, run_one
from tests.support.factories import make_job
from tests.support.jobs_command import jobs

pytestmark = pytest.mark.transactional

SECRET = "marker-4111-1111"


def a_key():
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


OLD, NEW = a_key(), a_key()


@pytest.fixture(autouse=True)
def keys(configure):
    configure(ENCRYPTION_KEYS={"2026": NEW, "2025": OLD})


@pytest.fixture
def seen():
    return []


@pytest.fixture
def charge(alias, handle, seen):
    def charge(card, times=1):
        seen.append((card, times))

    return handle(charge, name="tests.charge", encrypted=True).using(database=alias)


def text_of(row):
    return json.dumps(type(row)._base_manager.using(row._state.db).values_list("handler_configuration").get(pk=row.pk))


DOORS = {
    "enqueue": lambda handler, alias: handler.enqueue(SECRET, times=3),
    "many": lambda handler, alias: handler.enqueue_many([(SECRET, 3)])[0],
    "any iterable": lambda handler, alias: handler.enqueue_many(iter([(SECRET, 3)]))[0],
    "unique": lambda handler, alias: handler.using(unique=True).enqueue(SECRET, 3),
    "many unique": lambda handler, alias: handler.using(unique=True).enqueue_many([{"card": SECRET, "times": 3}])[0],
    "own resources": lambda handler, alias: handler.using(priority=5).enqueue_many(iter([(SECRET, 3)]))[0],
}


@pytest.mark.every_database
@pytest.mark.parametrize("door", DOORS)
def test_a_row_is_encrypted_and_its_handler_gets_what_was_given(alias, charge, seen, door):
    row = DOORS[door](charge, alias)
    assert SECRET not in text_of(row)
    assert encryption.key_of(row.handler_configuration) == "2026", "what enqueue returns is encrypted, too"
    run_one(alias)
    assert seen == [(SECRET, 3)]
    assert all_gone(alias)


def test_after_a_commit(alias, charge, seen):
    with transaction.atomic(using=alias):
        charge.using(transaction=alias).enqueue_on_commit(SECRET)
        hooks = transaction.get_connection(alias).run_on_commit
        assert SECRET not in repr(hooks)
    run_one(alias)
    assert seen == [(SECRET, 1)]


async def _twice(card):
    _calls.append(card)


_calls: list[str] = []


def test_async_handlers_and_callers(alias, handle):
    from asgiref.sync import async_to_sync

    handler = handle(_twice, name="tests.twice", encrypted=True).using(database=alias)
    _calls.clear()
    row = async_to_sync(handler.aenqueue)(SECRET)
    assert SECRET not in text_of(row)
    run_one(alias)
    assert _calls == [SECRET]


def test_the_setting_is_the_default_of_the_option(alias, handle, configure):
    configure(ENCRYPTION_KEYS={"2026": NEW}, ENCRYPT_ARGUMENTS=True)
    handler = handle(lambda card: None, name="tests.any").using(database=alias)
    assert SECRET not in text_of(handler.enqueue(SECRET))
    assert SECRET in text_of(handler.using(encrypted=False).enqueue(SECRET))
    row = create_job(alias, handler_type="tests.any", handler_configuration={"args": [SECRET], "kwargs": {}})
    assert SECRET not in text_of(row)


@pytest.fixture
def pay(alias, handle, seen):
    handle(lambda: seen.append(current_job().message.payload), name="tests.pay")
    return lambda: make_job(alias, handler_type="tests.pay", waits_for="paid", waits_for_key="1")


def test_payloads_of_messages_are_encrypted(alias, pay, seen):
    """While a message is kept, and in the job that has received it: for no page and no command."""
    job = pay()
    kept = publish_message("paid", key="1", payload={"card": SECRET}, ttl=60, using=alias)
    none = publish_message("paid", key="2", ttl=60, using=alias)
    while deliver(alias, 10).more:
        pass
    stored = dict(Message.objects.using(alias).values_list("pk", "payload"))
    assert (encryption.key_of(stored[kept.pk]), stored[none.pk]) == ("2026", None)
    row = Job.objects.using(alias).get(pk=job.pk)
    told = [row.message, str(stored)]
    for flags in ((), ("--json",)):
        told += [jobs(*command, *flags, alias=alias)[1] for command in (("message", "show", kept.pk), ("show", job.pk))]
    assert "2026" in told[-1] and "2026" in told[-3] and '"data"' not in told[-1]
    assert SECRET not in "".join(map(str, told))
    run_one(alias)
    assert seen == [{"card": SECRET}] and all_gone(alias)


def test_a_payload_of_another_message_does_not_open(alias, pay):
    job = pay()
    publish_message("paid", key="1", payload={"card": SECRET}, using=alias)
    while deliver(alias, 10).more:
        pass
    row = Job.objects.using(alias).get(pk=job.pk)
    other = json.dumps({**json.loads(row.message), "number": 1})
    Job.objects.using(alias).filter(pk=job.pk).update(message=other)
    run_one(alias)
    assert "cannot be decrypted with the key '2026'" in DeadLetterJob.objects.using(alias).get().exception_message


def test_a_payload_that_looks_encrypted_is_none_without_keys(alias, pay, seen, configure):
    configure()
    pay()
    payload = {"encrypted": {"version": 1, "key": "2026", "data": ""}, "password": SECRET}
    row = publish_message("paid", key="1", payload=payload, using=alias)
    assert SECRET not in jobs("message", "show", row.pk, alias=alias)[1]
    while deliver(alias, 10).more:
        pass
    run_one(alias)
    assert seen == [payload]


def test_columns_that_look_encrypted_must_be(alias, charge):
    row = charge.enqueue(SECRET)
    columns = {"handler_type": "tests.charge", "handler_configuration": row.handler_configuration}
    with pytest.raises(DecryptionFailed):
        create_job(alias, **columns, id=uuid4())
    with pytest.raises(InvalidJob, match="expected an id"):
        create_job(alias, **columns)


def test_without_a_key_nothing_is_inserted(alias, charge, configure):
    configure()
    for door in DOORS.values():
        with pytest.raises(InvalidJob, match="expected a key in JOBEXEC\\['ENCRYPTION_KEYS'\\]"):
            door(charge, alias)
    assert not Job.objects.using(alias).exists()
    assert not JobKey.objects.using(alias).exists()


def test_without_the_package_nothing_is_inserted(alias, charge, monkeypatch):
    monkeypatch.setattr(encryption, "is_installed", lambda: False)
    with pytest.raises(InvalidJob, match="the extra 'encryption'"):
        charge.enqueue(SECRET)
    assert not Job.objects.using(alias).exists()


@pytest.mark.parametrize("given", [object(), [object(), SECRET]])
def test_no_error_quotes_an_argument(charge, given):
    for door in (charge.enqueue, lambda card: charge.enqueue_many([[card, SECRET]]), charge.enqueue_on_commit):
        with pytest.raises(InvalidJob) as caught:
            door(given)
        assert "object" not in str(caught.value).replace("JSON object", "")
        assert SECRET not in str(caught.value)


def test_no_error_report_shows_an_argument(charge, configure, rf, settings):
    from django.views.debug import ExceptionReporter

    settings.DEBUG = False
    configure()
    for door in (charge.enqueue, charge.using(unique=True).enqueue, charge.enqueue_on_commit):
        try:
            door(SECRET)
        except InvalidJob as error:
            trace = error.__traceback__.tb_next  # the first frame is this one
            report = ExceptionReporter(rf.get("/"), InvalidJob, error, trace).get_traceback_text()
        assert "expected a key" in report
        assert SECRET not in report


@pytest.mark.gate
def test_no_error_report_of_a_failing_database_shows_an_argument(alias, charge, configure, rf, settings, monkeypatch):
    from django.views.debug import ExceptionReporter

    def away(*args, **kwargs):
        raise OperationalError("server closed the connection")

    settings.DEBUG = False
    configure(ENCRYPTION_KEYS={"2026": NEW}, ENCRYPT_ARGUMENTS=True)
    columns = {"handler_type": "tests.charge", "handler_configuration": {"args": [SECRET], "kwargs": {}}}
    monkeypatch.setattr(create, "insert_row", away)
    monkeypatch.setattr(create, "insert_rows", away)
    monkeypatch.setattr(external_create, "insert_rows", away)
    for door in (
        *(partial(door, charge, alias) for door in DOORS.values()),
        lambda: create_job(alias, **columns),
        lambda: create.create_jobs(alias, [columns]),
        lambda: external_job("pay", variables={"card": SECRET}, database=alias),
    ):
        try:
            door()
        except OperationalError as error:
            trace = error.__traceback__
            while "/tests/" in trace.tb_frame.f_code.co_filename:
                trace = trace.tb_next
            report = ExceptionReporter(rf.get("/"), OperationalError, error, trace).get_traceback_html()
        assert "server closed the connection" in report
        assert SECRET not in report


@pytest.mark.parametrize("unique", [True, lambda card, times=1: f"key of {card}"])
def test_a_unique_key_made_of_arguments_is_a_digest(alias, charge, unique):
    first = charge.using(unique=unique).enqueue(SECRET)
    assert SECRET not in JobKey.objects.using(alias).get().key
    assert charge.using(unique=unique).enqueue(SECRET).pk == first.pk
    assert charge.using(unique=unique).enqueue("another").pk != first.pk


def test_a_key_that_the_project_chose_stays_as_it_is(alias, charge):
    charge.using(unique="monthly").enqueue(SECRET)
    assert JobKey.objects.using(alias).get().key == "monthly"


def test_arguments_that_look_like_an_envelope_are_arguments(alias, handle, seen):
    envelope = {"encrypted": {"version": 1, "key": "2026", "data": "AAAA"}}
    handler = handle(lambda **given: seen.append(given), name="tests.given").using(database=alias)
    handler.enqueue(**envelope)
    handler.using(encrypted=True).enqueue(**envelope)
    run_one(alias)
    run_one(alias)
    assert seen == [envelope, envelope]


@pytest.mark.every_database
def test_a_missing_key_makes_a_dead_letter_that_names_it(alias, charge, seen, configure):
    row = charge.enqueue(SECRET)
    configure(ENCRYPTION_KEYS={"2027": a_key()})
    run_one(alias)
    dead = DeadLetterJob.objects.using(alias).get()
    assert "the key '2026', which is not in ENCRYPTION_KEYS" in dead.exception_message
    assert (dead.attempts, seen) == (1, [])
    configure(ENCRYPTION_KEYS={"2027": a_key(), "2026": NEW})
    assert requeue(dead, using=alias)
    run_one(alias)
    assert seen == [(SECRET, 1)]
    assert row.pk == dead.pk


def test_another_key_of_the_same_name_makes_a_dead_letter(alias, charge, seen, configure):
    charge.enqueue(SECRET)
    configure(ENCRYPTION_KEYS={"2026": a_key()})
    run_one(alias)
    assert "cannot be decrypted with the key '2026'" in DeadLetterJob.objects.using(alias).get().exception_message
    assert not seen


def test_an_envelope_opens_only_in_its_own_row_and_for_its_own_handler(alias, charge, handle, seen):
    handle(seen.append, name="tests.print")
    one, other, third = charge.enqueue(SECRET), charge.enqueue("other"), charge.enqueue("third")
    rows = Job.objects.using(alias)
    rows.filter(pk=other.pk).update(handler_configuration=one.handler_configuration)
    rows.filter(pk=third.pk).update(handler_type="tests.print")
    for _ in range(3):
        run_one(alias)
    assert seen == [(SECRET, 1)]
    dead = {each.pk: each.exception_message for each in DeadLetterJob.objects.using(alias)}
    assert dead.keys() == {other.pk, third.pk}
    assert all("moved from another row" in text for text in dead.values())


def _is_put_off(alias, row):
    timer = TimerJob.objects.using(alias).get(pk=row.pk)
    assert timedelta(seconds=25) < timer.due_date - clock.now(alias) < timedelta(seconds=31)
    assert (timer.retries, timer.attempts, timer.conflicts, timer.snoozes) == (row.retries, 0, 0, 0)
    assert not JobLog.objects.using(alias).filter(state="failed").exists()
    return timer.exception_message


@pytest.mark.every_database
def test_an_envelope_of_a_later_release_waits_for_it(alias, charge, seen):
    row = charge.enqueue(SECRET)
    later = {"encrypted": {**row.handler_configuration["encrypted"], "version": 2}}
    Job.objects.using(alias).update(handler_configuration=later)
    run_one(alias)
    assert "version 2" in _is_put_off(alias, row)
    assert not seen


def test_a_key_that_cannot_be_loaded_now_costs_nothing(alias, charge, configure):
    row = charge.enqueue(SECRET)

    def away():
        raise ConnectionError(f"no answer from the vault with {NEW}")

    configure(ENCRYPTION_KEYS={"2026": away})
    run_one(alias)
    message = _is_put_off(alias, row)
    assert "The key '2026' cannot be loaded (ConnectionError)" in message
    assert NEW not in message


def made_key():
    return base64.urlsafe_b64decode(NEW)


def test_keys_come_from_functions_too(alias, charge, seen, configure):
    configure(ENCRYPTION_KEYS={"2026": f"{__name__}.made_key"})
    charge.enqueue(SECRET)
    configure(ENCRYPTION_KEYS={"2026": lambda: NEW})
    run_one(alias)
    assert seen == [(SECRET, 1)]


def fail(card):
    try:
        int(card)
    except ValueError as error:
        raise LookupError(f"no account of {card.upper()}, {card[::-1]}") from error


async def fail_async(card):
    fail(card)


def put_off(card):
    raise RetryIn(5, f"later: {card[::-1]}", count=False)


def cannot_be_kept(card):
    return {"card": [card, object()]}


@pytest.mark.parametrize("function", [fail, fail_async, put_off])
@pytest.mark.parametrize("atomic", [False, True])
def test_no_text_of_a_failure_is_recorded(alias, handle, function, atomic, caplog):
    caplog.set_level(logging.DEBUG)
    handle(function, encrypted=True, atomic=atomic, retries="R3/PT1H").using(database=alias).enqueue(SECRET)
    run_one(alias)
    row = TimerJob.objects.using(alias).get()
    assert encryption.NOT_RECORDED in row.exception_message
    texts = [row.exception_message, row.exception_stack, caplog.text]
    for log in JobLog.objects.using(alias):
        texts += [log.exception_message, log.exception_stack]
    for text in texts:
        for spelled in (SECRET, SECRET.upper(), SECRET[::-1]):
            assert spelled not in text
    if function is not put_off:
        assert "LookupError" in row.exception_message
        assert "ValueError" in row.exception_stack
        assert "int(card)" in row.exception_stack, "the places are recorded"


def test_execute_by_hand_gives_no_text(alias, handle):
    row = handle(fail, encrypted=True).using(database=alias).enqueue(SECRET)
    failure = execute_by_hand(row.pk, using=alias)
    assert failure.message == f"LookupError: {encryption.NOT_RECORDED}"


def test_decrypted_arguments_that_do_not_fit_are_not_quoted(alias, handle):
    handle(lambda one, two, three: None, name="tests.three", encrypted=True)
    id = uuid4()
    sealed = encryption.seal({"args": [SECRET], "kwargs": {}}, "tests.three", id)
    make_job(alias, id=id, handler_type="tests.three", handler_configuration=sealed)
    run_one(alias)
    dead = DeadLetterJob.objects.using(alias).get()
    assert "they are not shown" in dead.exception_message
    assert SECRET not in dead.exception_message + dead.exception_stack


@pytest.fixture
def keep(alias, handle):
    """A function that makes a function a handler whose results are kept."""

    def register(function, **options):
        handler = handle(function, name="tests.task", **options)
        handler.keeps_result, handler.encode_result = True, encode_return_value
        handler.finished = lambda *args: None
        return lambda *args: create_task(alias, handler, args)

    return register


def create_task(alias, handler, args):
    row = handler.using(database=alias).enqueue(*args)
    Job.objects.using(alias).filter(pk=row.pk).update(task_backend="default")
    return row


@pytest.mark.every_database
@pytest.mark.parametrize("atomic", [False, True])
def test_a_result_is_encrypted_and_its_reader_gets_what_was_returned(alias, keep, atomic):
    row = keep(lambda card: {"paid by": card}, encrypted=True, atomic=atomic)(SECRET)
    run_one(alias)
    stored = TaskResult.objects.using(alias).get()
    assert SECRET not in json.dumps([stored.return_value, stored.handler_configuration, stored.errors])
    sight = find_task_result(row.pk, alias)
    assert (sight.return_value, sight.args, sight.status) == ({"paid by": SECRET}, [SECRET], "SUCCESSFUL")


def test_a_result_that_cannot_be_read_says_why(alias, keep, configure):
    row = keep(lambda card: card, encrypted=True)(SECRET)
    run_one(alias)
    configure(ENCRYPTION_KEYS={"2030": a_key()})
    with pytest.raises(DecryptionFailed, match="'2026'"):
        find_task_result(row.pk, alias)


def test_a_return_value_that_cannot_be_kept_is_not_quoted(alias, keep):
    keep(cannot_be_kept, encrypted=True)(SECRET)
    run_one(alias)
    dead, result = DeadLetterJob.objects.using(alias).get(), TaskResult.objects.using(alias).get()
    assert SECRET not in json.dumps([dead.exception_message, dead.exception_stack, result.errors])


@pytest.mark.parametrize("version", [0, 1, 7])
def test_a_plain_result_that_looks_like_an_envelope_is_a_result(alias, keep, version):
    value = {"encrypted": {"version": version, "key": "2026", "data": "AAAA"}}
    row = keep(lambda: value)()
    run_one(alias)
    assert find_task_result(row.pk, alias).return_value == value


def test_long_arguments(alias, charge, seen):
    charge.enqueue(SECRET * 5000)
    run_one(alias)
    assert seen == [(SECRET * 5000, 1)]


def test_errors_survive_a_process(alias):
    import pickle

    for kind in (DecryptionFailed, NotDecryptableYet):
        again = pickle.loads(pickle.dumps(kind("a text", "2026")))
        assert (str(again), again.key) == ("a text", "2026")


def test_a_schedule_keeps_no_arguments_of_encrypted_jobs(alias, charge, handle, seen):
    handle(lambda: seen.append("ran"), name="tests.nightly", encrypted=True)
    common = {"name": "nightly", "expression": "@daily"}
    with pytest.raises(InvalidSchedule, match=r"'tests\.charge' are encrypted") as caught:
        save_schedule(alias, handler_type="tests.charge", args=[SECRET], **common)
    assert (caught.value.field, SECRET in str(caught.value)) == ("args", False)
    with pytest.raises(InvalidSchedule, match="are encrypted"):
        save_schedule(alias, handler_type="tests.charge", kwargs={"card": SECRET}, **common)
    assert save_schedule(
        alias, handler_type="tests.charge", args=["plain"], options={"encrypted": False}, **{**common, "name": "other"}
    )
    save_schedule(alias, handler_type="tests.nightly", **common)
    assert encryption.key_of(fire_now(alias, "nightly").handler_configuration) == "2026"
    run_one(alias)
    assert seen == ["ran"]
