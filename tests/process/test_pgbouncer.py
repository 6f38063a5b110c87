"""A real PgBouncer in transaction mode between the executor and PostgreSQL."""

import json
import re
import signal
import threading
from contextlib import suppress

import pytest
from django.db import connections, transaction
from django.db.backends.signals import connection_created

from jobexec import clock, job
from jobexec.conf import get_settings
from jobexec.executor.job_executor import JobExecutor
from jobexec.executor.process import preflight
from jobexec.handlers import registry
from jobexec.models import DeadLetterJob, ExecutorNode, Job, JobLog, SuspendedJob, TimerJob
from jobexec.operations import activate, set_retries, suspend
from jobexec.operations.maintenance.timers import trigger_due_timers
from jobexec.operations.nodes.leases import declare_dead
from jobexec.operations.notify import wake
from jobexec.operations.settle.complete import complete_jobs
from jobexec.operations.settle.fail import fail_job
from jobexec.operations.settle.recover import recover_node, release_owned
from jobexec.operations.sql.dialect import dialect
from tests.support.executor import all_gone
from tests.support.factories import a_failure, a_run, acquire, make_job, make_node, table_of, tables_of
from tests.support.machines import processes
from tests.support.machines.pgbouncer import in_transaction_mode, settings_of
from tests.support.machines.rerouted import rerouted
from tests.support.waiting import TIMEOUT, passed, until

pytestmark = [pytest.mark.transactional, pytest.mark.slow, pytest.mark.databases("postgresql")]

# What would stay behind in a session that belongs to somebody else a moment later.
_SESSION_STATE = re.compile(
    r"^\s*(SET\s+(?!LOCAL|CONSTRAINTS|TRANSACTION)|LISTEN|PREPARE|DECLARE|CREATE\s+TEMP)|advisory|set_config|WITH HOLD",
    re.IGNORECASE,
)


@pytest.fixture
def bouncer(alias):
    with in_transaction_mode(connections[alias].settings_dict) as bouncer:
        yield bouncer


@pytest.fixture
def through(alias, bouncer):
    """The test's own connections, too, go through PgBouncer."""
    with rerouted(alias, **settings_of(bouncer)):
        yield bouncer


@pytest.fixture
def executor(alias, settings, through):
    """An executor in this process, behind PgBouncer; not started."""
    quick = {"WAIT_TIME": 0.01, "MAX_WAIT": 0.1, "MAX_WAIT_WHEN_LISTENING": 300}
    settings.JOBEXEC = {"ENGINES": {alias: quick}, "THREADS": 4, "SETTLE_WITHIN": 0.005}
    with registry.isolated():
        executor = JobExecutor()
        yield executor
        assert executor.stop(TIMEOUT)
    clock.forget()


@pytest.fixture
def start(alias, run, bouncer):
    """A function that starts an executor process behind PgBouncer, with a direct alias beside."""
    addresses = json.loads(processes.environment(alias)["JOBEXEC_TEST_CONNECTIONS"])
    direct = addresses["default"]
    addresses = {"default": {**direct, **settings_of(bouncer)}, "direct": direct}

    def start(*arguments, **keys):
        return run(*arguments, env={"JOBEXEC_TEST_CONNECTIONS": json.dumps(addresses)}, **keys)

    return start


def test_the_verbs_work_through_it(alias, through):
    connections[alias].ensure_connection()
    assert dialect(alias).is_behind_pooler(connections[alias].connection), "or this test would test nothing"
    first, second, third = (make_job(alias, process_instance_id=name, retries=2) for name in ("a", "b", "c"))
    works = {work.id: work for work in acquire(alias)}
    assert set(works) == {first.pk, second.pk, third.pk}
    assert complete_jobs(alias, [(works[first.pk], a_run(alias))]) == {first.pk}
    assert fail_job(alias, works[second.pk], a_failure(retry_at=clock.now(alias)), a_run(alias)) is not None
    assert table_of(alias, second) is TimerJob
    assert release_owned(alias, "one") == 1
    until(lambda: trigger_due_timers(alias, 10))
    assert suspend(second.pk, using=alias) is not None and table_of(alias, second) is SuspendedJob
    activate(second.pk, using=alias)
    assert table_of(alias, second) is Job
    node = make_node(alias)
    assert len(acquire(alias, node.lock_owner)) == 2
    ExecutorNode.objects.using(alias).update(lease_expiration_time=node.start_time)
    until(lambda: declare_dead(alias))
    assert recover_node(alias, node) == 2
    assert {row.pk for row in Job.objects.using(alias).filter(lock_owner=None)} == {second.pk, third.pk}
    # More rows than a server-side cursor would fetch at once.
    with transaction.atomic(alias):
        assert len(list(Job.objects.using(alias).iterator(chunk_size=1))) == 2
    (work, *_) = acquire(alias)
    assert fail_job(alias, work, a_failure(kind="fatal"), a_run(alias)) is not None
    assert table_of(alias, work) is DeadLetterJob
    assert set_retries(work.id, 3, using=alias) is not None


def test_an_executor_does_jobs_of_all_kinds_and_leaves_no_session_state(alias, executor):
    statements, running, overlaps = [], set(), []

    def record(execute, sql, parameters, many, context):
        statements.append(str(sql))
        return execute(sql, parameters, many, context)

    def watch(sender, connection, **kwargs):
        if record not in connection.execute_wrappers:
            connection.execute_wrappers.append(record)

    def exclusive(name):
        overlaps.extend([name] if name in running else [])
        running.add(name)
        JobLog.objects.using(alias).count()
        running.discard(name)

    def fail():
        raise ValueError("no")

    job(name="tests.exclusive")(exclusive)
    job(name="tests.atomic", atomic=True)(lambda: JobLog.objects.using(alias).count())
    job(name="tests.fail", retries="R2/PT0.01S")(fail)
    connection_created.connect(watch)
    try:
        executor.start()
        for number in range(30):
            name = f"order-{number % 3}"
            arguments = {"args": [name], "kwargs": {}}
            make_job(alias, handler_type="tests.exclusive", process_instance_id=name, handler_configuration=arguments)
            make_job(alias, handler_type="tests.atomic", atomic=True)
        for _ in range(5):
            make_job(alias, handler_type="tests.fail", retries=2)
        rows = Job.objects.using(alias)
        until(lambda: DeadLetterJob.objects.using(alias).count() == 5 and not rows.exists() and executor.idle)
        assert executor.stop(TIMEOUT)
    finally:
        connection_created.disconnect(watch)
        with suppress(ValueError):
            connections[alias].execute_wrappers.remove(record)
    assert (Job.objects.using(alias).count(), overlaps) == (0, [])
    assert JobLog.objects.using(alias).filter(state="successful").count() == 60
    assert len(statements) > 50
    assert [statement for statement in statements if _SESSION_STATE.search(statement)] == []


def test_who_would_listen_through_it_polls_and_says_so_once(alias, executor, caplog):
    listener = executor.engines[alias]._listener
    assert [listener.run_once() for _ in range(3)] == [60.0] * 3
    assert listener.listening is False
    assert caplog.text.count("is behind a connection pooler") == 1
    done = threading.Event()
    job(name="tests.done")(done.set)
    executor.start()
    wake.remove_listener(executor.engines[alias].hear)  # as if the job came from another process
    make_job(alias, handler_type="tests.done")
    passed(done)


def test_the_number_of_connections_is_not_compared_with_the_servers(alias, executor, settings):
    settings.JOBEXEC = {"ENGINES": {alias: {}}, "THREADS": 10_000}
    assert list(preflight.connection_warnings(get_settings(), 1)) == []


def test_jobs_are_heard_of_through_a_direct_alias(alias, start, enqueue, trace):
    long = {"WAIT_TIME": 300, "MAX_WAIT": 300, "MAX_WAIT_WHEN_LISTENING": 300, "LISTEN_DATABASE": "direct"}
    executor = start(ENGINES={"default": long}).started()
    for number in range(3):
        enqueue("note", str(number))
        until(lambda: len(trace.lines()) == number + 1)  # noqa: B023
    executor.send(signal.SIGTERM)
    assert executor.ended() == 0, executor.text
    assert "pooler" not in executor.text
    assert re.search(r"engines: +default \(PostgreSQL, skip locked, LISTEN\)", executor.text)


def test_its_first_lines_say_how_it_finds_jobs(alias, start):
    executor = start().started()
    executor.send(signal.SIGTERM)
    assert executor.ended() == 0, executor.text
    (line,) = [line for line in executor.text.splitlines() if "engines:" in line]
    assert line.endswith("default (PostgreSQL, skip locked, polling behind a pooler)")


def test_nothing_is_lost_when_it_is_restarted(alias, start, bouncer, enqueue, trace):
    executor = start("--until-empty", THREADS=4, LEASE_TIME=10, ENGINES={"default": {"NOTIFY": False}}).started()
    rows = [enqueue("note", str(number), process_instance_id=f"order-{number % 9}") for number in range(150)]
    for turn, number in enumerate((signal.SIGKILL, signal.SIGTERM), 1):
        until(lambda: len(trace.lines()) >= turn * 20)  # noqa: B023
        bouncer.stop(number)
        bouncer.start()
    assert executor.ended() == 0, executor.text
    assert tables_of(alias) == {}
    assert {line.split()[0] for line in trace.lines()} == {str(number) for number in range(150)}
    assert JobLog.objects.using(alias).filter(state="successful").count() == len(rows)
    assert not JobLog.objects.using(alias).filter(state="failed").exists()
    assert all_gone(alias)
