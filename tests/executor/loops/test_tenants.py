"""TENANT_CONCURRENCY: never more of a tenant at once on a node, nobody held up by it, and all is done in the end."""

import random
import threading
from collections import Counter

import pytest

from jobexec.models import Job
from jobexec.operations import acquire_jobs
from jobexec.operations.acquire.cursor import AcquisitionCursor
from jobexec.operations.values.acquired_job import ServedJobs
from jobexec.operations.values.tenant_room import TenantRoom
from tests.support.executor import all_gone
from tests.support.factories import LOCK_TIME, make_job
from tests.support.waiting import TIMEOUT, until


class Ledger:
    """Who runs, by tenant; handlers wait until their tenant's gate opens."""

    def __init__(self):
        self._lock = threading.Lock()
        self.now, self.most, self.done = Counter(), Counter(), Counter()
        self.gates = {}

    def gate(self, tenant):
        with self._lock:
            return self.gates.setdefault(tenant, threading.Event())

    def enter(self, tenant):
        with self._lock:
            self.now[tenant] += 1
            self.most[tenant] = max(self.most[tenant], self.now[tenant])

    def leave(self, tenant):
        with self._lock:
            self.now[tenant] -= 1
            self.done[tenant] += 1

    def run(self, tenant):
        self.enter(tenant)
        try:
            assert self.gate(tenant).wait(TIMEOUT)
        finally:
            self.leave(tenant)

    def open(self, *tenants):
        for tenant in tenants:
            self.gate(tenant).set()


@pytest.fixture
def ledger(handle):
    ledger = Ledger()
    handle(ledger.run, name="tests.tenant")
    yield ledger
    ledger.open(*ledger.gates, "a", "b", "c", "")


def make(alias, tenant, count=1, handler="tests.tenant", **columns):
    for _ in range(count):
        arguments = {"args": [tenant], "kwargs": {}}
        make_job(alias, handler_type=handler, tenant_id=tenant, handler_configuration=arguments, **columns)


@pytest.mark.gate
@pytest.mark.transactional
def test_a_tenant_has_no_more_than_its_limit_and_holds_nobody_up(alias, make_executor, ledger):
    make(alias, "a", 12)
    make(alias, "b", 3)
    make(alias, "", 5)  # behind all of them
    ledger.open("b", "")
    executor = make_executor(TENANT_CONCURRENCY=2, THREADS=8)
    executor.start()
    until(lambda: ledger.done["b"] == 3 and ledger.done[""] == 5)
    until(lambda: ledger.now["a"] == 2)
    assert locked(alias, "a") <= 2, "what is too many is not locked: other nodes have it"
    ledger.open("a")
    until(lambda: ledger.done["a"] == 12 and all_gone(alias))
    assert ledger.most["a"] <= 2
    assert ledger.most["b"] <= 2


@pytest.mark.gate
@pytest.mark.transactional
def test_each_tenant_by_its_name_and_the_others_by_the_star(alias, make_executor, ledger):
    for tenant in ("a", "b", "c", ""):
        make(alias, tenant, 4)
    executor = make_executor(TENANT_CONCURRENCY={"a": 3, "*": 1}, THREADS=16)
    executor.start()
    until(lambda: dict(ledger.now) == {"a": 3, "b": 1, "c": 1, "": 4})
    ledger.open("a", "b", "c", "")
    until(lambda: all_gone(alias))
    assert dict(ledger.most) == {"a": 3, "b": 1, "c": 1, "": 4}


@pytest.mark.gate
@pytest.mark.transactional
def test_when_a_job_of_a_full_tenant_ends_the_next_one_does_not_wait_for_a_poll(alias, make_executor, ledger):
    make(alias, "a", 6)
    slow = dict.fromkeys(("WAIT_TIME", "MAX_WAIT", "MAX_WAIT_WHEN_LISTENING"), 2 * TIMEOUT)
    executor = make_executor(slow, TENANT_CONCURRENCY=1)
    executor.start()
    until(lambda: ledger.now["a"] == 1)
    ledger.open("a")
    until(lambda: all_gone(alias))
    assert ledger.most["a"] == 1


@pytest.mark.gate
@pytest.mark.transactional
def test_async_jobs_count_like_others(alias, make_executor, handle, ledger):
    import asyncio

    async def run_async(tenant):
        ledger.enter(tenant)
        try:
            while not ledger.gate(tenant).is_set():
                await asyncio.sleep(0.005)
        finally:
            ledger.leave(tenant)

    handle(run_async, name="tests.tenant_async")
    for _ in range(6):
        make(alias, "a", handler="tests.tenant_async")
        make(alias, "a")
    make(alias, "b", 3, handler="tests.tenant_async")
    ledger.open("b")
    executor = make_executor(TENANT_CONCURRENCY=3, THREADS=8)
    executor.start()
    until(lambda: ledger.now["a"] == 3 and ledger.done["b"] == 3)
    ledger.open("a")
    until(lambda: all_gone(alias))
    assert (ledger.most["a"], ledger.done["a"]) == (3, 12)


@pytest.mark.slow
@pytest.mark.transactional
@pytest.mark.parametrize("seed", range(2))
def test_random_jobs_of_random_tenants_all_end_and_none_is_too_many(alias, make_executor, handle, ledger, seed):
    chance = random.Random(seed)
    limits = {"a": 1, "b": 3, "*": 2}

    def run(tenant, nap, fails):
        ledger.enter(tenant)
        threading.Event().wait(nap)
        ledger.leave(tenant)
        if fails:
            raise ValueError("for a test")

    handle(run, name="tests.random", retries="R1/PT1S")
    handle(lambda tenant, nap, fails: run(tenant, nap, fails), name="tests.atomic", atomic=True)
    for _ in range(40):
        tenant = chance.choice("aaabcd")
        make_job(
            alias,
            handler_type=chance.choice(["tests.random", "tests.atomic"]),
            tenant_id=tenant,
            retries=1,
            process_instance_id=chance.choice(["", "", "one", "two"]),
            priority=chance.choice([0, 0, 5]),
            handler_configuration={"args": [tenant, chance.choice([0, 0, 0.01]), chance.random() < 0.1], "kwargs": {}},
        )
    executor = make_executor(TENANT_CONCURRENCY=limits, THREADS=6)
    executor.start()
    until(lambda: sum(ledger.done.values()) == 40 and executor.idle)
    assert {tenant: most for tenant, most in ledger.most.items() if most > limits.get(tenant, limits["*"])} == {}


def locked(alias, tenant):
    return Job.objects.using(alias).filter(tenant_id=tenant).exclude(lock_owner=None).count()


def acquire(alias, room, limit=10, strategy="auto", cursor=None):
    scope = ServedJobs(wide=True, tenants=room)
    return acquire_jobs(alias, "one", limit, scope, lock_time=LOCK_TIME, strategy=strategy, cursor=cursor)


@pytest.mark.parametrize("strategy", ["auto", "optimistic", "global_lock"])
def test_a_page_takes_what_there_is_room_for_and_leaves_the_rest_unlocked(alias, strategy):
    make(alias, "a", 5)
    make(alias, "b", 2)
    room = TenantRoom({"*": 2}, {"a": 1})
    jobs = acquire(alias, room, strategy=strategy).jobs
    assert [job.tenant_id for job in jobs] == ["a", "b", "b"]
    assert (locked(alias, "a"), locked(alias, "b")) == (1, 2)
    assert set(Job.objects.using(alias).filter(lock_owner=None).values_list("revision", flat=True)) == {1}


@pytest.mark.parametrize("strategy", ["auto", "optimistic"])
def test_full_tenants_do_not_stand_in_the_way(alias, strategy):
    make(alias, "a", 20)
    make(alias, "b", 1)
    jobs = acquire(alias, TenantRoom({"a": 1}, {"a": 1}), limit=3, strategy=strategy).jobs
    assert [job.tenant_id for job in jobs] == ["b"]


def test_after_a_page_that_had_too_many_the_next_reads_few(alias):
    make(alias, "a", 50)
    cursor = AcquisitionCursor()
    assert len(acquire(alias, TenantRoom({"*": 3}, {}), limit=40, cursor=cursor).jobs) == 3
    assert cursor.heads == 3
    assert acquire(alias, TenantRoom({"*": 3}, {"a": 2}), limit=40, cursor=cursor).found >= 6
    assert locked(alias, "a") == 4


def test_siblings_of_one_process_instance_are_taken_in_order_as_far_as_there_is_room(alias):
    make(alias, "a", 4, process_instance_id="order")
    first = list(Job.objects.using(alias).order_by("rank", "id").values_list("pk", flat=True))[:2]
    assert [job.id for job in acquire(alias, TenantRoom({"*": 2}, {})).jobs] == first


def test_jobs_of_no_tenant_have_no_limit():
    room = TenantRoom({"*": 1, "a": 5}, {"": 7, "b": 1, "a": 4})
    assert (room.limit(""), room.limit("a"), room.limit("b")) == (None, 5, 1)
    assert room.full() == ["b"]


def test_without_a_star_only_those_that_are_named_have_one():
    assert TenantRoom({"a": 1}, {"a": 3, "b": 99}).full() == ["a"]


@pytest.mark.parametrize("wide", [False, True])
def test_a_page_brings_the_tenant_and_a_wide_one_the_trace(alias, wide):
    make(alias, "a")
    make(alias, "b", process_instance_id="order")
    jobs = acquire_jobs(alias, "one", 9, ServedJobs(wide=wide), lock_time=LOCK_TIME).jobs
    assert [job.tenant_id for job in jobs] == ["a", "b"]
    assert [job.traceparent for job in jobs] == (["", ""] if wide else [None, None])
