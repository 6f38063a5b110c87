"""The number of connections that is stated is never exceeded, and servers and pools that are too small are told."""

import re
import threading
from io import StringIO
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connections

from jobexec.conf import get_settings
from jobexec.executor.job_executor import JobExecutor
from jobexec.executor.process import preflight
from jobexec.executor.process.until_empty import UntilEmpty
from jobexec.handlers.base import SharedEnd
from jobexec.management.commands import runjobexecutor
from jobexec.runtime.connection_count import (
    LOOPS,
    connections_by_alias,
    connections_needed,
    ordinary_connections,
    pool_size,
)
from jobexec.runtime.threads import call_in_thread
from tests.support.factories import make_job
from tests.support.threads import TIMEOUT, clients
from tests.support.waiting import passed, threads, until

pytestmark = pytest.mark.databases("postgresql", "mariadb")

# Whoever was connected before, and the counter's thread, are not the executor's.
_COUNT = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> ALL(%s)",
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND id NOT IN %s",
}
_OWN = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}
THREADS = 5


def own_id(alias):
    with connections[alias].cursor() as cursor:
        cursor.execute(_OWN[connections[alias].vendor])
        return cursor.fetchone()[0]


class Counter:
    """A thread that counts the executor's connections on the server again and again; `most` is the greatest number."""

    def __init__(self, alias):
        self.alias, self.most, self.last, self.rounds = alias, 0, 0, 0
        self._others = [*clients(alias)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *args):
        self._stop.set()
        self._thread.join(TIMEOUT)

    def _run(self):
        connection = connections[self.alias]
        self._others.append(own_id(self.alias))
        with connection.cursor() as cursor:
            while not self._stop.wait(0.002):
                cursor.execute(_COUNT[connection.vendor], [self._others])
                self.last = cursor.fetchone()[0]
                self.most, self.rounds = max(self.most, self.last), self.rounds + 1
        connection.close()


@pytest.mark.gate
@pytest.mark.transactional
def test_the_stated_number_is_never_exceeded_and_not_much_too_great(alias, make_executor, handle):
    everybody = threading.Barrier(THREADS)

    def use():
        connections[alias].ensure_connection()

    def use_together():
        use()
        everybody.wait(TIMEOUT)
        rounds = counter.rounds
        until(lambda: counter.rounds > rounds + 1)  # it has counted all of them
        everybody.wait(TIMEOUT)

    def fail():
        use()
        raise ValueError("no")

    handle(use, name="tests.use")
    handle(use, name="tests.atomic", atomic=True)
    handle(fail, name="tests.fail", retries="R2/PT0.01S")
    handle(use_together, name="tests.together")
    quick = {"WAIT_TIME": 0.01, "MAX_WAIT": 0.05, "MAX_WAIT_WHEN_LISTENING": 0.05}
    executor = make_executor(quick, THREADS=THREADS, HEARTBEAT_INTERVAL=0.05, RECOVERY_INTERVAL=0.02, LEASE_TIME=60)
    stated = connections_needed(executor.settings, executor.settings.engine(alias)).total
    over = UntilEmpty(executor)
    with Counter(alias) as counter:
        executor.start()
        for _ in range(2 * THREADS):
            make_job(alias, handler_type="tests.together")
        for number in range(40):
            make_job(alias, handler_type="tests.use", process_instance_id=f"order-{number % 3}")
            make_job(alias, handler_type="tests.atomic", atomic=True)
            make_job(alias, handler_type="tests.fail", retries=2)
        until(over)
        # A stop with jobs in the queue: they are given back by a thread of its own.
        begun, go = threading.Event(), threading.Event()
        handle(lambda: (use(), begun.set(), go.wait(TIMEOUT)), name="tests.wait")
        for _ in range(2 * THREADS):
            make_job(alias, handler_type="tests.wait")
        passed(begun)
        stopping = threading.Thread(target=executor.stop)
        stopping.start()
        until(lambda: executor.shutting_down)
        go.set()
        stopping.join(TIMEOUT)
        connections[alias].close()
        until(lambda: counter.last == 0)  # nothing is left open
    # The monitor asks about jobs that take longer than these; meters are written and history is cleaned up later.
    assert THREADS + len(LOOPS) - 3 <= counter.most <= stated


@pytest.mark.transactional
def test_every_thread_that_uses_the_database_is_counted(alias, configure):
    configure(THREADS=2)
    executor = JobExecutor()
    try:
        executor.start()
        expected = {f"jobexec-{loop}-{alias}" for loop in LOOPS} | {"jobexec-worker-1", "jobexec-worker-2"}
        listening = connections_needed(executor.settings, executor.settings.engine(alias)).listening
        until(lambda: set(threads()) >= expected)
        others = set(threads()) - expected - {"jobexec-timeouts"}  # which uses no database
        assert others == ({f"jobexec-listener-{alias}"} if listening else set())
    finally:
        executor.stop()


def test_every_alias_has_its_number(alias, configure):
    configure(THREADS=3)
    listening = int(connections[alias].vendor == "postgresql")
    assert connections_by_alias(get_settings()) == {alias: 18 + listening}
    configure({"NOTIFY": False}, THREADS=3)
    assert connections_by_alias(get_settings()) == {alias: 18}
    configure({"NOTIFY": False}, THREADS=3, ASYNC_THREADS=5)
    assert connections_by_alias(get_settings()) == {alias: 21}
    configure({"NOTIFY": False}, THREADS=3, ASYNC_JOBS=0)
    assert connections_by_alias(get_settings()) == {alias: 16}, "async handlers run in the worker threads"


def test_loops_that_only_some_settings_need(alias, configure):
    configure({"NOTIFY": False}, THREADS=3)
    ordinary = connections_by_alias(get_settings())[alias]
    configure({"NOTIFY": False}, THREADS=3, RESOURCES={"pay": {"limit": 1}}, DEAD_LETTER_ALERTS={})
    assert connections_by_alias(get_settings())[alias] == ordinary + 1
    alerts = {"team": {"mail": "team@shop.example"}}
    configure({"NOTIFY": False}, THREADS=3, RESOURCES={"pay": {"limit": 1}}, DEAD_LETTER_ALERTS=alerts)
    assert connections_by_alias(get_settings())[alias] == ordinary + 2


@pytest.mark.transactional
def test_steps_that_end_together_use_a_connection_of_their_own(alias, make_executor, handle, monkeypatch):
    executor = make_executor()
    engine = executor.settings.engine(alias)
    done, used = threading.Event(), []

    def write(using, ended):
        used.append(threading.current_thread().name)
        done.set()
        return []

    def step(context):
        context.shared_end = SharedEnd(write, None)

    handle(step, name="tests.step")
    executor.start()
    make_job(alias, handler_type="tests.step")
    passed(done)
    executor.stop()
    assert used == [f"jobexec-settlement-{alias}"]
    with_processes = ordinary_connections(executor.settings, engine)
    monkeypatch.setattr(apps, "is_installed", lambda name: name != "jobexec.processes")
    assert with_processes == ordinary_connections(executor.settings, engine) + 1


def test_the_number_in_the_documentation_is_right(monkeypatch):
    monkeypatch.setattr(apps, "is_installed", lambda name: name != "jobexec.processes")
    docs = Path(__file__).parents[3] / "docs"
    pages = ["tutorial/first-job.md", "how-to/executors/run-in-production.md", "how-to/executors/use-pgbouncer.md"]
    said = [re.findall(r"connections: up to (\d+)\s+on\s+default", (docs / page).read_text()) for page in pages]
    settings = get_settings().replace(threads=10)
    ordinary = ordinary_connections(settings, settings.engine("default"))
    assert said == [[str(ordinary)], [str(ordinary + 1)], [str(ordinary + 1)]], "SQLite, and PostgreSQL with a listener"


@pytest.mark.databases("postgresql")
def test_a_pool_bounds_the_ordinary_ones_and_the_listener_is_beside_it(alias, configure, monkeypatch):
    monkeypatch.setitem(connections.settings[alias]["OPTIONS"], "pool", {"max_size": 4})
    configure(THREADS=3)
    assert connections_by_alias(get_settings()) == {alias: 5}
    configure({"LISTEN_DATABASE": "default", "NOTIFY": True}, THREADS=3)
    assert connections_by_alias(get_settings()) == {alias: 4}, "SQLite cannot listen"


@pytest.mark.parametrize(
    ("pool", "size"), [(None, None), (True, 4), ({}, None), ({"min_size": 2}, 2), ({"min_size": 2, "max_size": 9}, 9)]
)
def test_the_size_of_a_pool(alias, pool, size):
    assert pool_size({"OPTIONS": {"pool": pool}}) == size


def test_a_server_that_takes_too_few_is_told(alias, configure):
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SHOW max_connections" if connections[alias].vendor == "postgresql" else "SELECT @@max_connections"
        )
        most = int(cursor.fetchone()[0])
    configure(THREADS=3)
    (each,) = connections_by_alias(get_settings()).values()
    assert list(preflight.connection_warnings(get_settings(), 1)) == []
    processes = most // each + 1
    (warning,) = preflight.connection_warnings(get_settings(), processes)
    assert f"{processes} executor processes may open {processes * each}" in warning
    configure(THREADS=most)
    (warning,) = preflight.connection_warnings(get_settings(), 1)
    assert f"this executor may open {most + each - 3}" in warning
    assert repr(alias) in warning


@pytest.mark.transactional
def test_the_command_keeps_no_connection_in_the_thread_that_only_waits(alias, configure, monkeypatch):
    configure({"LISTEN_DATABASE": None})
    monkeypatch.setattr(runjobexecutor, "configure_logging", lambda *args: None)
    monkeypatch.setitem(connections.settings[alias], "CONN_MAX_AGE", None)

    def check():
        call_command("runjobexecutor", "--check", stdout=StringIO(), skip_checks=True)
        assert [each.alias for each in connections.all(initialized_only=True) if each.connection] == []

    call_in_thread("jobexec-check", check, TIMEOUT)
