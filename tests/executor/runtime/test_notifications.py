"""Waking: LISTEN on PostgreSQL, polling when nobody can listen."""

import threading

import psycopg
import pytest
from django.db import connections, transaction

from jobexec.conf import get_settings
from jobexec.executor.nodes.node import Node
from jobexec.operations.notify.wake import CHANNEL
from jobexec.runtime import threads as runtime_threads
from jobexec.runtime.notifications import Listener
from jobexec.runtime.threads import Loop
from jobexec.runtime.wake_up import WakeUpEvent
from tests.support.factories import make_job
from tests.support.waiting import TIMEOUT, passed, threads, until

pytestmark = [pytest.mark.transactional, pytest.mark.databases("postgresql"), pytest.mark.smoke]


class Waiter(Loop):
    """Waits as the acquisition does: on the listener's connection."""

    def __init__(self, listener):
        super().__init__("jobexec-waiter")
        self._woken = WakeUpEvent(listener)

    def run_once(self):
        return TIMEOUT


@pytest.fixture
def listener(alias, monkeypatch):
    monkeypatch.setattr(runtime_threads, "_FIRST_PAUSE", 0.01)
    settings = get_settings()
    heard, contents = threading.Semaphore(0), []

    def hear(content):
        contents.append(content)
        waiter.wake()
        heard.release()

    listener = Listener(Node(settings, settings.engine(alias), dict), hear)
    listener.heard, listener.contents = heard, contents
    waiter = Waiter(listener)
    waiter.start()
    yield listener
    assert listener.stop(TIMEOUT)
    assert waiter.stop(TIMEOUT)
    assert not listener.listening
    assert not threads("jobexec-listener")


def backend(listener):
    return listener._connection.info.backend_pid


def end_backend(alias, pid):
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])


@pytest.mark.gate
def test_hears_a_commit_that_brought_jobs_and_no_rollback(alias, listener):
    listener.start()
    until(lambda: listener.listening)
    assert listener.heard.acquire(timeout=TIMEOUT), "whatever was said while nobody listened"
    with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
        make_job(alias)
        _ = 1 / 0
    with transaction.atomic(alias):
        make_job(alias)
        make_job(alias)
        assert not listener.heard.acquire(timeout=0.2), "nothing before the commit"
    assert listener.heard.acquire(timeout=TIMEOUT)
    assert not listener.heard.acquire(timeout=0.2), "once a transaction"


def test_a_notification_wakes_whatever_is_in_it(alias, listener):
    listener.start()
    assert listener.heard.acquire(timeout=TIMEOUT), "whatever was said while nobody listened"
    for content in ("", '{"v": 999, "node": "of another release"}', "\n; DROP TABLE jobs"):
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, content])
        assert listener.heard.acquire(timeout=TIMEOUT)
        assert listener.contents[-1] == content
    assert not listener.heard.acquire(timeout=0.2), "once each"


def test_reconnects_when_its_connection_is_cut(alias, listener):
    listener.start()
    until(lambda: listener.listening)
    first = backend(listener)
    end_backend(alias, first)
    until(lambda: listener.listening and backend(listener) != first)
    while listener.heard.acquire(blocking=False):
        pass
    with connections[alias].cursor() as cursor:
        cursor.execute(f"NOTIFY {CHANNEL}")
    assert listener.heard.acquire(timeout=TIMEOUT)


def test_says_so_when_it_cannot_listen_any_more(alias, listener, monkeypatch):
    listener.start()
    until(lambda: listener.listening)
    while listener.heard.acquire(blocking=False):
        pass
    refused = threading.Event()

    def refuse(*args, **kwargs):
        refused.set()
        raise psycopg.OperationalError("refused")

    monkeypatch.setattr(psycopg.Connection, "connect", refuse)
    end_backend(alias, backend(listener))
    assert listener.heard.acquire(timeout=TIMEOUT), "the loops that wait long must begin to poll"
    passed(refused)
    assert not listener.listening


def test_an_executor_that_cannot_listen_polls(alias, make_executor, handle, monkeypatch):
    done = threading.Event()
    handle(done.set, name="tests.done")
    monkeypatch.setattr(Listener, "_connect", lambda self: 1 / 0)
    executor = make_executor({"WAIT_TIME": 0.01, "MAX_WAIT": 0.05, "MAX_WAIT_WHEN_LISTENING": 300})
    executor.start()
    monkeypatch.setattr(executor.engines[alias], "wake", lambda: None)
    make_job(alias, handler_type="tests.done")
    passed(done)


def test_an_executor_that_listens_hears_of_jobs_from_elsewhere(alias, make_executor, handle):
    done = threading.Event()
    handle(done.set, name="tests.done")
    executor = make_executor({"WAIT_TIME": 300, "MAX_WAIT": 300, "MAX_WAIT_WHEN_LISTENING": 300})
    executor.start()
    engine = executor.engines[alias]
    until(engine._listening)
    from jobexec.operations.notify import wake

    wake.remove_listener(engine.hear)  # as if the job came from another process
    make_job(alias, handler_type="tests.done")
    passed(done)


def test_it_asks_the_system_to_notice_a_dead_network_unless_options_say_how(alias, listener, monkeypatch):
    def parameters():
        listener.start()
        until(lambda: listener.listening)
        found = listener._connection.info.get_parameters()
        assert listener.stop(TIMEOUT)
        return found["keepalives_idle"], found["keepalives_count"], found["tcp_user_timeout"], found["connect_timeout"]

    assert parameters() == ("10", "3", "25000", "10")
    monkeypatch.setitem(connections.settings[alias]["OPTIONS"], "tcp_user_timeout", 7000)
    monkeypatch.setitem(connections.settings[alias]["OPTIONS"], "keepalives_idle", 3)
    assert parameters() == ("3", "3", "7000", "10")


def test_can_be_switched_off(alias, make_executor):
    executor = make_executor({"NOTIFY": False})
    executor.start()
    assert not threads("jobexec-listener")
