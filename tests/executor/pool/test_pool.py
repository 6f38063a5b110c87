"""The pool: places are reserved before jobs are locked, suspects run alone, stopping gives back what has not begun."""

import threading

import pytest

from jobexec.executor.pool import pool as module
from tests.support.executor import stop_all
from tests.support.pool import Bench
from tests.support.waiting import TIMEOUT, passed, threads, until


def in_hand(bench):
    return {job.id for job in bench.pool.jobs_in_hand()}


@pytest.fixture
def bench(monkeypatch):
    """A function that starts a pool; whoever waits without a reason waits too long."""
    monkeypatch.setattr(module, "_IDLE_SECONDS", 2 * TIMEOUT)
    benches = []

    def make(threads=2, queue_size=3):
        benches.append(Bench(threads, queue_size))
        benches[-1].pool.start()
        return benches[-1]

    yield make
    stop_all(benches)
    assert not threads()


def test_grants_what_is_free_and_no_more(bench):
    b = bench(threads=2, queue_size=3)
    assert b.pool.reserve(4, lambda: None) == 4
    assert b.pool.reserve(4, lambda: None) == 1
    assert b.pool.reserve(4, lambda: None) == 0
    b.pool.submit([], 4)
    assert b.pool.reserve(9, lambda: None) == 4


def test_running_and_queued_jobs_take_places_until_they_end(bench):
    b = bench(threads=1, queue_size=2)
    first, second = b.batch(0, 0), b.batch()
    b.submit(first, second)
    until(lambda: b.began == [first])
    assert b.pool.reserve(1, lambda: None) == 0
    assert b.pool.load() == {"busy_threads": 1, "stuck_threads": 0, "queued_jobs": 1}
    assert in_hand(b) == {job.id for job in (*first, *second)}
    b.let_go(first)
    until(lambda: b.began == [first, second])
    assert b.pool.reserve(9, lambda: None) == 2
    assert not b.pool.empty
    b.pool.submit([], 2)
    b.let_go(second)
    until(lambda: b.pool.empty)
    assert in_hand(b) == set()


def test_who_is_refused_is_called_once_there_is_room(bench):
    b = bench(threads=1, queue_size=0)
    told = threading.Event()
    first = b.batch()
    b.submit(first)
    until(lambda: b.began)
    assert b.pool.reserve(1, told.set) == 0
    assert not told.is_set()
    b.let_go(first)
    passed(told)


def test_who_was_refused_because_of_a_reservation_is_called_when_it_was_not_used(bench):
    b = bench(threads=1, queue_size=0)
    told = threading.Event()
    assert b.pool.reserve(1, lambda: None) == 1
    assert b.pool.reserve(1, told.set) == 0
    b.pool.submit([], 1)
    passed(told, 0.0)


def test_a_call_that_fails_costs_no_thread(bench, caplog):
    b = bench(threads=1, queue_size=0)
    first, second = b.batch(), b.batch()
    b.submit(first)
    until(lambda: b.began)
    assert b.pool.reserve(1, lambda: 1 / 0) == 0
    b.let_go(first)
    until(lambda: "could not be woken up" in caplog.text)
    b.submit(second)
    until(lambda: second in b.began)


def test_jobs_lost_once_run_beside_each_other(bench):
    """A process that is killed from outside had many jobs in hand: they must not come back one at a time."""
    b = bench(threads=3, queue_size=9)
    suspects = [b.batch(1) for _ in range(3)]
    b.submit(*suspects)
    until(lambda: b.began == suspects)
    b.let_go(*suspects)
    until(lambda: b.pool.empty)


def test_siblings_with_one_among_them_that_runs_alone_run_alone(bench):
    b = bench(threads=2, queue_size=9)
    one, other = b.batch(0, 2), b.batch(1, 0)
    b.submit(one, other)
    until(lambda: b.began == [one])
    assert b.pool.load()["queued_jobs"] == 2
    b.let_go(one)
    until(lambda: b.began == [one, other])
    b.let_go(other)


def test_a_suspect_that_was_lost_while_it_ran_runs_with_nothing_beside_it(bench):
    b = bench(threads=3, queue_size=9)
    before, alone, after, suspect = b.batch(), b.batch(2), b.batch(), b.batch(1)
    b.submit(before)
    until(lambda: b.began == [before])
    b.submit(alone, after, suspect)
    until(lambda: b.pool._queue.lone is alone)
    assert b.pool.load() == {"busy_threads": 1, "stuck_threads": 0, "queued_jobs": 3}
    assert in_hand(b) == {batch[0].id for batch in (before, alone, after, suspect)}
    b.let_go(before)
    until(lambda: b.began == [before, alone])
    assert b.pool.load() == {"busy_threads": 1, "stuck_threads": 0, "queued_jobs": 2}
    b.let_go(alone)
    until(lambda: after in b.began and suspect in b.began)
    b.let_go(after, suspect)
    until(lambda: b.pool.empty)


def test_who_waits_to_run_alone_is_given_back(bench):
    b = bench(threads=2, queue_size=9)
    running, alone = b.batch(), b.batch(3)
    b.submit(running)
    until(lambda: b.began == [running])
    b.submit(alone)
    until(lambda: b.pool._queue.lone is alone)
    assert b.pool.stop(0) is False
    assert b.given_back == [alone]
    assert in_hand(b) == {running[0].id}
    b.let_go(running)
    assert b.pool.stop(TIMEOUT) is True
    assert b.ended == [running]
    assert b.pool.empty
    b.pool.start()
    again = b.batch(2)
    b.let_go(again)
    b.submit(again)
    until(lambda: again in b.ended)


def test_stop_gives_back_what_has_not_begun_and_waits_for_what_runs(bench):
    b = bench(threads=1, queue_size=9)
    running, queued, suspect = b.batch(), b.batch(), b.batch(1)
    b.submit(running)
    until(lambda: b.began == [running])
    b.submit(queued, suspect)
    assert b.pool.stop(0) is False
    assert b.given_back == [queued, suspect]
    b.let_go(running)
    assert b.pool.stop(TIMEOUT) is True
    assert b.ended == [running]
    assert b.pool.empty


def test_without_work_it_stops_in_no_time(bench):
    b = bench()
    assert b.pool.stop(0) is True
    assert not threads()


def test_waiting_suspects_are_given_back_too(bench):
    b = bench(threads=2, queue_size=9)
    one, other = b.batch(2), b.batch(2)
    b.submit(one, other)
    until(lambda: b.began == [one])
    b.pool.stop(0)
    assert b.given_back == [other]


def test_a_closed_pool_grants_nothing_and_gives_back_what_comes(bench):
    b = bench()
    assert b.pool.reserve(2, lambda: None) == 2
    assert b.pool.stop(TIMEOUT)
    late = b.batch()
    b.pool.submit([late], 2)
    assert b.given_back == [late]
    assert b.pool.reserve(1, lambda: None) == 0
    assert b.pool.empty


def test_can_be_started_again_even_with_a_thread_that_has_not_ended(bench):
    b = bench(threads=2, queue_size=0)
    stuck, next_one, third = b.batch(), b.batch(), b.batch()
    b.submit(stuck)
    until(lambda: b.began == [stuck])
    assert b.pool.stop(0) is False
    b.pool.start()
    b.pool.start()
    assert len(threads("jobexec-worker")) == 2
    b.submit(next_one)
    until(lambda: b.began == [stuck, next_one])
    assert b.pool.reserve(1, lambda: None) == 0
    b.let_go(stuck)
    until(lambda: b.pool.load()["busy_threads"] == 1)
    b.submit(third)
    until(lambda: third in b.began)


def test_can_be_started_again_while_a_thread_is_just_ending(bench, monkeypatch):
    closing = threading.Event()
    b = bench(threads=1, queue_size=0)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_WORKER_STOP", 0)
        patch.setattr("jobexec.runtime.threads.close_connections", lambda: closing.wait(TIMEOUT))
        assert b.pool.stop(0)
        until(lambda: not b.pool._queue.staff)
        b.pool.start()
        batch = b.batch()
        b.submit(batch)
        until(lambda: b.began == [batch])
    closing.set()


def test_threads_that_were_stuck_and_not_replaced_go_on_when_they_end(bench):
    b = bench(threads=2, queue_size=9)
    stuck, after = [b.batch(), b.batch()], [b.batch(), b.batch()]
    b.submit(*stuck)
    until(lambda: len(b.began) == 2)
    assert [b.pool.give_up(batch[0], 0) for batch in stuck] == [1, 2]
    b.submit(*after)
    b.let_go(*stuck)
    until(lambda: len(b.began) == 4)
    assert len(threads("jobexec-worker")) == 2
    assert b.pool.load() == {"busy_threads": 2, "stuck_threads": 0, "queued_jobs": 0}


def test_threads_that_were_stuck_and_replaced_leave_nothing(bench):
    b = bench(threads=1, queue_size=9)
    for _ in range(5):
        stuck = b.batch()
        b.submit(stuck)
        until(lambda: stuck in b.began)  # noqa: B023
        assert b.pool.give_up(stuck[0], 1) == 1
        b.let_go(stuck)
        until(lambda: len(threads("jobexec-worker")) == 1)
    assert len(b.pool._workers) <= 2


def test_nothing_is_acquired_while_a_job_waits_to_run_alone_or_does(bench):
    b = bench(threads=2, queue_size=9)
    told = threading.Event()
    before, alone = b.batch(), b.batch(2)
    b.submit(before)
    until(lambda: b.began == [before])
    b.submit(alone)
    until(lambda: b.pool._queue.lone is alone)
    assert b.pool.reserve(1, told.set) == 0
    b.let_go(before)
    until(lambda: b.began == [before, alone])
    assert b.pool.reserve(1, told.set) == 0
    assert not told.is_set()
    b.let_go(alone)
    passed(told)
    assert b.pool.reserve(1, told.set) == 1
    b.pool.submit([], 1)


def test_no_worker_dies_of_what_it_runs(bench, caplog):
    b = bench(threads=1, queue_size=9)
    b.pool._run = lambda batch: (_ for _ in ()).throw(SystemExit(3))
    b.submit(b.batch())
    until(lambda: "Running a batch of 1 jobs failed" in caplog.text)
    b.pool._run = b.run
    fine = b.batch()
    b.submit(fine)
    until(lambda: b.began == [fine])


def test_stopping_and_submitting_at_the_same_time_loses_nothing():
    for _ in range(50):
        b = Bench(2, 20)
        b.pool.start()
        batches = [b.batch() for _ in range(6)]
        b.let_go(*batches)
        granted = [b.pool.reserve(1, lambda: None) for _ in batches]
        assert sum(granted) == 6
        thread = threading.Thread(target=lambda: [b.pool.submit([batch], 1) for batch in batches])  # noqa: B023
        thread.start()
        assert b.pool.stop(TIMEOUT)
        thread.join(TIMEOUT)
        assert sorted(map(id, b.ended + b.given_back)) == sorted(map(id, batches))
        assert b.pool.empty
