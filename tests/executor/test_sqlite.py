"""SQLite: a file that is full, and a file that others are writing to."""

import sqlite3
import threading

import pytest
from django.contrib.auth.models import Group
from django.db import connection as default_connection
from django.db import connections
from django.db.backends.signals import connection_created

from jobexec.executor.loops import settlement
from jobexec.models import ExecutorNode, Job, JobLog, NodeState
from tests.support.executor import all_gone
from tests.support.factories import make_job, tables_of
from tests.support.waiting import TIMEOUT, until

pytestmark = [pytest.mark.transactional, pytest.mark.databases("sqlite")]


class Room:
    """How many pages the database may have, on all connections that there are and will be.

    A connection takes a new limit when its own thread uses it next: SQLite's error codes belong to the connection,
    and a statement of another thread in between would take them away.
    """

    def __init__(self):
        self.pages = 1_000_000

    def connected(self, connection, **kwargs):
        if connection.vendor == "sqlite" and self.limit not in connection.execute_wrappers:
            connection.execute_wrappers.append(self.limit)

    def limit(self, execute, sql, params, many, context):
        context["connection"].connection.execute(f"PRAGMA max_page_count = {self.pages}")
        return execute(sql, params, many, context)


@pytest.fixture
def room(alias):
    with connections[alias].cursor() as cursor:
        cursor.execute("VACUUM")  # what other tests have deleted would be room
    room = Room()
    connection_created.connect(room.connected)
    connections[alias].close()
    yield room
    connection_created.disconnect(room.connected)
    room.pages = 1_000_000
    connections[alias].cursor().execute("SELECT 1")
    connections[alias].close()
    connections[alias].execute_wrappers.clear()


@pytest.mark.gate
def test_nothing_is_lost_in_a_full_file_and_it_goes_on_when_there_is_room(
    alias, room, make_executor, handle, monkeypatch, caplog
):
    monkeypatch.setattr(settlement, "_LONGEST_PAUSE", 0.05)
    gate, done = threading.Event(), []

    def wait(context, number):
        assert gate.wait(TIMEOUT)
        if context.attempt == 1:
            raise ValueError("x" * 50_000)  # needs room in the file
        done.append(number)

    handle(wait, name="tests.wait", takes_context=True, retries="R3/PT0.01S")
    for number in range(8):
        configuration = {"args": [number], "kwargs": {}}
        make_job(alias, handler_type="tests.wait", handler_configuration=configuration)
    executor = make_executor({"WAIT_TIME": 0.01, "MAX_WAIT": 0.05, "MAX_WAIT_WHEN_LISTENING": 0.05}, THREADS=4)
    executor.start()
    until(lambda: executor.pool.load()["busy_threads"] == 4)
    room.pages = 1  # less than there are: SQLite takes what it has
    with pytest.raises(Exception, match="full"):
        for number in range(5_000):
            Group.objects.using(alias).create(name=f"{number} {'x' * 100}")
    gate.set()
    until(lambda: "database or disk is full" in caplog.text)
    assert len(tables_of(alias)) == 8
    assert done == [], "outcomes wait"
    room.pages = 1_000_000
    until(lambda: all_gone(alias))
    assert sorted(done) == list(range(8))
    assert JobLog.objects.using(alias).filter(state="successful").count() == 8
    assert executor.stop()
    assert not ExecutorNode.objects.using(alias).exists()


@pytest.mark.gate
def test_a_writer_that_holds_the_file_never_costs_the_lease(alias, make_executor, handle, monkeypatch):
    """SQLITE_BUSY is waited out, longer than the lease: the node is alive, and what it holds stays its own."""
    done = []
    handle(done.append, name="tests.note")
    monkeypatch.setattr(settlement, "_LONGEST_PAUSE", 0.05)
    quick = {"WAIT_TIME": 0.01, "MAX_WAIT": 0.05, "MAX_WAIT_WHEN_LISTENING": 0.05}
    lease = {"LEASE_TIME": 0.6, "HEARTBEAT_INTERVAL": 0.1, "RECOVERY_INTERVAL": 0.05}
    executor = make_executor(quick, **lease)
    with monkeypatch.context() as patch:
        options = connections.settings[alias]["OPTIONS"]
        patch.setitem(options, "timeout", 0.05)
        executor.start()
        node = executor.engines[alias].node
        owner = node.owner
        writer = sqlite3.connect(connections[alias].settings_dict["NAME"], isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        until(lambda: not node.good)
        assert node.owner == owner
        writer.execute("ROLLBACK")
        writer.close()
        until(lambda: node.good)
        assert node.owner == owner
        for number in range(5):
            make_job(alias, handler_type="tests.note", handler_configuration={"args": [number], "kwargs": {}})
        until(lambda: len(done) == 5 and all_gone(alias))
        assert ExecutorNode.objects.using(alias).get().state == NodeState.ACTIVE
        assert executor.stop()


@pytest.mark.gate
def test_many_writers_beside_the_executor(alias, make_executor, handle):
    done, stop = [], threading.Event()
    handle(done.append, name="tests.note", retries="R9/PT0.05S")

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            Group.objects.using(alias).create(name=f"{threading.get_ident()} {number}")
        default_connection.close()

    for number in range(60):
        configuration = {"args": [number], "kwargs": {}}
        make_job(alias, handler_type="tests.note", handler_configuration=configuration)
    writers = [threading.Thread(target=write) for _ in range(2)]
    executor = make_executor()
    executor.start()
    for writer in writers:
        writer.start()
    try:
        until(lambda: len(done) >= 60 and not Job.objects.using(alias).exists())
    finally:
        stop.set()
        for writer in writers:
            writer.join(TIMEOUT)
    assert sorted(done) == list(range(60))
    assert tables_of(alias) == {}
