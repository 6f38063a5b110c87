"""When an executor cleans up the history."""

import threading
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connections, transaction

from jobexec import clock
from jobexec.clock import FrozenClock
from jobexec.conf import get_settings
from jobexec.executor.loops import cleanup
from jobexec.executor.loops.cleanup import HistoryCleanup
from jobexec.executor.nodes.node import Node
from jobexec.models import AcquisitionLock, JobLog, LogState
from jobexec.operations import clean_up_history
from jobexec.operations.maintenance.cleanup import Cleanup
from jobexec.operations.nodes.leases import declare_dead
from jobexec.runtime.threads import call_in_thread
from tests.support.waiting import TIMEOUT, until

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def frozen():
    with FrozenClock(NOW) as clock:
        yield clock


@pytest.fixture
def make_loop(alias, configure, frozen):
    """A function that makes a loop of a node of its own."""

    def make(**keys):
        configure(HISTORY_CLEANUP_BATCH_SIZE=2, LEASE_TIME=86400, **keys)
        settings = get_settings()
        node = Node(settings, settings.engine(alias), dict)
        node.register()
        return HistoryCleanup(node)

    return make


def log(alias, count, days=31):
    moment = clock.now(alias) - timedelta(days=days)
    rows = [JobLog(timestamp=moment, state=LogState.SUCCESSFUL, job_id=uuid4()) for _ in range(count)]
    JobLog.objects.using(alias).bulk_create(rows)


def left(alias):
    return JobLog.objects.using(alias).count()


def owner(alias):
    return AcquisitionLock.objects.using(alias).get(name="clean-up-history").lock_owner


def test_begins_a_minute_after_the_start(alias, make_loop, frozen, monkeypatch):
    monkeypatch.setattr(cleanup.Loop, "start", lambda self: None)
    loop = make_loop()
    log(alias, 1)
    loop.start()
    assert loop.run_once() == pytest.approx(60)
    frozen.tick(59)
    assert loop.run_once() == pytest.approx(1)
    assert left(alias) == 1
    frozen.tick(1)
    loop.run_once()
    assert left(alias) == 0


def test_does_a_piece_each_round_and_pauses_as_long_as_it_took(alias, make_loop, frozen, monkeypatch):
    loop = make_loop()
    log(alias, 5)
    step = Cleanup.step

    def slow(self):
        frozen.tick(0.25)
        return step(self)

    monkeypatch.setattr(Cleanup, "step", slow)
    assert [loop.run_once() for _ in range(3)] == pytest.approx([0.25] * 3)  # 2, 2, 1 rows
    assert loop.run_once() == pytest.approx(60.0), "there was something, there may be more soon"
    assert (left(alias), owner(alias)) == (0, None)
    frozen.tick(60)
    loop.run_once()
    assert loop.run_once() == pytest.approx(3600.0), "there was nothing"
    log(alias, 1)
    assert loop.run_once() == pytest.approx(3600), "also if it is woken"
    assert left(alias) == 1


def test_leaves_it_to_the_node_that_is_at_it(alias, make_loop):
    if connections[alias].vendor == "sqlite":
        other = Cleanup.begin(alias, "another process")
        assert make_loop().run_once() == pytest.approx(300.0)
        other.end()
        return
    one, two = make_loop(NODE_NAME="one"), make_loop(NODE_NAME="two")
    log(alias, 5)
    one.run_once()
    assert owner(alias) == one.node.owner
    assert two.run_once() == pytest.approx(300.0)
    assert left(alias) == 3


def test_takes_over_from_a_node_that_has_died(alias, make_loop, frozen):
    log(alias, 5)
    Cleanup.begin(alias, "dead").step()
    loop = make_loop()
    assert loop.run_once() == pytest.approx(300.0)
    frozen.tick(300)
    while loop.run_once() < 60:
        pass
    assert left(alias) == 0


def test_works_in_its_window_only_and_stops_when_it_closes(alias, make_loop, frozen):
    loop = make_loop(HISTORY_CLEANUP_WINDOW=("12:30", "13:00"))
    log(alias, 5)
    assert loop.run_once() == pytest.approx(1800.0)
    frozen.tick(1800)
    loop.run_once()
    assert (left(alias), owner(alias)) == (3, loop.node.owner)
    frozen.tick(1800)
    assert loop.run_once() == pytest.approx(3600.0), "it looks again now and then: clocks are put forward and back"
    assert (left(alias), owner(alias)) == (3, None)
    assert clean_up_history(alias) == 3, "who calls it himself has his own time"


def test_a_node_that_has_begun_a_new_boot_begins_again(alias, make_loop, frozen):
    loop = make_loop()
    log(alias, 5)
    loop.run_once()
    frozen.tick(timedelta(days=2))
    old = loop.node.owner
    declare_dead(alias)
    loop.node.renew()
    loop.run_once()
    assert (left(alias), owner(alias)) == (1, loop.node.owner)
    assert loop.node.owner != old


@pytest.mark.transactional
def test_goes_on_after_an_error(alias, make_loop, monkeypatch):
    loop = make_loop()
    log(alias, 3)
    loop.run_once()
    monkeypatch.setattr("jobexec.operations.maintenance.cleanup.delete_rows", lambda rows: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        loop.run_once()
    monkeypatch.undo()
    loop.run_once()
    assert left(alias) == 0


@pytest.mark.gate
@pytest.mark.transactional
def test_an_executor_cleans_up_and_frees_the_lock_when_it_stops(alias, make_executor, monkeypatch):
    monkeypatch.setattr(cleanup, "FIRST", 0.0)
    log(alias, 5)
    executor = make_executor(HISTORY_CLEANUP_BATCH_SIZE=2)
    executor.start()
    until(lambda: left(alias) == 0)
    executor.stop()
    assert owner(alias) is None


@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")
def test_who_writes_history_does_not_wait_for_a_piece_that_is_being_deleted(alias, configure):
    configure(HISTORY_CLEANUP_BATCH_SIZE=100)
    log(alias, 50)
    log(alias, 50, days=1)
    written = threading.Event()

    def write():
        log(alias, 10, days=0)
        log(alias, 10, days=32)
        written.set()

    work = Cleanup.begin(alias, "a")
    with transaction.atomic(using=alias):
        assert work.step() == 50
        call_in_thread("writer", write, TIMEOUT)
    assert written.is_set()
    assert left(alias) == 70
