"""Tiny jobs travel in chunks, and nobody waits behind a job that turns out to take long."""

import itertools
import sys
import threading

import pytest

from jobexec import clock
from jobexec.executor.pool import pool as module
from jobexec.executor.pool import work_queue
from jobexec.executor.pool.chunk import Chunk
from jobexec.executor.pool.fair_queue import Kind
from tests.support.executor import stop_all
from tests.support.pool import Bench
from tests.support.waiting import TIMEOUT, passed, threads, until

SOON = TIMEOUT / 2


@pytest.fixture
def bench(monkeypatch):
    """A function that starts a pool that takes its jobs to be tiny; whoever waits without a reason waits too long."""
    monkeypatch.setattr(module, "_IDLE_SECONDS", 2 * TIMEOUT)
    benches = []

    def make(threads=1, queue_size=100, engines=(), seconds=0.00001):
        benches.append(Bench(threads, queue_size, engines))
        benches[-1].pool._queue.throughput.seconds = seconds
        benches[-1].pool.start()
        return benches[-1]

    yield make
    stop_all(benches)
    assert all(each.pool.empty for each in benches)
    assert not threads()


def in_hand(b):
    return sorted(map(id, b.pool.jobs_in_hand()))


def reserved(pool, count):
    """Whether that many places could be reserved; less are given up again."""
    granted = pool.reserve(count, lambda: None)
    if granted < count:
        pool.submit([], granted)
    return granted == count


def jobs_of(*batches):
    return sorted(id(job) for batch in batches for job in batch)


def test_a_thread_takes_half_of_what_waits(bench):
    b = bench(threads=1)
    long, rest = b.batch(), b.quick(9)
    b.submit(long, *rest)
    until(lambda: b.began)
    (chunk,) = b.pool._queue.active
    assert chunk.batches() == [long, *rest[:4]]
    assert b.pool.load() == {"busy_threads": 1, "stuck_threads": 0, "queued_jobs": 9}
    assert in_hand(b) == jobs_of(long, *rest)
    b.let_go(long)
    until(lambda: b.pool.empty)
    assert b.ended == [long, *rest]
    assert b.pool.done == 10


def test_what_is_withdrawn_leaves_also_the_chunk_of_a_thread(bench):
    b = bench(threads=1)
    long, rest = b.batch(), b.quick(9)
    b.submit(long, *rest)
    until(lambda: b.began)
    unwanted = {id(job) for batch in (long, *rest[2:7]) for job in batch}
    assert b.pool.withdraw(lambda job: id(job) in unwanted) == rest[2:7]
    assert in_hand(b) == jobs_of(long, *rest[:2], *rest[7:])
    assert reserved(b.pool, 96)
    b.pool.submit([], 96)
    b.let_go(long)
    until(lambda: b.pool.empty)
    assert b.ended == [long, *rest[:2], *rest[7:]]


def test_jobs_that_are_not_tiny_go_one_by_one(bench):
    b = bench(threads=1, seconds=0.02)
    long, rest = b.batch(), b.quick(9)
    b.submit(long, *rest)
    until(lambda: b.began)
    (chunk,) = b.pool._queue.active
    assert chunk.batches() == [long]


class OneIsEnough:
    """The interpreter is busy with one thread."""

    most = 1

    def note(self, jobs, cpu, now):
        pass


def test_no_more_threads_are_busy_than_the_interpreter_bears(bench, monkeypatch):
    b = bench(threads=4, seconds=0.02)
    b.pool._queue.contention = OneIsEnough()
    monkeypatch.setattr(work_queue, "STALL", 2 * TIMEOUT)
    batches = [b.batch() for _ in range(4)]
    b.submit(*batches)
    for number, batch in enumerate(batches, 1):
        until(lambda: len(b.began) >= number and len(b.pool._changed._waiters) == 3, SOON)  # noqa: B023
        assert b.began == batches[:number]
        b.pool._queue.throughput.seconds = 0.02  # what has ended is not tiny
        b.let_go(batch)
    until(lambda: b.pool.empty)


@pytest.mark.parametrize("enough", [False, True], ids=["all threads", "one is enough"])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_job_that_takes_long_holds_nobody_up_as_long_as_a_thread_is_idle(bench, count, enough):
    b = bench(threads=count)
    if enough:
        b.pool._queue.contention = OneIsEnough()
    long = [b.batch() for _ in range(count - 1)]
    rest = b.quick(30)
    # Each long one stands before others, so that each of the threads that took over has one of them in its way again.
    b.submit(*itertools.chain.from_iterable(zip(long, *[iter(rest[: 2 * len(long)])] * 2, strict=True)))
    b.submit(*rest[2 * len(long) :])
    until(lambda: len(b.ended) == len(rest), SOON)
    assert sorted(map(id, b.ended)) == sorted(map(id, rest))
    assert in_hand(b) == jobs_of(*long)


def test_what_is_held_up_comes_before_what_has_waited_less(bench):
    b = bench(threads=2)
    until(lambda: len(b.pool._changed._waiters) == 2)
    long, rest = b.batch(), b.quick(39)
    b.submit(long, *rest)
    until(lambda: len(b.ended) == len(rest), SOON)
    taken = rest[:19]  # what the first thread took behind the long one
    assert max(b.ended.index(batch) for batch in taken) < b.ended.index(rest[-1])


def test_what_is_held_up_takes_no_thread_that_is_kept_for_another_engine(bench):
    b = bench(threads=4, engines=["default", "other"])
    long = [b.batch() for _ in range(8)]
    b.submit(*long)
    until(lambda: len(b.began) == 3, SOON)
    begun = clock.monotonic()
    until(lambda: clock.monotonic() - begun > 2 * work_queue.STALL)
    with b.pool._changed:
        assert b.pool._queue._take_over() is None
    others = b.quick(20, using="other")
    b.submit(*others)
    until(lambda: len(b.ended) == 20, SOON)
    assert len(b.began) == 23


def test_a_stuck_thread_gives_back_the_rest_of_its_chunk(bench):
    b = bench(threads=1)
    stuck, rest = b.batch(), b.quick(9)
    b.submit(stuck, *rest)
    until(lambda: b.began)
    assert b.pool._queue.active[0].waiting_jobs == 4
    assert b.pool.give_up(stuck[0], 1) == 1
    until(lambda: len(b.ended) == 9, SOON)
    assert b.ended == rest
    assert in_hand(b) == jobs_of(stuck)
    assert b.pool.empty
    b.let_go(stuck)
    until(lambda: b.pool.load()["stuck_threads"] == 0)
    assert b.pool.done == 10


def test_nobody_is_given_up_for_a_job_that_has_not_begun(bench):
    b = bench(threads=1)
    long, waiting = b.batch(), b.quick(3)
    b.submit(long, *waiting)
    until(lambda: b.began)
    assert b.pool.give_up(waiting[0][0], 1) == 0
    assert b.pool.load()["busy_threads"] == 1


def test_stopping_gives_back_what_a_thread_has_taken_and_not_begun(bench):
    b = bench(threads=1)
    long, rest = b.batch(), b.quick(9)
    b.submit(long, *rest)
    until(lambda: b.began)
    assert b.pool.stop(0) is False
    assert b.given_back == rest
    assert in_hand(b) == jobs_of(long)
    b.let_go(long)
    assert b.pool.stop(TIMEOUT)
    assert b.ended == [long]
    assert b.pool.empty


@pytest.mark.parametrize("lost_runs", [0, 1, 2])
def test_stopping_before_a_thread_begins_what_it_has_taken_counts_it_once(bench, monkeypatch, lost_runs):
    taken, go = threading.Event(), threading.Event()

    class Slow(Chunk):
        def next(self):
            taken.set()
            assert go.wait(TIMEOUT)
            return super().next()

    monkeypatch.setattr(work_queue, "Chunk", Slow)
    b = bench(threads=1)
    batch = b.batch(lost_runs)
    b.submit(batch)
    passed(taken)
    assert in_hand(b) == jobs_of(batch)
    assert b.pool.stop(0) is False
    assert b.given_back == [batch]
    go.set()
    assert b.pool.stop(TIMEOUT)
    assert b.began == []
    share = b.pool._queue.fair_queue._of("default")
    assert (share.held, share.busy) == (0, 0)
    monkeypatch.undo()
    b.pool.start()
    again = b.batch(lost_runs)
    b.let_go(again)
    b.submit(again)
    until(lambda: b.ended == [again])


def test_what_runs_alone_shares_a_chunk_with_nobody(bench, monkeypatch):
    made = []

    class Seen(Chunk):
        def __init__(self, batches, lone=False, **options):
            made.append((lone, list(batches)))
            super().__init__(batches, lone, **options)

    monkeypatch.setattr(work_queue, "Chunk", Seen)
    b = bench(threads=2)
    batches = [b.batch(number % 3) for number in range(60)]
    b.let_go(*batches)
    b.submit(*batches)
    until(lambda: len(b.ended) == 60, SOON)
    alone = [chunk for lone, chunk in made if lone]
    assert len(alone) == 20 and all(len(chunk) == 1 for chunk in alone)
    assert not any(job.lost_runs > 1 for lone, chunk in made for batch in chunk for job in batch if not lone)


# Batches that fit together.


def test_two_threads_at_a_time_have_several_that_fit_together(bench, monkeypatch):
    """A third one takes some only if one of the two is held up."""
    monkeypatch.setattr(work_queue, "_LONG", 2 * TIMEOUT)
    b, ran = bench(threads=4, seconds=0.01), []

    def run(batch, chunk):
        beside = chunk.more(lambda each: True)
        ran.append([batch, *beside])
        b.run(batch)
        b.ended += beside

    b.pool.distinguish(lambda batch: Kind.SHARED, run, lambda batches: None)
    batches = [b.batch() for _ in range(20)]
    b.submit(*batches)
    until(lambda: len(ran) == 2)
    assert [len(each) for each in ran] == [10, 5]
    assert b.pool.load() == {"busy_threads": 2, "stuck_threads": 0, "queued_jobs": 5}
    monkeypatch.setattr(work_queue, "_LONG", 0.0)
    until(lambda: len(b.began) > 2, SOON)
    b.let_go(*batches)
    until(lambda: len(b.ended) == 20, SOON)
    assert sorted(map(id, b.ended)) == sorted(map(id, batches))


def test_who_has_left_is_told_with_those_beside(bench):
    b, left = bench(threads=1), []
    b.pool.on_left = left.extend

    def run(batch, chunk):
        chunk.give_back(chunk.more(lambda each: True)[1:])

    b.pool.distinguish(lambda batch: Kind.SHARED, run, lambda batches: None)
    batches = b.quick(8)
    b.submit(*batches)
    until(lambda: len(left) == 8, SOON)
    assert sorted(map(id, left)) == sorted(map(id, batches))


# Siblings that wait for a commit.


def parked(b):
    """A job that has left its thread, and the siblings for whom its outcome is not committed yet."""
    first, siblings = b.quick(1)[0], b.batch(0, 0)
    b.pool._run = lambda batch: (b.pool.park(siblings), b.ended.append(batch))
    b.submit(first)
    until(lambda: b.ended == [first])
    until(lambda: not b.pool._queue.active)
    b.pool._run = b.run
    return siblings


def test_parked_siblings_keep_their_places_and_no_thread(bench):
    b = bench(threads=1, queue_size=4)
    siblings = parked(b)
    assert b.pool.load() == {"busy_threads": 0, "stuck_threads": 0, "queued_jobs": 2}
    assert in_hand(b) == jobs_of(siblings)
    assert not b.pool.empty
    assert b.pool.reserve(9, lambda: None) == 3
    b.pool.submit([], 3)
    waiting = b.quick(1)[0]
    with b.pool._changed:  # the thread cannot take one before both are there
        b.submit(waiting)
        b.pool.resume([siblings])
    until(lambda: b.began == [siblings])
    b.let_go(siblings)
    until(lambda: b.pool.empty)
    assert b.began == [siblings, waiting]
    assert b.pool.done == 1 - 2 + 2 + 1


def test_siblings_that_are_given_up_are_forgotten(bench):
    b = bench(threads=1)
    siblings = parked(b)
    b.pool.resume([siblings], go_on=False)
    assert b.pool.empty
    assert in_hand(b) == []
    assert b.given_back == []


def test_a_pool_that_was_closed_meanwhile_gives_siblings_back(bench):
    b = bench(threads=1)
    siblings = parked(b)
    assert b.pool.stop(TIMEOUT)
    assert in_hand(b) == jobs_of(siblings)
    b.pool.resume([siblings])
    assert b.given_back == [siblings]
    assert b.pool.empty


def test_siblings_go_on_once_however_often_they_are_called(bench):
    b = bench(threads=1)
    siblings = parked(b)
    b.let_go(siblings)
    for _ in range(2):
        b.pool.resume([siblings])
    until(lambda: b.ended[1:] == [siblings])
    assert b.pool.stop(TIMEOUT)
    assert b.began == [siblings]
    b.pool.resume([siblings])
    assert b.given_back == []


def test_who_collects_outcomes_is_told_when_the_last_job_has_left(bench):
    b = bench(threads=2)
    told, first, last = [], b.batch(), b.batch()
    b.pool.on_idle = lambda: told.append(len(b.ended))
    b.submit(first, last)
    until(lambda: len(b.began) == 2)
    b.let_go(first)
    until(lambda: b.pool.load()["busy_threads"] == 1)
    assert told == []
    b.let_go(last)
    until(lambda: told)
    assert told == [2]


@pytest.mark.parametrize("seconds", [0.000001, 0.0005, 0.05])
def test_all_that_has_not_ended_is_in_hand_at_every_moment(bench, seconds):
    b = bench(threads=4, queue_size=400, seconds=seconds)
    submitted, finished, missing = set(), set(), []
    stop = threading.Event()

    def run(batch):
        finished.update(map(id, batch))

    def look():
        while not stop.is_set():
            before = set(submitted.copy())
            hand = {id(job) for job in b.pool.jobs_in_hand()}
            missing.extend(before - finished.copy() - hand)

    def granted(count):
        if b.pool._queue.throughput.seconds > 0.001:  # a thread waited for its turn, and what it ran was taken for long
            b.pool._queue.throughput.seconds = seconds
        return reserved(b.pool, count)

    b.pool._run = run
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    looking = threading.Thread(target=look)
    looking.start()
    kept = []
    try:
        for _ in range(40):
            batches = [b.batch(*[0] * (1 + number % 3)) for number in range(20)]
            kept.append(batches)
            count = sum(map(len, batches))
            until(lambda: granted(count), SOON)  # noqa: B023
            b.pool.submit(batches, count)
            submitted.update(id(job) for batch in batches for job in batch)
        until(lambda: len(finished) == len(submitted), SOON)
    finally:
        stop.set()
        looking.join(TIMEOUT)
        sys.setswitchinterval(interval)
    assert missing == []
