"""How engines share the pool: counted, without threads."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobexec.executor.pool.fair_queue import FairQueue, Kind, runs_alone
from jobexec.executor.pool.throughput import Throughput


def batch(using, size=1, lost_runs=0, followers=None):
    return [SimpleNamespace(using=using, share=using, lost_runs=lost_runs, followers=None) for _ in range(size)]


def fill(shares, using, count):
    """Queue as many single jobs of the engine as it is granted, at most `count`; how many."""
    granted = shares.reserve(using, count)
    shares.submit(using, [batch(using) for _ in range(granted)], granted)
    return granted


def take(shares):
    """The next batch, as the chunk of a thread."""
    taken = shares.next()
    return taken[0] if taken else None


def done(shares, batch):
    shares.done(batch[0].using, len(batch))


def run(shares, count):
    """The engines of the next batches."""
    return [taken[0].using if (taken := take(shares)) else None for _ in range(count)]


def test_one_engine_has_everything():
    shares = FairQueue(4, 20, ["a"])
    assert fill(shares, "a", 100) == 20
    assert run(shares, 4) == ["a"] * 4


def test_batches_that_fit_together_come_together():
    """As far as they follow each other. They, and what comes after them, may have to wait."""
    shares = FairQueue(4, 20, ["a", "b"])
    one, two, three, other = (batch("a") for _ in range(4))
    shares.kind_of = lambda each: Kind.SHARED if any(each is shared for shared in (one, two, three)) else Kind.PLAIN
    assert shares.reserve("a", 4) == 4
    shares.submit("a", [one, two, three, other], 4)
    elsewhere = batch("b")
    shares.reserve("b", 1)
    shares.submit("b", [elsewhere], 1)
    assert shares.next(1, lambda kind: None) == [elsewhere]
    assert shares.next(1, lambda kind: 2) == [one, two]
    assert shares.next(1, lambda kind: 5) == [three]
    assert shares.next(1, lambda kind: None) == [other]
    assert shares.queued == 0


def test_an_engine_that_asks_first_leaves_a_part_to_the_other():
    shares = FairQueue(4, 20, ["a", "b"])
    assert fill(shares, "a", 100) == 15
    assert fill(shares, "b", 100) == 5
    assert fill(shares, "a", 1) == fill(shares, "b", 1) == 0


def test_what_is_withdrawn_leaves_its_places():
    shares = FairQueue(4, 20, ["a", "b"])
    fill(shares, "a", 100), fill(shares, "b", 100)
    take(shares)
    waiting = shares.waiting()
    unwanted = set(map(id, waiting[::2]))
    found = shares.withdraw(lambda each: id(each) in unwanted)
    assert list(map(id, found)) == list(map(id, waiting[::2]))
    assert list(map(id, shares.waiting())) == list(map(id, waiting[1::2]))
    assert shares.queued == len(waiting[1::2])
    assert fill(shares, "a", 100) + fill(shares, "b", 100) == len(found)


def test_places_that_are_only_reserved_count_too():
    """An engine whose database hangs keeps what it has reserved, and the other goes on with its own part."""
    shares = FairQueue(4, 20, ["a", "b"])
    assert shares.reserve("a", 100) == 15
    for _ in range(50):
        assert fill(shares, "b", 5) == 5
        assert shares.has_room("b") is False
        taken = [take(shares) for _ in range(4)]
        for each in taken:
            done(shares, each) if each else None
        assert [done(shares, each) or each for each in [take(shares) for _ in range(5)] if each]
        assert shares.has_room("b")


def test_threads_take_turns_between_engines():
    shares = FairQueue(4, 40, ["a", "b", "c"])
    for using, count in (("a", 9), ("b", 2), ("c", 1)):
        assert fill(shares, using, count) == count
    seen = []
    for _ in range(12):
        taken = take(shares)
        seen.append(taken[0].using)
        done(shares, taken)
    assert seen == ["a", "b", "c", "a", "b", "a", "a", "a", "a", "a", "a", "a"]


def test_with_threads_enough_each_engine_leaves_one_to_every_other():
    shares = FairQueue(6, 60, ["a", "b", "c"])
    fill(shares, "a", 20)
    assert run(shares, 6) == ["a"] * 4 + [None] * 2
    fill(shares, "b", 1)
    fill(shares, "c", 1)
    assert run(shares, 3) == ["b", "c", None]


def test_with_few_threads_none_is_kept_idle():
    shares = FairQueue(3, 30, ["a", "b"])
    fill(shares, "a", 10)
    assert run(shares, 4) == ["a"] * 3 + [None]


def test_room_is_worth_telling_when_half_of_the_queue_is_free():
    shares = FairQueue(2, 12, ["a"])
    fill(shares, "a", 12)
    first = [take(shares) for _ in range(2)]
    rooms = []
    for _ in range(10):
        done(shares, first.pop())
        first.append(take(shares))
        rooms.append(shares.has_room("a"))
    assert rooms == [False] * 4 + [True] * 6


@pytest.mark.gate
@given(st.data(), st.integers(1, 3), st.integers(1, 8), st.integers(0, 30))
def test_nothing_is_counted_twice_or_lost(data, engines, threads, queue_size):
    names = ["a", "b", "c"][:engines]
    shares = FairQueue(threads, threads + queue_size, names)
    reserved, waiting, running = dict.fromkeys(names, 0), dict.fromkeys(names, 0), []
    for _ in range(data.draw(st.integers(0, 60))):
        action = data.draw(st.sampled_from(["reserve", "submit", "next", "done"]))
        using = data.draw(st.sampled_from(names))
        if action == "reserve":
            reserved[using] += shares.reserve(using, data.draw(st.integers(1, 50)))
        elif action == "submit" and reserved[using]:
            used = data.draw(st.integers(0, reserved[using]))
            shares.submit(using, [batch(using, 1) for _ in range(used)], reserved[using])
            reserved[using], waiting[using] = 0, waiting[using] + used
        elif action == "next" and len(running) < threads:
            if (taken := take(shares)) is not None:
                waiting[taken[0].using] -= 1
                running.append(taken)
            else:
                limited = engines > 1 and threads >= 2 * engines
                assert limited or not sum(waiting.values())
        elif action == "done" and running:
            done(shares, running.pop())
        held = sum(reserved.values()) + sum(waiting.values()) + len(running)
        assert held <= threads + queue_size
        assert shares.queued == sum(waiting.values()) == len(shares.waiting())
        assert shares.empty == (held == 0)
    assert sum(map(len, shares.clear())) == sum(waiting.values())


# With a measured pace.


def paced(seconds, threads=4, queue_size=1000, engines=("a",)):
    pace = Throughput(threads)
    pace.seconds = seconds
    return FairQueue(threads, threads + queue_size, engines, pace)


def test_no_more_is_kept_than_a_seconds_work_whatever_room_there_is():
    assert fill(paced(None), "a", 5000) == Throughput(4).most() == 4 + 20
    assert fill(paced(None, threads=50), "a", 5000) == Throughput(50).most() == 50 + 100
    assert fill(paced(0.00001), "a", 5000) == 1004
    assert fill(paced(0.02), "a", 5000) == 200
    assert fill(paced(0.5), "a", 5000) == 8
    assert fill(paced(60), "a", 5000) == 0


def test_an_idle_thread_gets_a_job_however_long_they_take():
    shares = paced(60)
    assert shares.reserve("a", 9, idle=3) == 3
    assert shares.reserve("a", 9, idle=3) == 0, "they are on their way"
    shares.submit("a", [batch("a"), batch("a")], 3)
    assert shares.reserve("a", 9, idle=3) == 1
    shares.submit("a", [], 1)
    take(shares), take(shares)
    assert shares.reserve("a", 9, idle=1) == 1
    assert shares.reserve("a", 9, idle=0) == 0


def test_idle_threads_are_no_reason_to_take_more_than_there_are_places():
    shares = paced(60, threads=2, queue_size=1)
    assert shares.reserve("a", 9, idle=9) == 3
    assert shares.reserve("a", 9, idle=9) == 0


def test_parked_siblings_count_until_they_go_on_or_are_given_up():
    shares = paced(None, queue_size=6)
    siblings, others = batch("a", 2), batch("a", 3)
    for each in (siblings, others):
        shares.park("a", len(each))
    assert not shares.empty
    assert shares.reserve("a", 99) == 10 - 5
    shares.submit("a", [batch("a")], 5)
    shares.resume(siblings, queue=True)
    shares.resume(others, queue=False)
    assert shares.queued == 3
    assert take(shares) is siblings
    assert shares.reserve("a", 99) == 10 - 3


def test_what_a_thread_has_not_begun_goes_to_the_front_again():
    shares = paced(0.00001)
    first, second, third = batch("a"), batch("a", 2), batch("a")
    shares.reserve("a", 4)
    shares.submit("a", [first, second, third], 4)
    assert shares.next(most=2) == [first, second]
    shares.put_back("a", [second])
    assert (shares.queued, shares.waiting()) == (3, [second, third])
    shares.done("a", 1)
    assert shares.next(most=9) == [second, third]
    shares.done("a", 3)
    assert shares.empty


def test_a_thread_that_takes_over_counts_as_one_of_the_engines_threads():
    shares = paced(0.00001, threads=4, engines=("a", "b"))
    shares.reserve("a", 6)
    shares.submit("a", [batch("a") for _ in range(6)], 6)
    assert len(shares.next(most=6)) == 6
    assert [shares.take_over("a") for _ in range(3)] == [True, True, False]
    shares.done("a", 1)
    assert shares.take_over("a") is True
    assert shares.next() == []


@given(st.lists(st.integers(0, 3), max_size=20), st.integers(1, 6))
def test_what_runs_alone_never_shares_a_chunk(lost_runs, most):
    shares = paced(0.00001, threads=100)
    batches = [batch("a", lost_runs=count) for count in lost_runs]
    shares.reserve("a", len(batches))
    shares.submit("a", batches, len(batches))
    taken = []
    while chunk := shares.next(most):
        assert len(chunk) <= most
        assert len(chunk) == 1 or not any(map(runs_alone, chunk))
        taken += chunk
    assert taken == batches and not shares.waiting()
