"""One round of acquisition: never more than the pool grants, and nothing stays locked that nobody knows of."""

import math
import threading
from types import SimpleNamespace

import pytest
from django.db import DataError, OperationalError, connections

from jobexec import signals
from jobexec.broker.message import NORMAL
from jobexec.clock import FrozenClock
from jobexec.conf import get_settings
from jobexec.executor.loops import acquisition as module
from jobexec.executor.loops.acquisition import JobAcquisition
from jobexec.executor.loops.broker_acquisition import BrokerAcquisition
from jobexec.executor.loops.broker_inbox import Inbox
from jobexec.executor.nodes.node import Node
from jobexec.executor.pool.pool import Pool
from jobexec.models import ExclusiveLock, Job
from jobexec.operations.acquire import acquire, statement
from jobexec.operations.acquire.acquire import acquire_jobs
from jobexec.operations.acquire.cursor import AcquisitionCursor
from jobexec.operations.settle.release import release_jobs
from jobexec.operations.sql import postgresql
from tests.support.executor import all_gone
from tests.support.factories import LOCK_TIME, locked_ids, make_job
from tests.support.waiting import until


class Waiting(Pool):
    """A pool that runs nothing: what is submitted stays in the queue."""

    def start(self):
        self._queue.closed = False


@pytest.fixture
def build(alias, configure):
    """A function that makes the loop; nothing runs, the test calls `run_once`."""

    def make(kind=JobAcquisition, threads=2, queue_size=3, **engine):
        configure({"MAX_WAIT": 5, "WAIT_TIME": 0.1, "MAX_WAIT_WHEN_LISTENING": 30, **engine})
        settings = get_settings()
        node = Node(settings, settings.engine(alias), dict)
        node.register()
        released = []

        def release(batches):
            released.extend(batches)
            release_jobs(alias, [job for batch in batches for job in batch])

        pool = Waiting(threads, queue_size, lambda batch: None, release)
        pool.start()
        loop = kind(node, pool, lambda: False, pool.jobs_in_hand)
        if kind is BrokerAcquisition:
            loop.consumer = SimpleNamespace(inbox=Inbox(), paused=False, away=False)
        loop.released = released
        return loop

    return make


@pytest.fixture
def asked(monkeypatch):
    """The numbers of jobs that were asked for."""
    limits = []

    def acquire(using, owner, limit, *args, **kwargs):
        limits.append(limit)
        return acquire_jobs(using, owner, limit, *args, **kwargs)

    monkeypatch.setattr(module, "acquire_jobs", acquire)
    return limits


def test_never_asks_for_more_than_the_pool_grants(alias, build, asked):
    loop = build(threads=2, queue_size=3, MAX_JOBS_PER_ACQUISITION=4)
    for _ in range(9):
        make_job(alias)
    assert loop.run_once() == 0.0
    assert loop.run_once() == 0.0
    assert loop.run_once() == 5.0, "the pool says when there is room"
    assert asked == [4, 1]
    assert len(loop.pool.jobs_in_hand()) == len(locked_ids(alias)) == 5


def test_waits_longer_when_nothing_is_found_and_longest_when_listening(alias, build):
    with FrozenClock():  # after a page that took long the head is looked at again sooner
        loop = build()
        assert [loop.run_once() for _ in range(8)][-3:] == [3.2, 5.0, 5.0]
        make_job(alias)
        assert loop.run_once() == 0.1
        loop._listening = lambda: True
        assert [loop.run_once() for _ in range(12)][-1] == 30.0
        loop.wake()
        assert loop.run_once() == 0.1


def test_places_that_were_not_used_are_free_again(alias, build):
    loop = build(threads=1, queue_size=1)
    make_job(alias)
    loop.run_once()
    assert loop.pool.reserve(9, lambda: None) == 1


def test_siblings_are_one_batch(alias, build):
    loop = build()
    for instance in ("a", "b", "a"):
        make_job(alias, process_instance_id=instance)
    loop.run_once()
    assert sorted(len(batch) for batch in loop.pool._queue.fair_queue.waiting()) == [1, 2]


def test_acquires_nothing_past_its_lease(alias, build, asked):
    loop = build()
    make_job(alias)
    loop.node._good_until = 0.0
    assert loop.run_once() < 1
    assert (asked, loop.pool.reserve(99, lambda: None)) == ([], 5)


def test_gives_back_when_the_lease_was_lost_meanwhile(alias, build, monkeypatch):
    loop = build()
    make_job(alias, process_instance_id="order-1")

    def slow(*args, **kwargs):
        result = acquire_jobs(*args, **kwargs)
        loop.node._good_until = 0.0
        return result

    monkeypatch.setattr(module, "acquire_jobs", slow)
    loop.run_once()
    assert (locked_ids(alias), loop.pool.empty) == (set(), True)
    assert not ExclusiveLock.objects.using(alias).exists()


def test_what_a_stopping_pool_does_not_take_is_given_back(alias, build, monkeypatch):
    loop = build()
    make_job(alias)

    def late(*args, **kwargs):
        loop.pool.stop(0)
        return acquire_jobs(*args, **kwargs)

    monkeypatch.setattr(module, "acquire_jobs", late)
    loop.run_once()
    assert (len(loop.released), locked_ids(alias)) == (1, set())


@pytest.mark.transactional
def test_a_commit_in_doubt_leaves_nothing_locked_for_ever(alias, build, monkeypatch, caplog):
    loop = build(threads=2, queue_size=8)
    known = make_job(alias, process_instance_id="order-1").pk
    loop.run_once()
    for instance in ("order-2", "order-3", ""):
        make_job(alias, process_instance_id=instance)

    def cut(*args, **kwargs):
        acquire_jobs(*args, **kwargs)
        raise OperationalError("the connection was cut after COMMIT was sent")

    monkeypatch.setattr(module, "acquire_jobs", cut)
    with pytest.raises(OperationalError):
        loop.run_once()
    assert len(locked_ids(alias)) == 4
    assert [job.id for job in loop.pool.jobs_in_hand()] == [known]
    monkeypatch.setattr(module, "acquire_jobs", acquire_jobs)
    loop.run_once()
    assert len(loop.pool.jobs_in_hand()) == 4
    assert "3 jobs on" in caplog.text
    for row in Job.objects.using(alias).all():
        assert (row.retries, row.lost_runs) == (3, 0)
    assert ExclusiveLock.objects.using(alias).count() == 3


def once(monkeypatch, module, name, error):
    """Let a function of a module fail the next time that it is called."""
    real, failed = getattr(module, name), []

    def fail(*args, **kwargs):
        if failed:
            return real(*args, **kwargs)
        failed.append(True)
        raise error

    monkeypatch.setattr(module, name, fail)


def test_a_paused_node_releases_what_it_does_not_know_of(alias, build, asked):
    loop = build()
    make_job(alias)
    acquire_jobs(alias, loop.node.owner, 1, loop.node.scope, lock_time=LOCK_TIME)
    loop.node.paused = True
    loop.doubt()
    assert loop.run_once() == 1.0
    assert (locked_ids(alias), asked) == (set(), [])


@pytest.mark.parametrize("where", [(acquire, "_acquire_in_several"), (statement, "unlock_page")])
@pytest.mark.parametrize("error", [OperationalError("database is locked"), DataError("a row is unreadable")])
@pytest.mark.every_database
def test_half_a_page_leaves_nothing_locked_for_ever(alias, build, monkeypatch, where, error):
    loop = build()
    plain, exclusive = make_job(alias).pk, make_job(alias, process_instance_id="order-1").pk
    once(monkeypatch, *where, error)
    monkeypatch.setattr(acquire, "bury_unreadable", lambda *args, **conditions: 1)
    for _ in range(3):  # the unreadable row costs one round more
        loop.run_once()
        assert {job.id for job in loop.pool.jobs_in_hand()} <= locked_ids(alias)
    assert {job.id for job in loop.pool.jobs_in_hand()} == locked_ids(alias) == {plain, exclusive}
    revisions = dict(Job.objects.using(alias).values_list("pk", "revision"))
    assert revisions == {job.id: job.revision for job in loop.pool.jobs_in_hand()}


@pytest.mark.parametrize("error", [OperationalError("database is locked"), DataError("a row is unreadable")])
def test_half_of_what_a_broker_named_leaves_nothing_locked_for_ever(alias, build, monkeypatch, error):
    loop = build(BrokerAcquisition)
    ids = [make_job(alias).pk, make_job(alias, process_instance_id="order-1").pk]
    loop._asked, loop._look_at = False, math.inf
    loop.inbox.add("message", ids, NORMAL)
    once(monkeypatch, acquire, "_acquire_in_several", error)
    monkeypatch.setattr(acquire, "bury_unreadable", lambda *args, **conditions: 1)
    with FrozenClock() as clock:
        for _ in range(4):
            loop.run_once()
            clock.tick(1)
    assert {job.id for job in loop.pool.jobs_in_hand()} == locked_ids(alias)
    assert ids[1] in locked_ids(alias)


def test_what_could_not_be_given_back_is_neither_queued_nor_locked_for_ever(alias, build, monkeypatch):
    loop = build(threads=2, queue_size=3)
    rows = [make_job(alias, process_instance_id="order-1") for _ in range(3)]

    def sift(batches):
        return [batch[:1] for batch in batches], [job for batch in batches for job in batch[1:]]

    def refuse(using, jobs):
        raise OperationalError("away")

    loop.sift = sift
    with monkeypatch.context() as patched:
        patched.setattr(module, "release_jobs", refuse)
        with pytest.raises(OperationalError):
            loop.run_once()
    assert [job.id for job in loop.pool.jobs_in_hand()] == [rows[0].pk]
    assert len(locked_ids(alias)) == 3
    loop.run_once()
    assert set(locked_ids(alias)) == {rows[0].pk}
    assert ExclusiveLock.objects.using(alias).count() == 1


def test_a_job_that_ends_while_strays_are_looked_for_is_let_alone(alias, build):
    from jobexec.operations.settle.recover import release_strays

    loop = build()
    make_job(alias)
    loop.run_once()
    ((work,),) = loop.pool._queue.fair_queue.waiting()

    def in_hand():
        Job.objects.using(alias).filter(pk=work.id).update(revision=99)  # settled, and acquired anew
        return []

    assert release_strays(alias, loop.node.owner, in_hand) == 0
    assert locked_ids(alias) == {work.id}


def test_a_conflict_backs_off_and_is_no_error(alias, build, monkeypatch):
    loop = build(BACKOFF_TIME=0.03, MAX_BACKOFF=0.5)
    loop.waiting.jitter = lambda: 0.0

    def conflict(*args, **kwargs):
        raise OperationalError("database is locked")

    monkeypatch.setattr(module, "acquire_jobs", conflict)
    assert [loop.run_once() for _ in range(3)] == [0.03, 0.06, 0.12]
    assert loop.pool.reserve(99, lambda: None) == 5


def test_tells_what_it_acquired_before_a_thread_can_take_it(alias, build):
    heard = []

    def hear(sender, using, jobs, node, **kwargs):
        heard.append((sender, using, [job.handler_type for job in jobs], node, loop.pool.jobs_in_hand()))

    signals.job_acquired.connect(hear)
    try:
        loop = build()
        loop.run_once()
        make_job(alias)
        loop.run_once()
    finally:
        signals.job_acquired.disconnect(hear)
    assert heard == [(Job, alias, ["tests.do_nothing"], loop.node.owner, [])]
    assert len(loop.pool.jobs_in_hand()) == 1


def test_a_wake_up_ends_the_wait(alias, build):
    loop = build()
    loop.waiting = SimpleNamespace(wake=lambda: None)
    loop.wake()
    assert loop._woken.is_set()


def test_each_round_is_a_line_for_whoever_debugs(alias, build, caplog, monkeypatch):
    loop = build(threads=1, queue_size=3)
    for _ in range(6):
        make_job(alias)
    real = module.acquire_jobs

    def overtaken(*args, **kwargs):
        result = real(*args, **kwargs)
        result.lock_failures = 2
        return result

    with caplog.at_level("DEBUG", "jobexec.executor"):
        loop.run_once()
        monkeypatch.setattr(module, "acquire_jobs", overtaken)
        loop.pool.stop(0)
        loop.pool.start()
        loop._cursor = AcquisitionCursor()  # as when the loop starts with the pool
        loop.run_once()
        loop.run_once()
    lines = [record.getMessage().partition(": ")[2] for record in caplog.records if "asked for" in record.getMessage()]
    assert lines == [
        "asked for 4 jobs, 4 found, 4 acquired, 0 lost to other nodes; 0 threads busy, 4 jobs queued",
        "asked for 4 jobs, 4 found, 4 acquired, 2 lost to other nodes; 0 threads busy, 4 jobs queued",
        "asked for 0 jobs, 0 found, 0 acquired, 0 lost to other nodes; 0 threads busy, 4 jobs queued",
    ]


@pytest.mark.parametrize("waiting", ["ladder", "backoff", "polling"])
def test_after_a_walk_to_the_end_the_head_is_looked_at_without_waiting(alias, build, waiting):
    """What came to stand there was perhaps announced before that page, and would not be announced again."""
    loop = build(queue_size=20, MAX_JOBS_PER_ACQUISITION=5, WAITING=waiting, WAIT_TIME=3)
    for _ in range(7):
        make_job(alias)
    with FrozenClock():
        loop.run_once()
        loop._cursor._head_cost = 0.01  # a full page, and the head has just been seen
        first = make_job(alias, priority=1000)
        assert loop.run_once() == 0.0
        assert len(locked_ids(alias)) == 7
        assert first.pk not in locked_ids(alias)
        assert loop.run_once() > 0.0
        assert first.pk in locked_ids(alias)
        assert loop.run_once() > 0.0


@pytest.mark.transactional
@pytest.mark.databases("postgresql")
def test_the_loops_of_an_executor_keep_plans_and_its_threads_do_not(alias, make_executor, handle, monkeypatch):
    seen, threads, keep = [], set(), postgresql.PostgreSQL.keep_plans

    def told(self, connection):
        threads.add(threading.current_thread().name)
        keep(self, connection)

    monkeypatch.setattr(postgresql.PostgreSQL, "keep_plans", told)
    handle(lambda: seen.append(_kept(alias)), name="tests.look")
    executor = make_executor()
    executor.start()
    for _ in range(3):
        make_job(alias, handler_type="tests.look")
        until(lambda: all_gone(alias))
    assert seen == [([], "on")] * 3
    assert threads == {f"jobexec-{loop}-{alias}" for loop in ("acquisition", "settlement")}


def _kept(alias):
    """The plans that a connection keeps, and how it plans."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT array(SELECT statement FROM pg_prepared_statements), current_setting('enable_seqscan')")
        return cursor.fetchone()
