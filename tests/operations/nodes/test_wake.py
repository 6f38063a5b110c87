"""Executors are woken after the commit, once per transaction and database, and never for what was rolled back."""

import logging
from contextlib import nullcontext
from datetime import timedelta

import pytest
from django.db import connections, transaction

from jobexec import clock, signals
from jobexec.models import DeadLetterJob, Job, SuspendedJob, TimerJob
from jobexec.operations import activate, complete_jobs, create_jobs, release_jobs, requeue, retry_now, set_due_date
from jobexec.operations.notify.wake import (
    CHANNEL,
    EVERYTHING,
    JOBS,
    TIMERS,
    add_listener,
    remove_listener,
    wake_on_commit,
)
from tests.support.factories import HANDLER, a_run, acquire, make_job, make_row, work
from tests.support.waiting import TIMEOUT

pytestmark = pytest.mark.transactional


@pytest.fixture
def woken():
    """The aliases whose listeners were called, in order."""
    calls = []

    def listener(using, content):
        calls.append(using)

    add_listener(listener)
    yield calls
    remove_listener(listener)
    remove_listener(listener)  # an unknown one is ignored


def test_once_per_transaction_and_after_its_commit(alias, woken):
    with transaction.atomic(alias):
        make_job(alias)
        create_jobs(alias, [{"handler_type": HANDLER}] * 3)
        with transaction.atomic(alias):
            make_job(alias)
        assert woken == []
    assert woken == [alias]


def test_at_once_in_autocommit(alias, woken):
    make_job(alias)
    make_job(alias)
    assert woken == [alias, alias]


def test_not_for_what_was_rolled_back(alias, woken):
    with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
        make_job(alias)
        raise ZeroDivisionError
    assert (woken, Job.objects.using(alias).count()) == ([], 0)
    make_job(alias)
    assert woken == [alias], "the next transaction is told of anew"


def undone(alias):
    with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
        make_job(alias)
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([undone], 0),
        ([undone, make_job], 1),
        ([make_job, undone], 1),
        ([undone, make_job, undone, make_job], 1),
    ],
)
def test_savepoints(alias, woken, steps, expected):
    with transaction.atomic(alias):
        for step in steps:
            step(alias)
    assert len(woken) == expected
    assert Job.objects.using(alias).exists() == bool(expected)


def test_a_job_in_a_kept_savepoint_inside_an_undone_one(alias, woken):
    with transaction.atomic(alias):
        with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
            with transaction.atomic(alias):
                make_job(alias)
            raise ZeroDivisionError
        make_job(alias)
    assert woken == [alias]


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_each_database_has_its_own(woken):
    with transaction.atomic("default"):
        for other in connections:
            with transaction.atomic(other):
                make_job(other)
                make_job(other)
    assert sorted(woken) == sorted(connections)


@pytest.mark.parametrize("verb", ["requeue", "retry_now", "activate", "release", "complete a sibling"])
def test_every_verb_that_makes_jobs_runnable(alias, woken, verb):
    job = work(alias, process_instance_id="p")
    make_job(alias, process_instance_id="p")
    dead, timer, held = (make_row(table, alias) for table in (DeadLetterJob, TimerJob, SuspendedJob))
    woken.clear()
    {
        "requeue": lambda: requeue(dead, using=alias),
        "retry_now": lambda: retry_now(timer, using=alias),
        "activate": lambda: activate(held, using=alias),
        "release": lambda: release_jobs(alias, [job]),
        "complete a sibling": lambda: complete_jobs(alias, [(job, a_run(alias))]),
    }[verb]()
    assert woken == [alias]


@pytest.mark.parametrize("inside", [False, True])
def test_what_became_runnable_is_told_before_anybody_is_woken_for_it(alias, woken, inside):
    """Or an executor in this process may tell that it has acquired what was not told to be created."""

    def receiver(signal, **kwargs):
        woken.append(signal)

    dead, held = make_row(DeadLetterJob, alias), make_row(SuspendedJob, alias)
    verbs = {
        signals.job_created: lambda: make_job(alias),
        signals.job_requeued: lambda: requeue(dead, using=alias),
        signals.job_activated: lambda: activate(held, using=alias),
    }
    for signal, verb in verbs.items():
        signal.connect(receiver)
        woken.clear()
        try:
            with transaction.atomic(alias) if inside else nullcontext():
                verb()
        finally:
            signal.disconnect(receiver)
        assert woken == [signal, alias]


def test_a_broken_listener_costs_nothing(alias, woken, caplog):
    def broken(using, content):
        raise ValueError("deaf")

    add_listener(broken)
    try:
        with caplog.at_level(logging.ERROR), transaction.atomic(alias):
            make_job(alias)
    finally:
        remove_listener(broken)
    assert Job.objects.using(alias).count() == 1
    assert woken == [alias], "the others are told all the same"


def later(alias):
    return make_job(alias, due_date=clock.now(alias) + timedelta(hours=1))


def both_at_once(alias):
    due = clock.now(alias) + timedelta(hours=1)
    create_jobs(alias, [{"handler_type": HANDLER}, {"handler_type": HANDLER, "due_date": due}])


def activated_timer(alias):
    activate(make_row(SuspendedJob, alias, due_date=clock.now(alias) + timedelta(hours=1)), using=alias)


def put_off(alias):
    set_due_date(make_row(Job, alias), clock.now(alias) + timedelta(hours=1), using=alias)


def brought_forward(alias):
    set_due_date(make_row(TimerJob, alias), None, using=alias)


@pytest.mark.parametrize(
    ("steps", "content"),
    [
        ([make_job, make_job], JOBS),
        ([later, later], TIMERS),
        ([later, make_job], EVERYTHING),
        ([make_job, later, later], EVERYTHING),
        ([both_at_once], EVERYTHING),
        ([activated_timer], TIMERS),
        ([put_off], TIMERS),
        ([brought_forward], JOBS),
    ],
)
def test_a_wake_up_says_what_came(alias, steps, content):
    told = []

    def listener(using, content):
        told.append((using, content))

    add_listener(listener)
    try:
        with transaction.atomic(alias):
            for step in steps:
                step(alias)
    finally:
        remove_listener(listener)
    assert told == [(alias, content)]


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("notify", [True, False])
def test_postgresql_is_notified(alias, configure, notify):
    import psycopg

    configure(engine={"NOTIFY": notify})
    parameters = connections[alias].get_connection_params()
    names = {key: parameters[key] for key in ("host", "port", "user", "password", "dbname") if parameters.get(key)}
    with psycopg.connect(**names, autocommit=True) as ear:
        ear.execute(f"LISTEN {CHANNEL}")
        with transaction.atomic(alias):
            make_job(alias)
            make_job(alias)
            assert list(ear.notifies(timeout=0.05)) == []
        heard = list(ear.notifies(timeout=TIMEOUT if notify else 0.2, stop_after=1))
        both_at_once(alias)
        heard += list(ear.notifies(timeout=TIMEOUT if notify else 0.2, stop_after=1))
    assert [(one.channel, one.payload) for one in heard] == [(CHANNEL, JOBS), (CHANNEL, EVERYTHING)] * notify


@pytest.mark.databases("postgresql")
def test_a_failing_notify_is_only_said(alias, monkeypatch, caplog):
    monkeypatch.setattr("jobexec.operations.notify.wake.CHANNEL", "")
    with transaction.atomic(alias):
        make_job(alias)
    assert "executors will find the job by polling" in caplog.text
    assert len(acquire(alias)) == 1


def test_waking_needs_no_job(alias, woken):
    wake_on_commit(alias)
    assert woken == [alias]


class Looked(list):
    """The callbacks of a connection; counts how often somebody looks through all of them."""

    looks = 0

    def __iter__(self):
        self.looks += 1
        return super().__iter__()


def test_many_callbacks_are_looked_through_once_and_not_for_each_job(alias, woken):
    with transaction.atomic(alias):
        for _ in range(50):
            transaction.on_commit(lambda: None, using=alias)
        connections[alias].run_on_commit = callbacks = Looked(connections[alias].run_on_commit)
        for _ in range(20):
            make_job(alias)
            transaction.on_commit(lambda: None, using=alias)
        assert callbacks.looks <= 2
        with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
            transaction.on_commit(lambda: None, using=alias)
            raise ZeroDivisionError  # which makes a new list
        for _ in range(20):
            make_job(alias)
    assert len(woken) == 1


def test_the_place_of_a_callback_that_is_gone_says_nothing(alias, woken):
    with transaction.atomic(alias):
        for _ in range(3):
            transaction.on_commit(lambda: None, using=alias)
        undone(alias)
        make_job(alias)
        make_job(alias)
    with transaction.atomic(alias):
        for _ in range(9):
            transaction.on_commit(lambda: None, using=alias)
        make_job(alias)
    assert len(woken) == 2
