"""ACQUISITIONS: one engine with several of different settings, several engines with one."""

import threading
from dataclasses import replace

import pytest
from django.db import connections

from jobexec.conf import get_settings
from jobexec.exceptions import NodeRefused
from jobexec.executor.job_executor import JobExecutor
from jobexec.executor.loops import acquisition as module
from jobexec.executor.loops.solitary import Held
from jobexec.executor.process.banner import banner
from jobexec.executor.process.preflight import check_broker
from jobexec.executor.process.until_empty import UntilEmpty
from jobexec.models import ExecutorNode, Job
from jobexec.operations.acquire.acquire import acquire_jobs
from jobexec.operations.notify.wake import remove_listener
from jobexec.runtime.connection_count import connections_needed
from tests.support.executor import all_gone
from tests.support.factories import make_job
from tests.support.waiting import TIMEOUT, passed, until

NAMED = {"quick": {"CATEGORIES": ["mail", "default"]}, "slow": {"CATEGORIES": ["bulk"], "MAX_JOBS_PER_ACQUISITION": 3}}
BOTH = {"ACQUISITIONS": ["quick", "slow"]}
CATEGORIES = ["mail", "default", "bulk"]
OFTEN = {"WAIT_TIME": 0.01, "MAX_WAIT": 0.05, "MAX_WAIT_WHEN_LISTENING": 0.05}

pytestmark = pytest.mark.transactional


@pytest.fixture
def make(make_executor):
    """A function that makes an executor whose engine names both acquisitions."""

    def make(engine=None, named=NAMED, **keys):
        engine = {**BOTH, **OFTEN, **(engine or {})}
        return make_executor(engine, **{"CATEGORIES": CATEGORIES, "ACQUISITIONS": named, **keys})

    return make


@pytest.fixture
def pages(monkeypatch):
    """What each round asked for: categories and limit."""
    pages = []

    def acquire(using, owner, limit, scope, **options):
        pages.append((scope.categories, limit))
        return acquire_jobs(using, owner, limit, scope, **options)

    monkeypatch.setattr(module, "acquire_jobs", acquire)
    return pages


def test_each_asks_for_its_own_by_its_own_settings(alias, make, pages):
    executor = make({"MAX_JOBS_PER_ACQUISITION": 7})
    (engine,) = executor.engines.values()
    engine.node.register()
    executor.pool._queue.closed = False
    for acquisition in engine.acquisitions.values():
        acquisition.run_once()
    assert pages == [(("mail", "default"), 7), (("bulk",), 3)]


@pytest.mark.gate
def test_together_they_do_everything(alias, make, handle):
    executor = make()
    handle(lambda: None, name="tests.nothing")
    for category in CATEGORIES:
        for _ in range(10):
            make_job(alias, handler_type="tests.nothing", category=category)
    executor.start()
    until(lambda: all_gone(alias))
    assert ExecutorNode.objects.using(alias).get().categories == CATEGORIES
    assert executor.stop()
    assert not ExecutorNode.objects.using(alias).exists()


@pytest.mark.gate
def test_a_flood_of_one_leaves_a_thread_to_the_other(alias, make, handle):
    executor = make(THREADS=4, QUEUE_SIZE=8)
    done, gate = threading.Event(), threading.Event()
    handle(lambda: gate.wait(TIMEOUT), name="tests.slow")
    handle(done.set, name="tests.done")
    for _ in range(40):
        make_job(alias, handler_type="tests.slow", category="bulk")
    executor.start()
    try:
        until(lambda: executor.pool.load()["busy_threads"] == 3)
        make_job(alias, handler_type="tests.done", category="mail")
        passed(done)
    finally:
        gate.set()


def test_what_one_has_just_locked_is_no_stray_to_the_other(alias, make, monkeypatch):
    """Both lock in the name of the node, so the one that looks for strays waits until the pool has the other's page."""
    executor = make()
    (engine,) = executor.engines.values()
    quick, slow = engine.acquisitions.values()
    engine.node.register()
    executor.pool._queue.closed = False
    job = make_job(alias, category="mail")
    other = threading.Thread(target=lambda: (slow.run_once(), connections.close_all()))

    def acquire(*args, **options):
        found = acquire_jobs(*args, **options)
        if found.jobs:
            slow._in_doubt = True
            other.start()
            other.join(0.2)
            assert other.is_alive()
        return found

    monkeypatch.setattr(module, "acquire_jobs", acquire)
    quick.run_once()
    other.join(TIMEOUT)
    assert [work.id for work in executor.pool.jobs_in_hand()] == [job.pk]
    assert Job.objects.using(alias).get().lock_owner == engine.node.owner


@pytest.mark.gate
def test_siblings_in_both_never_overlap(alias, make, handle):
    running, overlaps, order = threading.Lock(), [], []

    def run(number):
        if not running.acquire(blocking=False):
            overlaps.append(number)
            return
        order.append(number)
        running.release()

    executor = make()
    handle(run, name="tests.sibling")
    for number in range(30):
        arguments = {"args": [number], "kwargs": {}}
        category = ("mail", "bulk")[number % 2]
        columns = {"exclusive": True, "process_instance_id": "17", "handler_configuration": arguments}
        make_job(alias, handler_type="tests.sibling", category=category, **columns)
    executor.start()
    until(lambda: all_gone(alias))
    assert not overlaps
    assert sorted(order) == list(range(30))


@pytest.mark.gate
def test_the_limit_of_a_tenant_counts_for_both_together(alias, make, handle):
    now, most, lock, gate = [], [], threading.Lock(), threading.Event()

    def run():
        with lock:
            now.append(1)
            most.append(len(now))
        gate.wait(TIMEOUT)
        with lock:
            now.pop()

    executor = make(TENANT_CONCURRENCY=2, THREADS=8)
    handle(run, name="tests.tenant")
    for category in ["mail", "bulk"] * 6:
        make_job(alias, handler_type="tests.tenant", category=category, tenant_id="acme")
    executor.start()
    until(lambda: len(now) == 2)
    gate.set()
    until(lambda: all_gone(alias))
    assert max(most) <= 2


@pytest.mark.databases("postgresql", "sqlite")
def test_each_hears_of_its_jobs(alias, make, handle):
    """From the database alone, with waits that would outlast the test."""
    long = {"WAIT_TIME": 300, "MAX_WAIT": 300, "MAX_WAIT_WHEN_LISTENING": 300}
    heard = threading.Semaphore(0)
    handle(heard.release, name="tests.heard")
    executor = make(long)
    executor.start()
    (engine,) = executor.engines.values()
    remove_listener(engine.hear)
    until(engine._listening)
    until(lambda: all(each.succeeded_at and each.round_began is None for each in engine.acquisitions.values()))
    for category in ("bulk", "mail", "bulk"):
        make_job(alias, handler_type="tests.heard", category=category)
        assert heard.acquire(timeout=TIMEOUT)


def test_what_none_of_them_takes_holds_up_no_run_until_empty(alias, make):
    named = {"quick": {"PRIORITY_RANGE": (5, None)}, "slow": {"PRIORITY_RANGE": (None, -5)}}
    executor = make(named=named)
    (engine,) = executor.engines.values()
    engine.node.register()
    make_job(alias, priority=0)
    assert UntilEmpty(executor)()
    make_job(alias, priority=-5)
    assert not UntilEmpty(executor)()


def test_what_is_lost_twice_is_taken_over_once(alias, make):
    """A child has one acquisition, whatever the engine names."""
    settings = make().settings
    job = make_job(alias)
    executor = JobExecutor(settings.replace(threads=1), held=Held(alias, job.pk, job.revision, "nobody"))
    assert [len(engine.acquisitions) for engine in executor.engines.values()] == [1]


def test_the_banner_names_them(alias, make):
    lines = "\n".join(banner(make(named={**NAMED, "slow": {}})))
    assert "acquisitions: quick of mail, default and slow)" in lines


def test_each_needs_a_connection(alias, make):
    settings = make().settings
    engine = settings.engine(alias)
    plain = replace(engine, acquisitions=())
    assert connections_needed(settings, engine).ordinary == connections_needed(settings, plain).ordinary + 1


def test_messages_of_a_broker_cannot_be_divided(alias, make):
    pytest.importorskip("kombu")
    settings = make(DISPATCH="broker", BROKER_URL="memory://").settings
    with pytest.raises(NodeRefused, match=r"names ACQUISITIONS \(quick, slow\)"):
        check_broker(settings)


@pytest.mark.skipif(len(list(connections)) < 2, reason="two engines need two databases, and only one is covered")
def test_two_engines_share_settings_and_nothing_else(configure, settings):
    aliases = sorted(connections)[:2]
    engines = {name: {"ACQUISITIONS": ["slow"], "LOCK_TIME": 60 + place} for place, name in enumerate(aliases)}
    settings.JOBEXEC = {**settings.JOBEXEC, "CATEGORIES": CATEGORIES, "ACQUISITIONS": NAMED, "ENGINES": engines}
    executor = JobExecutor(get_settings())
    loops = [loop for engine in executor.engines.values() for loop in engine.acquisitions.values()]
    assert [loop.name for loop in loops] == [f"jobexec-acquisition-{name}/slow" for name in aliases]
    assert [loop._engine.lock_time.total_seconds() for loop in loops] == [60, 61]
    assert {loop._engine.max_jobs_per_acquisition for loop in loops} == {3}
    assert loops[0].waiting is not loops[1].waiting
