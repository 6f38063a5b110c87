"""Between jobs and polls: CONN_MAX_AGE, CONN_HEALTH_CHECKS, recorded queries, psycopg's pool."""

import threading

import pytest
from django.db import connections, transaction

from jobexec.executor.pool import pool as pool_module
from jobexec.runtime import connections as ours
from jobexec.runtime.connections import refresh_connections, rest_connections
from jobexec.runtime.threads import Loop, call_in_thread
from tests.support.factories import make_job
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.transactional

SESSION = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}


@pytest.fixture
def address(alias, monkeypatch):
    """A function that changes what DATABASES says of the test's database, for connections made from now on."""

    def change(**keys):
        for key, value in keys.items():
            monkeypatch.setitem(connections.settings[alias], key, value)

    return change


@pytest.fixture
def time_of_connections(monkeypatch):
    """A function that moves the time by which connections grow old."""
    ahead = [0.0]
    real = ours.time.monotonic
    monkeypatch.setattr(ours, "time", type("Time", (), {"monotonic": staticmethod(lambda: real() + ahead[0])}))
    return lambda seconds: ahead.__setitem__(0, ahead[0] + seconds)


def in_thread(function):
    call_in_thread("jobexec-call", function, TIMEOUT)


def opened(alias):
    connections[alias].ensure_connection()
    return connections[alias].connection


@pytest.mark.parametrize(("age", "kept"), [(0, True), (1000, True), (None, True), (5, False)])
def test_a_busy_thread_keeps_its_connection_up_to_its_age(alias, address, time_of_connections, age, kept):
    address(CONN_MAX_AGE=age)

    def check():
        first = opened(alias)
        refresh_connections()
        assert connections[alias].connection is first
        time_of_connections(100)
        refresh_connections()
        assert (connections[alias].connection is first) is kept

    in_thread(check)


@pytest.mark.parametrize(("age", "kept"), [(0, False), (1000, True), (None, True), (50, False)])
def test_an_idle_thread_keeps_what_will_not_be_too_old_when_it_goes_on(alias, address, age, kept):
    address(CONN_MAX_AGE=age)

    def check():
        first = opened(alias)
        rest_connections(60)
        assert (connections[alias].connection is first) is kept

    in_thread(check)


def test_a_connection_is_never_replaced_within_a_transaction(alias, address, time_of_connections):
    address(CONN_MAX_AGE=5)

    def check():
        with transaction.atomic(alias):
            first = opened(alias)
            time_of_connections(100)
            refresh_connections()
            rest_connections(60)
            assert connections[alias].connection is first

    in_thread(check)


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.databases("postgresql", "mariadb")
def test_health_checks_are_made_once_in_each_job(alias, address, monkeypatch, checked):
    address(CONN_HEALTH_CHECKS=checked)
    asked = []
    wrapper = type(connections[alias])
    real = wrapper.is_usable
    monkeypatch.setattr(wrapper, "is_usable", lambda self: asked.append(1) or real(self))

    def use():
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT 1")

    def check():
        use()
        for _ in range(3):
            refresh_connections()
            use()
            use()

    in_thread(check)
    assert len(asked) == (3 if checked else 0)


@pytest.mark.databases("postgresql")
def test_with_health_checks_no_job_pays_for_a_server_that_was_restarted(alias, address, make_executor, handle):
    address(CONN_HEALTH_CHECKS=True)
    pids, errors = [], []

    def note():
        try:
            with connections[alias].cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                pids.append(cursor.fetchone()[0])
        except BaseException as error:
            errors.append(error)
            raise

    handle(note, name="tests.note")
    make_executor(THREADS=1).start()
    make_job(alias, handler_type="tests.note")
    until(lambda: len(pids) == 1)
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pids[0]])
    make_job(alias, handler_type="tests.note")
    until(lambda: len(pids) == 2 or errors)
    assert errors == []


@pytest.mark.databases("postgresql", "mariadb")
def test_a_worker_replaces_its_connection_between_two_jobs_and_never_within_one(
    alias, address, time_of_connections, make_executor, handle
):
    address(CONN_MAX_AGE=50)
    seen = []

    def session():
        with connections[alias].cursor() as cursor:
            cursor.execute(SESSION[connections[alias].vendor])
            return cursor.fetchone()[0]

    def use():
        before = session()
        time_of_connections(30)
        seen.append((before, session()))

    handle(use, name="tests.use")
    make_executor(THREADS=1).start()
    for number in range(3):
        make_job(alias, handler_type="tests.use")
        until(lambda: len(seen) == number + 1)  # noqa: B023
    assert all(before == after for before, after in seen)
    first, second, third = (before for before, _ in seen)
    assert first == second != third, "30 seconds old after the first job, 60 after the second"


def test_recorded_queries_are_forgotten_after_each_poll(alias, settings):
    settings.DEBUG = True
    left, rounds = [], threading.Event()

    class Polling(Loop):
        def run_once(self):
            left.append(len(connections[alias].queries_log))
            with connections[alias].cursor() as cursor:
                cursor.execute("SELECT 1")
            if len(left) == 3:
                rounds.set()
            return 0.0

    loop = Polling("jobexec-polling")
    loop.start()
    assert rounds.wait(TIMEOUT)
    assert loop.stop(TIMEOUT)
    assert set(left) == {0}


@pytest.mark.gate
@pytest.mark.parametrize(("age", "kept"), [(0, False), (None, True)])
def test_idle_workers_let_go_of_their_connections_unless_told_to_keep_them(
    alias, address, make_executor, handle, monkeypatch, age, kept
):
    address(CONN_MAX_AGE=age)
    monkeypatch.setattr(pool_module, "_IDLE_SECONDS", 0.05)
    turns, wrappers = [], []
    monkeypatch.setattr("jobexec.runtime.connections.rest_connections", lambda: (rest_connections(), turns.append(1)))

    def use():
        connections[alias].ensure_connection()
        wrappers.append(connections[alias])
        turns.clear()

    handle(use, name="tests.use")
    make_executor(THREADS=1).start()
    make_job(alias, handler_type="tests.use")
    until(lambda: wrappers and len(turns) > 2)
    assert (wrappers[0].connection is not None) is kept
