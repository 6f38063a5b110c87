"""SQLite tells nobody of a commit: the executor looks at its counter."""

import select
import sqlite3
import sys
import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest
from asgiref.sync import SyncToAsync
from django.contrib.auth.models import Group
from django.db import connections

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.executor.loops import commits
from jobexec.executor.loops.commits import CommitWatch, can_watch
from jobexec.executor.nodes.node import Node
from jobexec.models import Job
from jobexec.operations.notify.wake import EVERYTHING, JOBS, TIMERS, remove_listener
from jobexec.runtime.file_events import FileEvents
from jobexec.runtime.threads import call_in_thread
from tests.support.executor import all_gone
from tests.support.factories import acquire, make_job
from tests.support.machines.rerouted import rerouted
from tests.support.waiting import TIMEOUT, passed, until

pytestmark = [pytest.mark.transactional, pytest.mark.databases("sqlite")]

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of writes to files so")
SLOW = {"WAIT_TIME": 300, "MAX_WAIT": 300, "MAX_WAIT_WHEN_LISTENING": 300}


@pytest.fixture(params=["WAL", "DELETE"])
def journal(request, alias):
    """With a write-ahead log, and with the journal that SQLite has by default."""
    # The thread in which async tests have called the database lives on, and keeps its connection.
    SyncToAsync.single_thread_executor.submit(connections.close_all).result()
    options = dict(connections.settings[alias]["OPTIONS"])
    with rerouted(alias, OPTIONS={**options, "init_command": f"PRAGMA journal_mode={request.param}"}):
        assert connections[alias].cursor().execute("PRAGMA journal_mode").fetchone()[0] == request.param.lower()
        yield
    connections[alias].cursor().execute("SELECT 1")  # as before
    assert connections[alias].cursor().execute("PRAGMA journal_mode").fetchone()[0] == "wal"


@pytest.fixture
def time(monkeypatch):
    """The real time as the watch sees it."""
    time = SimpleNamespace(now=1000.0)
    time.monotonic = lambda: time.now
    monkeypatch.setattr(commits, "time", time)
    return time


@pytest.fixture
def silent(monkeypatch):
    """A system that does not tell of writes to files."""

    def refuse(path, names):
        raise OSError("no")

    monkeypatch.setattr(commits, "FileEvents", refuse)


@pytest.fixture
def watch(alias, time):
    """A watch that has looked once; `watch.ask()` asks it and returns what it has heard since."""
    settings, heard = get_settings(), []
    watch = CommitWatch(Node(settings, settings.engine(alias), dict), heard.append)

    def ask():
        watch.ask()
        news = list(heard)
        heard.clear()
        return news

    ask()
    return SimpleNamespace(ask=ask, it=watch)


def elsewhere(function):
    """Call it on another connection, as another process would."""
    call_in_thread("elsewhere", function, TIMEOUT)


def later(alias, hours):
    return lambda: make_job(alias, due_date=clock.now(alias) + timedelta(hours=hours))


def test_hears_of_jobs_that_others_commit_and_once_of_each(alias, journal, watch):
    assert watch.ask() == []
    elsewhere(lambda: make_job(alias))
    assert (watch.ask(), watch.ask()) == ([JOBS], [])
    assert len(acquire(alias)) == 1
    elsewhere(lambda: make_job(alias))
    assert (watch.ask(), watch.ask()) == ([JOBS], [])


def test_what_is_no_job_for_us_wakes_nobody(alias, configure, watch):
    make_job(alias)  # on the acquisition's own connection
    assert len(acquire(alias)) == 1
    elsewhere(lambda: Group.objects.using(alias).create(name="x"))
    assert watch.ask() == [], "the only job is locked"
    configure(CATEGORIES=["default", "mail"])
    elsewhere(lambda: make_job(alias, category="mail"))
    assert watch.ask() == []


def test_timers_are_woken_by_an_earlier_one_only(alias, watch):
    for hours, expected in ((2, [TIMERS]), (3, []), (1, [TIMERS]), (4, [])):
        elsewhere(later(alias, hours))
        assert watch.ask() == expected


def test_a_job_that_nobody_takes_is_no_reason_to_look_at_every_commit(alias, watch, time):
    elsewhere(lambda: make_job(alias))
    assert watch.ask() == [JOBS]
    for _ in range(3):
        elsewhere(lambda: make_job(alias))
        time.now += 0.02
        assert watch.ask() == []
    time.now += 0.05  # WAIT_TIME after the first
    assert (watch.ask(), watch.ask()) == ([JOBS], [])
    elsewhere(lambda: make_job(alias))
    assert watch.ask() == []
    Job.objects.using(alias).all().delete()
    elsewhere(lambda: Group.objects.using(alias).create(name="x"))
    time.now += 1
    assert watch.ask() == [], "there is none any more"


def test_looks_sooner_after_a_job_has_come(alias, silent, watch, time):
    assert watch.it.fileno() is None
    time.now += 100
    seldom = watch.it.turn()
    elsewhere(lambda: Group.objects.using(alias).create(name="x"))
    watch.ask()
    assert watch.it.turn() == seldom, "not for a heartbeat, say"
    elsewhere(lambda: make_job(alias))
    watch.ask()
    watch.ask()  # the rest
    often = watch.it.turn()
    time.now += 5
    assert often < watch.it.turn() < seldom
    time.now += 100
    assert watch.it.turn() == seldom


def told(watch):
    """Whether its descriptor is readable, or it looks often because that was so."""
    descriptor = watch.it.fileno()
    return descriptor is None or bool(select.select([descriptor], [], [], 0)[0])


def quiet(watch, time):
    """Whether nothing is told any more: the last connection of another thread may have to write its journal back."""
    time.now += 1
    return watch.ask() == [] and not told(watch)


@linux
def test_the_system_tells_of_writes_and_it_looks_seldom(alias, journal, watch, time):
    until(lambda: quiet(watch, time))
    assert watch.it.turn() == commits._SELDOM
    elsewhere(lambda: make_job(alias))
    assert told(watch)
    assert watch.ask() == [JOBS]
    assert watch.it.fileno() is None, "who writes all the time is not listened to all the time"
    until(lambda: quiet(watch, time))
    assert watch.it.turn() == commits._SELDOM


@linux
def test_after_a_write_it_looks_soon_until_the_commit_is_complete(alias, watch, time, monkeypatch):
    until(lambda: quiet(watch, time))
    changed, early = CommitWatch._changed, []
    elsewhere(lambda: make_job(alias))
    monkeypatch.setattr(CommitWatch, "_changed", lambda self: early.append(1))  # an fsync takes its time
    turns = []
    for _ in range(6):
        assert watch.ask() == []
        turns.append(watch.it.turn())
        time.now += turns[-1]
    assert turns == sorted(turns)
    assert (turns[0], turns[-1], watch.it.fileno()) == (commits._FIRST, commits._LEAST, None)
    monkeypatch.setattr(CommitWatch, "_changed", changed)
    assert watch.ask() == [JOBS]


@linux
def test_a_file_of_which_the_system_tells_nothing_is_looked_at_as_ever(alias, watch, time, monkeypatch):
    """It may be on another machine."""
    monkeypatch.setattr(FileEvents, "take", lambda self: False)
    for number in range(commits._MOST_UNTOLD + 1):
        time.now += 1
        assert watch.it.turn() == commits._SELDOM, number
        elsewhere(lambda: Group.objects.using(alias).create(name=f"{clock.now()}"))
        watch.ask()
    assert watch.it.fileno() is None
    assert watch.it.turn() <= commits._MOST
    connections[alias].close()
    watch.ask()
    assert watch.it.fileno() is None, "nor through a new connection"


def test_what_is_no_job_is_looked_for_when_the_jobs_are_acquired(alias, watch):
    elsewhere(lambda: (make_job(alias), later(alias, 1)()))
    assert watch.ask() == [JOBS]
    assert watch.it.turn() == commits._FIRST
    assert watch.ask() == [TIMERS]


def test_a_new_connection_misses_nothing(alias, watch):
    connections[alias].close()
    elsewhere(lambda: make_job(alias))
    assert watch.ask() == [JOBS]
    connections[alias].close()
    assert watch.ask() == []


def test_says_so_when_it_cannot_look_any_more(alias, watch, monkeypatch):
    def fail(self):
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(CommitWatch, "_changed", fail)
        assert watch.ask() == [EVERYTHING], "who waits long must begin to poll"
        assert (watch.it.listening, watch.ask()) == (False, [])
        assert watch.it.turn() >= 1
    elsewhere(lambda: make_job(alias))
    assert watch.ask() == [JOBS]
    assert watch.it.listening


@pytest.mark.parametrize("look", ["_look_for_jobs", "_look_for_others"])
def test_says_once_that_it_cannot_read_a_table_and_reads_it_later(alias, watch, monkeypatch, look):
    elsewhere(later(alias, 1))
    with monkeypatch.context() as patch:
        patch.setattr(CommitWatch, look, lambda self: 1 / 0)
        assert watch.ask() == [EVERYTHING]
        assert (watch.it.listening, watch.ask()) == (False, [])
        elsewhere(lambda: make_job(alias))
        heard = watch.ask()
        assert heard == ([] if look == "_look_for_jobs" else [JOBS])
    assert heard + watch.ask() + watch.ask() == [JOBS, TIMERS]
    assert watch.it.listening


def test_an_executor_hears_of_jobs_from_elsewhere_and_sleeps_otherwise(
    alias, journal, make_executor, handle, monkeypatch
):
    done = threading.Semaphore(0)
    handle(done.release, name="tests.done")
    executor = make_executor(SLOW)
    executor.start()
    engine = executor.engines[alias]
    remove_listener(engine.hear)  # as if jobs came from another process
    for _ in range(3):
        make_job(alias, handler_type="tests.done")
        assert done.acquire(timeout=TIMEOUT)
    until(lambda: all_gone(alias))
    until(lambda: not executor.pool.load()["busy_threads"])  # the places that became free have been told
    rounds = []
    monkeypatch.setattr(engine.acquisitions[alias], "run_once", lambda: rounds.append(1) or 300.0)
    engine.acquisitions[alias].wake()  # who had been woken before, has gone
    until(lambda: rounds)
    rounds.clear()
    engine.heartbeat.wake()  # our own commits, and those of others that bring no jobs
    for number in range(3):
        Group.objects.using(alias).create(name=f"{number}")
    threading.Event().wait(0.1)
    assert rounds == []
    assert executor.stop()


def test_an_executor_hears_of_earlier_timers_from_elsewhere(alias, make_executor, handle):
    done = threading.Event()
    handle(done.set, name="tests.done")
    executor = make_executor(SLOW)
    executor.start()
    remove_listener(executor.engines[alias].hear)
    later(alias, 1)()
    make_job(alias, handler_type="tests.done", due_date=clock.now(alias) + timedelta(milliseconds=100))
    passed(done)


def test_can_be_switched_off_and_needs_a_file(alias, configure):
    assert can_watch(get_settings().engine(alias))
    configure({"NOTIFY": False})
    assert not can_watch(get_settings().engine(alias))
    configure()
    with rerouted(alias, NAME=":memory:"):
        assert not can_watch(get_settings().engine(alias))


@pytest.mark.databases("postgresql", "mariadb")
def test_is_for_sqlite(alias):
    assert not can_watch(get_settings().engine(alias))
