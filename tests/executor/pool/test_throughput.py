"""How long jobs take is measured, and decides how many a node keeps, a thread takes and how many threads are of use."""

import pytest

from jobexec.executor.pool.throughput import Throughput


def paced(seconds, threads=10, jobs=1000):
    pace = Throughput(threads)
    pace.note(jobs, seconds * jobs)
    return pace


def test_as_long_as_nothing_is_known_all_threads_work_and_some_jobs_wait():
    pace = Throughput(4)
    pace.note(0, 3.0)  # a thread that has begun nothing tells nothing
    assert pace.seconds is None
    assert pace.most() == 4 + 20
    assert pace.chunk() == 1
    assert pace.threads_for(1) == pace.threads_for(1000) == 4
    assert pace.within(60) == 0


@pytest.mark.parametrize(
    ("seconds", "most", "chunk", "threads_for_ten"),
    [
        (0.0, 10_000_000, 25_000, 1),  # a clock too coarse to see a job
        (0.00001, 1_000_000, 250, 1),
        (0.001, 10_000, 2, 5),
        (0.02, 500, 1, 10),
        (1.0, 10, 1, 10),
        (60.0, 0, 1, 10),
    ],
)
def test_tiny_jobs_travel_in_hundreds_and_slow_ones_are_not_hoarded(seconds, most, chunk, threads_for_ten):
    pace = paced(seconds)
    assert pace.most() == pytest.approx(most, abs=1)
    assert pace.chunk() == pytest.approx(chunk, abs=1)
    assert pace.threads_for(10) == threads_for_ten
    assert pace.threads_for(0) == 1
    assert pace.within(0.0025) == pytest.approx(pace.chunk() if seconds <= 0.0025 else 0, abs=1)


def test_a_slow_outlier_is_forgotten_in_less_than_a_tenth_of_a_second_of_tiny_jobs():
    pace = paced(0.00001)
    pace.note(1, 30.0)
    assert pace.chunk() == 1
    spent = 0.0
    while pace.chunk() < 100:
        jobs = pace.chunk()
        pace.note(jobs, jobs * 0.00001)
        spent += jobs * 0.00001
        assert spent < 0.1
    assert pace.most() > 100_000


def test_that_jobs_have_become_slow_is_noticed_at_the_first():
    pace = paced(0.00001)
    pace.note(1, 5.0)
    assert pace.most() <= 2
    assert pace.threads_for(10) == 10


def test_what_was_last_counts_most_whatever_the_size_of_the_steps():
    pace = paced(0.1, jobs=10)
    for _ in range(200):
        pace.note(1, 0.01)
    assert pace.seconds == pytest.approx(0.01, rel=0.01)
