"""What a handler leaves behind does not reach the next job of the thread."""

import asyncio
import contextvars
import itertools
import threading

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.utils import timezone, translation

from jobexec.executor.run.execution import execute_batch
from jobexec.models import Job, TimerJob
from jobexec.runtime.connections import doubt_connections, watch_sessions
from jobexec.runtime.threads import call_in_thread
from tests.support.executor import Host
from tests.support.factories import acquire, make_job, tables_of
from tests.support.waiting import TIMEOUT

pytestmark = pytest.mark.transactional

variable = contextvars.ContextVar("variable", default="fresh")


@pytest.fixture
def one_thread(alias, handle):
    """A function that runs functions as jobs, one after the other in one thread, and returns the host."""

    numbers = itertools.count()

    def run(*functions, **columns):
        host = Host()
        for function, number in zip(functions, numbers, strict=False):
            handle(function, name=f"tests.{number}")
            make_job(alias, handler_type=f"tests.{number}", **columns)
        jobs = sorted(acquire(alias), key=lambda job: job.handler_type)

        def work():
            watch_sessions()
            for job in jobs:
                execute_batch([job], host)

        call_in_thread("jobexec-one", work, TIMEOUT)
        return host

    return run


def test_time_zone_language_and_context_variables_are_set_anew(one_thread):
    seen = []

    def change():
        timezone.activate("Asia/Tokyo")
        translation.activate("el")
        variable.set("stale")

    def look():
        seen.append((timezone.get_current_timezone_name(), translation.get_language(), variable.get()))

    one_thread(look, change, look)
    assert seen == [("UTC", "en-us", "fresh")] * 2


def test_an_open_transaction_is_rolled_back_and_the_job_has_failed(alias, one_thread):
    def leave_open():
        transaction.atomic(using=alias).__enter__()
        Group.objects.using(alias).create(name="lost")

    def look():
        assert not connections[alias].in_atomic_block
        Group.objects.using(alias).create(name="kept")

    one_thread(leave_open, look)
    assert [group.name for group in Group.objects.using(alias).all()] == ["kept"]
    row = TimerJob.objects.using(alias).get()
    assert row.exception_message == f"The handler left a transaction open on {alias}; it was rolled back."
    assert (row.retries, row.handler_type) == (2, "tests.0")


def test_a_transaction_left_open_in_an_atomic_job_does_not_lose_the_job(alias, one_thread):
    def leave_open():
        transaction.atomic(using=alias).__enter__()
        Group.objects.using(alias).create(name="lost")

    one_thread(leave_open, atomic=True)
    assert not Group.objects.using(alias).exists()
    assert "left a transaction open" in TimerJob.objects.using(alias).get().exception_message


def test_autocommit_left_off_is_no_success_either(alias, one_thread):
    def leave_off():
        transaction.set_autocommit(False, using=alias)
        Group.objects.using(alias).create(name="lost")

    one_thread(leave_off, lambda: Group.objects.using(alias).create(name="kept"))
    assert [group.name for group in Group.objects.using(alias).all()] == ["kept"]
    assert TimerJob.objects.using(alias).count() == 1


def test_the_error_of_a_job_that_also_left_a_transaction_open_is_what_is_recorded(alias, one_thread):
    def fail():
        transaction.atomic(using=alias).__enter__()
        raise ValueError("no")

    one_thread(fail)
    assert TimerJob.objects.using(alias).get().exception_message == "ValueError: no"


def _close_raw(alias):
    connections[alias].ensure_connection()
    connections[alias].connection.close()


def end_session(alias):
    """Let the server end this thread's session, as its restart would."""
    vendor = connections[alias].vendor
    with connections[alias].cursor() as cursor:
        cursor.execute({"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}[vendor])
        number = cursor.fetchone()[0]

    def end():
        with connections[alias].cursor() as cursor:
            end = {"postgresql": "SELECT pg_terminate_backend(%s)", "mysql": "KILL CONNECTION %s"}
            cursor.execute(end[vendor], (number,))

    call_in_thread("jobexec-end", end, TIMEOUT)


def _break(alias):
    _close_raw(alias)
    connections[alias].errors_occurred = True


def _forget(alias):
    _close_raw(alias)
    Group.objects.using(alias).count()


@pytest.mark.every_database
@pytest.mark.parametrize("harm", [_close_raw, _break, _forget])
def test_broken_connections_cost_the_next_job_nothing(alias, one_thread, harm):
    one_thread(lambda: harm(alias), lambda: Group.objects.using(alias).create(name="kept"))
    assert Group.objects.using(alias).count() == 1
    assert not Job.objects.using(alias).filter(lock_owner__isnull=False).exists()
    assert TimerJob.objects.using(alias).filter(handler_type="tests.1").count() == 0


@pytest.mark.databases("postgresql", "mariadb")
def test_an_atomic_job_whose_connection_is_lost_pays_nothing(alias, one_thread):
    """All that it did is undone with its transaction: a conflict of the database, and no attempt."""

    def lose():
        Group.objects.using(alias).create(name="undone")
        end_session(alias)
        Group.objects.using(alias).count()

    one_thread(lose, atomic=True)
    row = TimerJob.objects.using(alias).get()
    assert (row.retries, row.conflicts) == (3, 1)
    assert not Group.objects.using(alias).exists()


@pytest.mark.databases("postgresql", "mariadb")
def test_one_lost_connection_lets_every_thread_make_a_new_one(alias, handle):
    """A restart breaks them all: otherwise each of them would cost a job."""
    lost, left, host, seen = threading.Event(), threading.Event(), Host(), []

    def session():
        connections[alias].ensure_connection()
        seen.append(connections[alias].connection)
        return connections[alias].connection

    handle(session, name="tests.session")
    handle(lambda: _forget(alias), name="tests.lose")
    for name in ("session", "session", "lose"):
        make_job(alias, handler_type=f"tests.{name}")
    first, second, loser = sorted(acquire(alias), key=lambda job: job.handler_type, reverse=True)

    def other():
        execute_batch([first], host)
        left.set()
        assert lost.wait(TIMEOUT)
        execute_batch([second], host)

    thread = threading.Thread(target=lambda: call_in_thread("jobexec-other", other, TIMEOUT))
    thread.start()
    assert left.wait(TIMEOUT)
    call_in_thread("jobexec-loser", lambda: execute_batch([loser], host), TIMEOUT)
    lost.set()
    thread.join(TIMEOUT)
    assert len(seen) == 2
    assert seen[0] is not seen[1]


@pytest.mark.databases("postgresql", "mariadb")
def test_after_an_idle_second_a_thread_asks_before_it_uses_its_connection(alias, one_thread):
    sessions: list[object] = []

    def end_it():
        end_session(alias)
        doubt_connections()

    def use():
        Group.objects.using(alias).count()
        sessions.append(connections[alias].connection)

    def jobs():
        use()
        end_it()
        use()

    call_in_thread("jobexec-one", jobs, TIMEOUT)
    assert sessions[0] is not sessions[1]


SESSIONS = {
    "postgresql": {
        "SET default_transaction_read_only = on": "SHOW default_transaction_read_only",
        "SET search_path TO pg_catalog": "SHOW search_path",
        "/* a */ SET ROLE pg_monitor": "SELECT current_user",
        "SELECT set_config('statement_timeout', '5s', false)": "SHOW statement_timeout",
        "CREATE TEMPORARY TABLE mine AS SELECT 1 AS nothing": "SELECT count(*) FROM pg_class"
        " WHERE relname = 'mine' AND relnamespace = pg_my_temp_schema()",  # another session may not have ended yet
        "SELECT pg_advisory_lock(17)": "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        " AND pid = pg_backend_pid()",
    },
    "mysql": {
        "SET SESSION TRANSACTION READ ONLY": "SELECT @@session.tx_read_only",
        "SET max_statement_time = 3": "SELECT @@max_statement_time",
        "SELECT GET_LOCK('mine', 1)": "SELECT IS_USED_LOCK('mine') <=> CONNECTION_ID()",
        "LOCK TABLES auth_group WRITE": "SELECT count(*) FROM auth_user",
    },
    "sqlite": {
        "PRAGMA query_only = on": "PRAGMA query_only",
        "ATTACH DATABASE ':memory:' AS other": "SELECT count(*) FROM pragma_database_list WHERE name = 'other'",
    },
}


@pytest.mark.every_database
def test_a_session_that_a_job_has_changed_is_not_that_of_the_next_one(alias, one_thread):
    """A role, a search path, read-only, a limit, locks, temporary tables."""

    def ask(sql, fetch=True):
        with connections[alias].cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if fetch else None

    for change, look in SESSIONS[connections[alias].vendor].items():
        seen = []
        host = one_thread(
            lambda look=look, seen=seen: seen.append(ask(look)),
            lambda change=change: ask(change, fetch=False),
            lambda look=look, seen=seen: seen.append(ask(look)),
        )
        assert [outcome.name for outcome in host.outcomes] == ["successful"] * 3, change
        assert seen[0] == seen[1], change


@pytest.mark.every_database
def test_what_is_set_where_connections_begin_is_kept(alias, one_thread):
    raws = []

    def begin(connection, **kwargs):
        change = {"postgresql": "SET work_mem = 9999", "mysql": "SET @a = 1", "sqlite": "PRAGMA cache_size = 999"}
        with connection.cursor() as cursor:
            cursor.execute(change[connection.vendor])

    def use():
        connections[alias].ensure_connection()
        raws.append(connections[alias].connection)

    connection_created.connect(begin)
    try:
        one_thread(use, use)
    finally:
        connection_created.disconnect(begin)
    assert raws[0] is raws[1]


@pytest.mark.databases("postgresql")
def test_a_backend_that_sets_the_search_path_for_each_cursor_keeps_its_connection(alias, one_thread, monkeypatch):
    raws = []

    def own(self, name=None):
        cursor = BaseDatabaseWrapper._cursor(self, name)
        cursor.execute("SET search_path = public")
        return cursor

    def use():
        Group.objects.using(alias).count()
        raws.append(connections[alias].connection)

    def change():
        with connections[alias].cursor() as cursor:
            cursor.execute("SET search_path = public; SET work_mem = 9999")
        use()

    monkeypatch.setattr(type(connections[alias]), "_cursor", own, raising=False)
    one_thread(use, use, change, use)
    assert raws[0] is raws[1]
    assert raws[2] is not raws[3]


@pytest.mark.every_database
def test_a_project_may_keep_what_its_jobs_change(alias, one_thread, configure):
    configure(KEEP_CHANGED_SESSIONS=True)
    pids = []
    change = {"postgresql": "SET work_mem = 9999", "mysql": "SET @a = 1", "sqlite": "PRAGMA cache_size = 999"}

    def use():
        with connections[alias].cursor() as cursor:
            cursor.execute(change[connections[alias].vendor])
        pids.append(id(connections[alias].connection))

    one_thread(use, lambda: pids.append(id(connections[alias].connection)))
    assert pids[0] == pids[1]


@pytest.mark.every_database
@pytest.mark.parametrize("begin", ["BEGIN", "START TRANSACTION"])
def test_a_transaction_that_was_begun_with_sql_is_rolled_back_and_the_job_has_failed(alias, one_thread, begin):
    """Django does not know of it: what the job wrote would be lost, and the job done."""

    def leave_open():
        with connections[alias].cursor() as cursor:
            cursor.execute("BEGIN" if connections[alias].vendor == "sqlite" else begin)
        Group.objects.using(alias).create(name="lost")

    one_thread(leave_open, lambda: Group.objects.using(alias).create(name="kept"))
    assert [group.name for group in Group.objects.using(alias).all()] == ["kept"]
    row = TimerJob.objects.using(alias).get()
    assert row.exception_message == f"The handler left a transaction open on {alias}; it was rolled back."


@pytest.mark.every_database
def test_a_transaction_that_was_begun_and_ended_with_sql_is_the_handlers_affair(alias, one_thread):
    def write():
        with connections[alias].cursor() as cursor:
            cursor.execute("BEGIN")
            Group.objects.using(alias).create(name="kept")
            cursor.execute("COMMIT")

    one_thread(write, lambda: Group.objects.using(alias).count())
    assert Group.objects.using(alias).count() == 1
    assert not TimerJob.objects.using(alias).exists()


@pytest.mark.gate
@pytest.mark.every_database
@pytest.mark.parametrize("history", ["none", "activity"])
def test_the_end_of_an_atomic_job_leaves_its_connection_as_it_was(alias, one_thread, settings, history):
    """What deletes its row changes no session: a new connection for each job would take longer than most jobs."""
    settings.JOBEXEC = {**settings.JOBEXEC, "HISTORY_LEVEL": history}
    seen = []

    def look():
        Group.objects.using(alias).count()
        seen.append(connections[alias].connection)

    one_thread(look, look, look, atomic=True)
    assert len(seen) == 3 and len(set(map(id, seen))) == 1


@pytest.mark.databases("sqlite")
def test_a_transaction_of_a_handler_leaves_its_connection_as_it_was(alias, one_thread):
    """On SQLite Django begins it by a statement."""
    seen = []

    def write():
        with transaction.atomic(using=alias):
            Group.objects.using(alias).create(name=str(len(seen)))
        seen.append(connections[alias].connection)

    one_thread(write, write, atomic=False)
    one_thread(write, write, atomic=True)
    assert len(seen) == 4
    assert len(set(map(id, seen))) == 2


def test_event_loops_and_query_logs_are_not_kept(alias, one_thread, settings):
    settings.DEBUG = True
    loops, lengths = [], []

    def leave():
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        Group.objects.using(alias).count()
        loop.close()

    def look():
        lengths.append(sum("auth_group" in query["sql"] for query in connections[alias].queries_log))
        with pytest.raises(RuntimeError):
            loops.append(asyncio.get_event_loop_policy().get_event_loop())

    one_thread(leave, look)
    assert (loops, lengths) == ([], [0])


def test_a_handler_that_uses_no_database_opens_no_connection(alias, handle):
    seen = []
    handle(lambda: seen.append(threading.get_ident()), name="tests.0")
    make_job(alias, handler_type="tests.0")
    jobs, opened = acquire(alias), []

    class NoWriting(Host):
        def submit(self, outcome):
            opened.extend(each for each in connections.all(initialized_only=True) if each.connection is not None)

    call_in_thread("jobexec-one", lambda: execute_batch(jobs, NoWriting()), TIMEOUT)
    assert (len(seen), opened) == (1, [])
    assert tables_of(alias) == {jobs[0].id: [Job]}
