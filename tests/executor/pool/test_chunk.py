"""What a thread has taken at once can be taken back, each batch by one of the two."""

import sys
import threading
from types import SimpleNamespace

import pytest

from jobexec.executor.pool.chunk import Chunk
from jobexec.executor.pool.fair_queue import Kind
from tests.support.waiting import TIMEOUT


def batch(size=1):
    return [SimpleNamespace(share="default") for _ in range(size)]


def test_batches_are_begun_in_order_and_counted():
    first, second = batch(2), batch()
    chunk = Chunk([first, second])
    assert (chunk.share, chunk.jobs, chunk.waiting_jobs, chunk.begun) == ("default", 3, 3, 0)
    assert chunk.batches() == [first, second]
    assert chunk.next() is first
    assert chunk.runs(first[1])
    assert not chunk.runs(second[0])
    assert (chunk.jobs, chunk.waiting_jobs, chunk.waiting, chunk.begun) == (3, 1, True, 1)
    assert chunk.next() is second
    assert not chunk.waiting
    assert chunk.batches() == [second]
    assert chunk.next() is None
    assert (chunk.batches(), chunk.current, chunk.begun, chunk.jobs) == ([], None, 2, 3)
    assert not chunk.runs(second[0])


@pytest.mark.parametrize(("share", "count"), [(1.0, 5), (0.5, 3), (0.2, 1), (0.01, 1)])
def test_a_share_is_taken_back_from_the_end_and_in_order(share, count):
    batches = [batch(size) for size in (1, 1, 2, 1, 3, 1)]
    chunk = Chunk(batches)
    assert chunk.next() is batches[0]
    taken = chunk.take_back(share)
    assert taken == batches[6 - count :]
    assert chunk.jobs == 9 - sum(map(len, taken))
    assert chunk.batches() == batches[: 6 - count]


def test_of_nothing_nothing_is_taken_back():
    chunk = Chunk([batch()])
    chunk.next()
    assert chunk.take_back(0.5) == chunk.take_back() == []
    assert chunk.jobs == 1


def test_batches_that_fit_run_beside_the_first():
    batches = [batch() for _ in range(5)]
    chunk = Chunk(batches, kind=Kind.SHARED)
    chunk.next()
    assert chunk.more(lambda each: each is not batches[3]) == batches[1:3]
    assert (chunk.begun, chunk.waiting_jobs, chunk.batches()) == (3, 2, batches)
    assert chunk.leave() == batches[:3]
    assert chunk.leave() == []
    assert chunk.next() is batches[3]
    assert chunk.more(lambda each: False) == []
    assert chunk.leave() == [batches[3]]


def test_those_that_have_not_run_are_the_next():
    """Also if the first of them has not; the others have left."""
    batches = [batch() for _ in range(4)]
    chunk = Chunk(batches, kind=Kind.SHARED)
    chunk.next()
    chunk.more(lambda each: each is not batches[3])
    chunk.give_back([batches[0], batches[2]])
    assert chunk.leave() == [batches[1]]
    assert (chunk.begun, chunk.jobs) == (1, 4)
    assert [chunk.next() for _ in range(4)] == [batches[0], batches[2], batches[3], None]
    assert chunk.begun == 4


def test_a_thief_and_the_owner_never_get_the_same_batch_and_lose_none():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            batches = [batch(1 + number % 3) for number in range(60)]
            chunk, start = Chunk(batches), threading.Barrier(3)
            begun, taken = [], [[], []]

            def own(chunk=chunk, begun=begun, start=start):
                start.wait(TIMEOUT)
                while (each := chunk.next()) is not None:
                    begun.append(each)

            def steal(got, chunk=chunk, start=start):
                start.wait(TIMEOUT)
                while part := chunk.take_back(0.1):
                    got.extend(part)

            threads = [threading.Thread(target=own), *(threading.Thread(target=steal, args=(got,)) for got in taken)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(TIMEOUT)
            everything = [*begun, *taken[0], *taken[1]]
            assert sorted(map(id, everything)) == sorted(map(id, batches))
            assert begun == batches[: len(begun)]
            assert (chunk.begun, chunk.jobs) == (len(begun), sum(map(len, begun)))
    finally:
        sys.setswitchinterval(interval)
