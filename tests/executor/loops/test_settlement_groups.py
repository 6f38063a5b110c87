"""Groups of outcomes: when one is written, what goes on after its commit, and that no job is ever in nobody's hands."""

import sys
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from jobexec.executor.loops import settlement as module
from jobexec.executor.loops.settlement import Settlement
from jobexec.executor.run.outcomes import Outcome
from tests.support.executor import stop_all
from tests.support.pool import Bench
from tests.support.waiting import TIMEOUT, passed, threads, until

SOON = TIMEOUT / 2


class Written(list):
    """The groups that were written. Whoever writes waits for ``go``; ``lost`` are the jobs that do not count."""

    def __init__(self):
        super().__init__()
        self.go = threading.Event()
        self.go.set()
        self.began = threading.Event()
        self.lost, self.errors = set(), []

    def write(self, using, group, *more):
        self.began.set()
        assert self.go.wait(TIMEOUT)
        if self.errors:
            raise self.errors.pop()
        for outcome in group:
            outcome.counted = outcome.work.id not in self.lost
        self.append(list(group))


@pytest.fixture
def written(monkeypatch):
    written = Written()
    monkeypatch.setattr(module, "write", written.write)
    monkeypatch.setattr(module, "refresh_connections", lambda: None)
    monkeypatch.setattr(module, "unreachable", lambda using, error: True)
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(module, "_log_uncounted", lambda outcome: None)
    return written


@pytest.fixture
def bench():
    benches = []

    def make(threads=2, queue_size=400):
        benches.append(Bench(threads, queue_size))
        benches[-1].pool.start()
        return benches[-1]

    yield make
    stop_all(benches)


@pytest.fixture
def make(written):
    """A function that makes a settlement that waits for ever for company, of a node that is well; not started."""
    made = []

    def make(pool=None, within=10 * TIMEOUT):
        settings = SimpleNamespace(settle_within=SimpleNamespace(total_seconds=lambda: within))
        node = SimpleNamespace(settings=settings, using="default", owner="one", good=True, writing=nullcontext())
        node.meters = SimpleNamespace(ended=lambda outcomes: None)
        made.append(Settlement(node, lambda: None, pool))
        return made[-1]

    yield make
    for each in made:
        assert each.stop(TIMEOUT)
    until(lambda: not threads("jobexec-settlement"))


def outcome(job):
    job.lock_owner, job.resource = "one", None
    return Outcome(job, run=SimpleNamespace())


def ended(b, count=1):
    return [outcome(batch[0]) for batch in b.quick(count)]


@pytest.fixture
def busy(bench):
    """A bench whose pool has a job that does not end, so that outcomes may come."""
    b = bench()
    b.submit(b.batch())
    until(lambda: b.began)
    return b


def sizes(written):
    return [len(group) for group in written]


def test_without_jobs_in_threads_nothing_waits_for_company(bench, make, written):
    b = bench()
    service = make(b.pool)
    service.start()
    for each in ended(b, 3):
        service.submit(each)
    until(lambda: sum(sizes(written)) == 3, SOON)


def test_while_jobs_run_outcomes_wait_for_company_until_all_threads_are_idle(busy, make, written):
    service = make(busy.pool)
    busy.pool.on_idle = service.flush
    service.start()
    for each in ended(busy, 3):
        service.submit(each)
    until(lambda: service._gathers)
    assert written == []
    busy.let_go(*busy.began)
    until(lambda: sizes(written) == [3], SOON)
    assert service.empty


def test_a_flush_is_good_for_one_group_only(busy, make, written):
    service = make(busy.pool)
    service.start()
    service.submit(ended(busy)[0])
    until(lambda: service._gathers)
    service.flush()
    until(lambda: sizes(written) == [1], SOON)
    service.submit(ended(busy)[0])
    until(lambda: service._gathers)
    assert sizes(written) == [1]
    service.flush()
    until(lambda: sizes(written) == [1, 1], SOON)


def test_a_group_that_is_large_enough_is_written(busy, make, written, monkeypatch):
    monkeypatch.setattr(module, "_GROUP", 7)
    service = make(busy.pool)
    service.start()
    for each in ended(busy, 14):
        service.submit(each)
    until(lambda: sum(sizes(written)) == 14, SOON)
    assert max(sizes(written)) <= 7
    service.submit(ended(busy)[0])
    until(lambda: service._gathers)
    assert sum(sizes(written)) == 14


def test_what_somebody_waits_for_takes_the_others_along_at_once(busy, make, written):
    service = make(busy.pool)
    service.start()
    for each in ended(busy, 4):
        service.submit(each)
    until(lambda: service._gathers)
    assert service.settle(ended(busy)[0]) is True
    assert sizes(written) == [5]


@pytest.mark.parametrize(("seconds", "many"), [(0.02, False), (0.00002, True)])
def test_what_somebody_waits_for_waits_only_for_many(busy, make, written, monkeypatch, seconds, many):
    monkeypatch.setattr(module, "_SOON", TIMEOUT)
    service = make(busy.pool)
    busy.pool._queue.throughput.seconds = seconds  # about 2 or 2,000,000 jobs end in that time
    monkeypatch.setattr(module, "_WORTH_IT", TIMEOUT / 0.001)
    waiter = threading.Thread(target=service.settle, args=[ended(busy)[0]])
    service.start()
    waiter.start()
    until(lambda: written or service._hurries, SOON)
    until(lambda: bool(written) is not many, SOON)
    service.flush()
    waiter.join(TIMEOUT)
    assert sizes(written) == [1]


# Siblings.


def with_siblings(b, service, count=2):
    """An outcome whose siblings are parked, submitted as the executor does it."""
    first, siblings = b.quick(1)[0][0], b.batch(*[0] * count)
    for job in siblings:
        job.lock_owner, job.resource = "one", None
    last = outcome(first)
    last.siblings = siblings
    b.pool.park(siblings)
    service.submit(last)
    return last, siblings


def test_siblings_go_on_when_the_outcome_before_them_is_committed_and_not_before(busy, make, written):
    service = make(busy.pool)
    written.go.clear()
    service.start()
    _, siblings = with_siblings(busy, service)
    passed(written.began)
    assert busy.pool.load()["queued_jobs"] == 2
    assert siblings not in busy.began
    written.go.set()
    until(lambda: siblings in busy.began, SOON)


def test_siblings_of_a_job_whose_lock_was_lost_do_not_run_and_are_given_back(busy, make, written):
    service = make(busy.pool)
    with_lost, siblings = with_siblings(busy, service)
    written.lost.add(with_lost.work.id)
    service.start()
    until(lambda: len(written) == 1 and not service.empty)
    service.flush()
    until(lambda: service.empty, SOON)
    given_back = [each.work for group in written for each in group if each.run is None]
    assert given_back == siblings
    assert siblings not in busy.began
    until(lambda: busy.pool.load()["queued_jobs"] == 0)


def test_siblings_wait_while_the_database_is_away(busy, make, written):
    service = make(busy.pool)
    written.errors = [ConnectionError("away") for _ in range(3)]
    _, siblings = with_siblings(busy, service)
    service.start()
    until(lambda: siblings in busy.began, SOON)
    assert (written.errors, sizes(written)) == ([], [1])


def test_an_error_after_the_commit_lets_siblings_go_on_once(busy, make, written):
    service, errors = make(busy.pool), [ValueError("a receiver"), ValueError("again")]
    resume = busy.pool.resume

    def resumed(*args, **keys):
        resume(*args, **keys)
        if errors:
            raise errors.pop()

    busy.pool.resume = resumed
    _, siblings = with_siblings(busy, service)
    service.start()
    until(lambda: service.empty, SOON)
    until(lambda: siblings in busy.began, SOON)
    assert errors == []
    assert busy.began.count(siblings) == 1


def test_siblings_of_a_pool_that_was_stopped_are_given_back(bench, make, written):
    b = bench()
    service = make(b.pool)
    _, siblings = with_siblings(b, service)
    assert b.pool.stop(TIMEOUT)
    service.start()
    until(lambda: b.given_back == [siblings], SOON)
    assert b.pool.empty


# Hands.


def test_no_job_is_ever_in_nobodys_hands(bench, make, written, monkeypatch):
    b = bench(threads=4)
    service = make(b.pool, within=0.001)
    b.pool._queue.throughput.seconds = 0.00001
    b.pool.on_idle = service.flush
    acquired, settled, missing, stop = set(), set(), [], threading.Event()
    write = written.write

    def run(batch):
        last = outcome(batch[0])
        if batch[1:]:
            last.siblings = batch[1:]
            b.pool.park(last.siblings)
        service.submit(last)

    def settle(using, group, *more):
        settled.update(id(each.work) for each in group)
        write(using, group)

    def look():
        while not stop.is_set():
            before = set(acquired.copy())
            hand = {id(job) for job in b.pool.jobs_in_hand() + service.jobs_in_hand()}
            missing.extend(before - settled.copy() - hand)

    monkeypatch.setattr(module, "write", settle)
    b.pool._run = run
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    looking, kept = threading.Thread(target=look), []
    service.start()
    looking.start()
    try:
        for _ in range(30):
            batches = [b.batch(*[0] * (1 + number % 4)) for number in range(20)]
            kept.append(batches)
            count = sum(map(len, batches))
            until(lambda: reserved(b.pool, count), SOON)  # noqa: B023
            b.pool.submit(batches, count)
            acquired.update(id(job) for batch in batches for job in batch)
        until(lambda: sum(sizes(written)) == 30 * 50, SOON)
    finally:
        stop.set()
        looking.join(TIMEOUT)
        sys.setswitchinterval(interval)
    assert missing == []
    until(lambda: b.pool.empty and service.empty)
    assert len(settled) == 30 * 50


def reserved(pool, count):
    granted = pool.reserve(count, lambda: None)
    if granted < count:
        pool.submit([], granted)
    return granted == count
