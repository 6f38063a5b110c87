"""How long to wait after a round of acquisition: pure."""

import pytest

from jobexec.executor.strategy import Waiting


def waiting(**values):
    values = {"wait_time": 0.1, "factor": 2.0, "max_wait": 5.0, "backoff_time": 0.03, "max_backoff": 0.5} | values
    return Waiting(**values, jitter=lambda: 0.0)


def test_an_idle_ladder_grows_to_its_top():
    ladder = waiting()
    waits = [ladder.after(found=0, requested=10) for _ in range(9)]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_it_never_overflows():
    ladder = waiting(factor=10.0)
    assert [ladder.after(found=0, requested=10) for _ in range(2000)][-1] == 5.0


def test_a_full_page_waits_for_nothing_and_a_part_of_one_for_the_shortest_time():
    ladder = waiting()
    for _ in range(5):
        ladder.after(found=0, requested=10)
    assert ladder.after(found=10, requested=10) == 0.0
    assert ladder.after(found=3, requested=10) == 0.1
    assert ladder.after(found=0, requested=10) == 0.1


def test_a_wake_up_starts_the_ladder_anew():
    ladder = waiting()
    for _ in range(5):
        ladder.after(found=0, requested=10)
    ladder.reset()
    assert ladder.after(found=0, requested=10) == 0.1


def test_while_listening_the_top_is_higher():
    ladder = waiting()
    for _ in range(20):
        last = ladder.after(found=0, requested=10, max_wait=30.0)
    assert last == 30.0
    assert ladder.after(found=0, requested=10) == 5.0


def test_lock_failures_back_off_and_one_clean_round_ends_it():
    ladder = waiting()
    waits = [ladder.after(found=10, requested=10, lock_failures=1) for _ in range(7)]
    assert waits == [0.03, 0.06, 0.12, 0.24, 0.48, 0.5, 0.5]
    assert ladder.after(found=10, requested=10) == 0.0
    assert ladder.after(found=10, requested=10, lock_failures=1) == 0.03


@pytest.mark.parametrize("random", [0.0, 0.5, 1.0])
def test_nodes_that_collided_wait_differently_long(random):
    ladder = waiting()
    ladder.jitter = lambda: random
    assert ladder.after(found=0, requested=10, lock_failures=3) == pytest.approx(0.03 * (1 + random / 2))


def test_without_a_back_off_lock_failures_are_like_nothing_found():
    ladder = waiting(backoff_time=0.0)
    assert ladder.after(found=0, requested=10, lock_failures=1) == 0.1
