"""The thread for calls to the ORM: one after the other, its connections as good as new for each."""

import threading

import pytest
from django.db import connections, transaction
from django.db.transaction import TransactionManagementError

from jobexec.executor.async_worker.database_thread import DatabaseThread
from tests.support.waiting import TIMEOUT, passed, threads, until


@pytest.fixture
def desk():
    desk = DatabaseThread("jobexec-desk")
    yield desk
    desk.shutdown()
    assert not threads("jobexec-desk")


def test_calls_are_made_in_order_in_one_thread_that_begins_with_the_first(desk):
    assert not threads("jobexec-desk")
    seen = []
    futures = [desk.submit(lambda number=number: seen.append((number, threading.get_ident()))) for number in range(9)]
    for future in futures:
        future.result(TIMEOUT)
    assert [number for number, _ in seen] == list(range(9))
    assert len({thread for _, thread in seen}) == 1


def test_what_a_call_raises_is_its_own(desk):
    failed, fine = desk.submit(lambda: 1 / 0), desk.submit(lambda: 7)
    with pytest.raises(ZeroDivisionError):
        failed.result(TIMEOUT)
    assert fine.result(TIMEOUT) == 7


def test_a_call_that_was_cancelled_is_not_made(desk):
    began, go, seen = threading.Event(), threading.Event(), []
    desk.submit(lambda: began.set() or go.wait(TIMEOUT))
    passed(began)
    cancelled, after = desk.submit(lambda: seen.append(1)), desk.submit(lambda: seen.append(2))
    assert cancelled.cancel()
    go.set()
    after.result(TIMEOUT)
    assert seen == [2]


@pytest.mark.transactional
def test_a_transaction_left_open_is_rolled_back_and_its_call_fails(alias, desk):
    def open_one():
        transaction.atomic(using=alias).__enter__()

    def ordinary():
        connections[alias].ensure_connection()
        return connections[alias].in_atomic_block

    with pytest.raises(TransactionManagementError, match=f"left a transaction open on {alias}"):
        desk.submit(open_one).result(TIMEOUT)
    assert desk.submit(ordinary).result(TIMEOUT) is False


@pytest.mark.transactional
def test_an_idle_thread_closes_its_connections(alias, desk, monkeypatch):
    monkeypatch.setattr("jobexec.executor.async_worker.database_thread._IDLE_SECONDS", 0.01)
    seen = []

    def use():
        connections[alias].ensure_connection()
        seen.append(connections[alias])

    desk.submit(use).result(TIMEOUT)
    until(lambda: seen[0].connection is None)


def test_after_its_end_it_takes_nothing(desk):
    began, go = threading.Event(), threading.Event()
    running = desk.submit(lambda: began.set() or go.wait(TIMEOUT))
    passed(began)
    waiting = desk.submit(lambda: None)
    desk.shutdown(wait=False, cancel_futures=True)
    assert waiting.cancelled()
    with pytest.raises(RuntimeError):
        desk.submit(lambda: None)
    assert not desk.join(0)
    go.set()
    assert running.result(TIMEOUT)
    assert desk.join(TIMEOUT)
