"""Which jobs go to the async worker, and how many are worth acquiring for it: counted, without threads."""

from types import SimpleNamespace

import pytest

from jobexec.clock import FrozenClock
from jobexec.executor.pool.async_admission import AsyncAdmission

SYNC, ASYNC = "tests.sync", "tests.async"


def batch(handler_type=ASYNC, using="a", lost_runs=0, atomic=False):
    return [SimpleNamespace(share=using, handler_type=handler_type, lost_runs=lost_runs, atomic=atomic)]


class FakeRunner:
    def __init__(self):
        self.begun = []

    def begin(self, batches):
        self.begun.extend(batches)


@pytest.fixture
def boarding(handle):
    async def wait():
        """Never called."""

    handle(wait, name=ASYNC)
    return AsyncAdmission(FakeRunner(), size=3, threads=4)


def test_takes_what_it_can_run_and_leaves_the_rest_in_order(boarding):
    suspect, atomic, sync = batch(lost_runs=2), batch(atomic=True), batch(SYNC)
    siblings = [*batch(), *batch(lost_runs=2)]
    one, other = batch(), [*batch(), *batch(SYNC)]
    assert boarding.sort("a", [suspect, one, atomic, sync, siblings, other]) == [suspect, atomic, sync, siblings]
    boarding.go()
    assert boarding.async_worker.begun == [one, other]
    assert (boarding.busy, boarding.empty) == (2, False)
    boarding.leave([one, other])
    assert boarding.empty


def test_no_more_than_its_size_and_by_turns_of_the_engines(boarding):
    of_a, of_b = [batch() for _ in range(5)], [batch(using="b") for _ in range(2)]
    boarding.sort("a", of_a)
    boarding.sort("b", of_b)
    boarding.go()
    assert boarding.async_worker.begun == [of_a[0], of_b[0], of_a[1]]
    assert list(boarding.waiting()) == [of_b[1], *of_a[2:]]
    boarding.leave([of_b[0]])
    boarding.go()
    assert boarding.async_worker.begun[3:] == [of_b[1]]
    assert boarding.clear() == of_a[2:]
    assert len(boarding.within()) == 3


def test_what_is_withdrawn_is_not_run(boarding):
    of_a, of_b = [batch() for _ in range(5)], [batch(using="b") for _ in range(2)]
    boarding.sort("a", of_a)
    boarding.sort("b", of_b)
    boarding.go()
    unwanted = {id(each) for each in (of_a[0], of_a[3], of_b[1])}
    gone = boarding.withdraw(lambda each: id(each) in unwanted)
    assert [id(each) for each in gone] == [id(of_b[1]), id(of_a[3])]
    assert [id(each) for each in boarding.waiting()] == [id(of_a[2]), id(of_a[4])]


def test_siblings_that_go_on_come_first(boarding):
    boarding.sort("a", [batch() for _ in range(4)])
    boarding.go()
    siblings = batch()
    assert boarding.sort_sibling(siblings)
    assert next(boarding.waiting()) is siblings
    assert not boarding.sort_sibling(batch(SYNC))
    assert not boarding.sort_sibling(batch(lost_runs=2))


def test_without_async_jobs_it_says_nothing_about_pages(boarding):
    boarding.sort("a", [batch(SYNC) for _ in range(9)])
    assert boarding.limit("a") >= 1_000_000
    assert boarding.extra("a") == 0


def test_a_full_lane_lets_little_wait(boarding):
    boarding.sort("a", [batch() for _ in range(3)])
    boarding.go()
    assert 0 < boarding.limit("a") <= 20
    assert boarding.extra("a") == 0
    boarding.sort("a", [batch() for _ in range(20)])
    assert boarding.limit("a") == 0
    boarding.leave(boarding.within())
    boarding.clear()
    assert boarding.limit("a") > 0


def test_what_waits_counts_also_after_pages_without_async_jobs(boarding):
    boarding.sort("a", [batch() for _ in range(40)])
    boarding.go()
    for _ in range(20):
        boarding.sort("a", [batch(SYNC)])
    assert boarding.limit("a") == 0


def test_one_is_tried_now_and_then(boarding):
    with FrozenClock() as clock:
        assert boarding.may_try("a")
        boarding.tries("a", 0)
        assert not boarding.has_tried("a"), "there was no place"
        assert boarding.may_try("a")
        boarding.tries("a", 1)
        assert boarding.has_tried("a")
        assert not boarding.has_tried("a")
        assert not boarding.may_try("a")
        assert boarding.may_try("b")
        clock.tick(5)
        assert boarding.may_try("a")
        boarding.sort("a", [batch() for _ in range(3)])
        boarding.go()
        clock.tick(5)
        assert not boarding.may_try("a"), "the async worker is full"


def test_pages_grow_while_all_of_them_is_for_the_lane(handle):
    async def wait():
        """Never called."""

    handle(wait, name=ASYNC)
    boarding = AsyncAdmission(FakeRunner(), size=1000, threads=4)
    pages = []
    for _ in range(9):
        boarding.sort("a", [batch()])
        pages.append(boarding.extra("a"))
    assert pages == [8, 16, 32, 64, 128, 256, 512, 1000, 1000]
    boarding.sort("a", [batch(), batch(SYNC)])
    assert boarding.extra("a") == 4
