"""enqueue_on_commit: a job for what a transaction of another database has done."""

import datetime as dt
from uuid import UUID

import pytest
from django.db import DatabaseError, connections, transaction
from django.test import TestCase

from jobexec import job
from jobexec.clock import FrozenClock
from jobexec.exceptions import DuplicateJob, InvalidJob
from jobexec.handlers import registry
from jobexec.models import Job, TimerJob
from jobexec.operations.enqueue import create

pytestmark = [pytest.mark.databases("sqlite"), pytest.mark.transactional]


@pytest.fixture(autouse=True)
def isolated():
    with registry.isolated():
        yield


@pytest.fixture
def mail():
    return job(name="mail")(lambda number, text="": None)


def test_inserted_after_the_commit_under_the_id_that_was_told(alias, mail):
    argument = [1]
    with transaction.atomic():
        id = mail.enqueue_on_commit(argument, text="a")
        argument.append(2)
        assert isinstance(id, UUID)
        assert not Job.objects.exists()
    row = Job.objects.get()
    assert (row.pk, row.handler_configuration) == (id, {"args": [[1]], "kwargs": {"text": "a"}})


def test_outside_a_transaction_at_once(alias, mail):
    id = mail.enqueue_on_commit(1)
    assert Job.objects.get().pk == id


@pytest.mark.parametrize("savepoint", [False, True])
def test_never_if_it_is_rolled_back(alias, mail, savepoint):
    with transaction.atomic():
        if savepoint:
            mail.enqueue_on_commit(1)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            mail.enqueue_on_commit(2)
            raise ZeroDivisionError
    assert [row.handler_configuration["args"] for row in Job.objects.all()] == ([[1]] if savepoint else [])


def test_what_is_wrong_is_said_at_once(alias, mail):
    with transaction.atomic():
        for refused in (
            lambda: mail.enqueue_on_commit(),
            lambda: mail.enqueue_on_commit(object()),
            lambda: mail.using(category="letters").enqueue_on_commit(1),
        ):
            with pytest.raises(InvalidJob):
                refused()
        with pytest.raises(InvalidJob, match=r"transaction: expected an alias in DATABASES \(default.*, got 'shop'"):
            mail.using(transaction="shop").enqueue_on_commit(1)
    assert not Job.objects.exists()


def test_later_counts_from_the_call(alias, mail):
    with FrozenClock(dt.datetime(2026, 3, 1, tzinfo=dt.UTC)) as clock:
        with transaction.atomic():
            mail.using(delay=60).enqueue_on_commit(1)
            mail.using(delay=10).enqueue_on_commit(2)
            clock.tick(30)
        assert TimerJob.objects.get().due_date == dt.datetime(2026, 3, 1, 0, 1, tzinfo=dt.UTC)
        assert Job.objects.get().handler_configuration["args"] == [2]


def test_an_insert_that_fails_is_an_error_where_the_transaction_ends(alias, mail, monkeypatch, caplog):
    def fails(*args):
        raise DatabaseError("away")

    with pytest.raises(DatabaseError, match="away"), transaction.atomic():
        id = mail.enqueue_on_commit("a secret")
        monkeypatch.setattr(create, "insert_row", fails)
    assert f"The job {id} of mail could not be inserted after the commit" in caplog.text
    assert "a secret" not in caplog.text
    assert not connections["default"].in_atomic_block


def test_unique_jobs(alias, mail):
    handler = mail.using(unique=lambda number, text="": f"{number}")
    number = [1]
    with transaction.atomic():
        id = handler.enqueue_on_commit(number)
        number.append(2)
        handler.enqueue_on_commit([1])
    assert Job.objects.get().pk == id, "the key is of the arguments as they were"
    with pytest.raises(DuplicateJob), transaction.atomic():
        handler.using(on_conflict="raise").enqueue_on_commit([1])


def test_tests_can_capture_it(alias, mail):
    with transaction.atomic():  # as TestCase does
        with TestCase.captureOnCommitCallbacks(execute=True) as callbacks:
            id = mail.enqueue_on_commit(1)
            assert not Job.objects.exists()
        assert callbacks
        assert Job.objects.get().pk == id
        transaction.set_rollback(True)


@pytest.mark.databases("postgresql")
def test_the_transaction_of_another_database(alias, mail, settings):
    settings.JOBEXEC = {"ENGINES": {alias: {}}}
    handler = mail.using(database=alias, transaction=alias)
    with transaction.atomic(alias):
        handler.enqueue_on_commit(1)
        assert not Job.objects.using(alias).exists()
    assert Job.objects.using(alias).count() == 1
