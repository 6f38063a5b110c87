"""How many threads may be busy, by the jobs that they do and by the CPU time that the process uses."""

import itertools

import pytest

from jobexec.executor.pool import contention
from jobexec.executor.pool.contention import Contention

FEW, WINDOW = contention._FEW, contention._WINDOW


def at_most(most, each):
    """A function that returns the cores used by so many threads that each use a part of one."""
    return lambda threads: min(most, threads * each)


class Machine:
    """A process with as many jobs in a second, and as many cores in use, as functions of the busy threads say."""

    def __init__(self, threads, rate, cores, of_jobs=1.0):
        self.rate, self.cores, self.of_jobs = rate, cores, of_jobs
        self.now = self.used = 0.0
        self.contention = Contention(threads, lambda: self.used)

    def run(self, seconds):
        """The numbers of threads that were tried, one for each window."""
        chosen = []
        for _ in range(round(seconds / WINDOW)):
            most = self.contention.most
            chosen.append(most)
            took = WINDOW * 1.001
            self.now, self.used = self.now + took, self.used + self.cores(most) * took
            jobs = round(self.rate(most) * took)
            self.contention.note(jobs, self.cores(most) * took * self.of_jobs, self.now)
        return chosen


def fights(threads):
    """Jobs of one system call: the more threads, the fewer jobs."""
    return 60_000 if threads <= 2 else 100_000 / threads


def test_few_threads_are_kept_for_jobs_over_which_many_fight():
    machine = Machine(40, fights, lambda threads: 1.0)
    assert machine.run(0.3)[:3] == [40, FEW, FEW]
    chosen = machine.run(60)
    assert set(chosen) == {FEW, 2 * FEW}
    assert chosen.count(FEW) > 0.95 * len(chosen), "more are only tried"


def test_jobs_that_wait_get_all_threads():
    machine = Machine(40, lambda threads: 50 * threads, at_most(1.0, 0.018))
    assert set(machine.run(5)) == {40}


def test_few_threads_that_do_fewer_jobs_are_tried_ever_more_rarely():
    """A whole core is in use, but by threads that wait most of the time."""
    machine = Machine(40, lambda threads: min(18_000, 900 * threads), at_most(1.0, 0.06))
    tried = [at for at, most in enumerate(machine.run(60)) if most == FEW]
    assert set(machine.run(8)) <= {40, FEW}
    pauses = [after - before for before, after in itertools.pairwise(tried)]
    assert pauses == sorted(pauses) and pauses[-1] >= 8 / WINDOW - 2
    assert len(tried) < 15


def test_no_more_are_tried_than_there_are():
    machine = Machine(3, fights, lambda threads: 1.0)
    assert set(machine.run(30)) == {FEW, 3}


@pytest.mark.parametrize("threads", [1, FEW])
def test_few_threads_stay_as_they_are(threads):
    assert set(Machine(threads, fights, lambda threads: 1.0).run(10)) == {threads}


@pytest.mark.parametrize("threads", [3, 7, 40])
def test_all_threads_are_back_as_soon_as_jobs_wait(threads):
    machine = Machine(threads, fights, lambda busy: 1.0)
    assert machine.run(0.5)[-1] == FEW
    machine.rate, machine.cores = lambda busy: 50 * busy, lambda busy: 0.02 * busy
    assert machine.run(0.5)[-1] == threads


def test_more_are_tried_and_kept_if_they_do_more():
    machine = Machine(16, fights, lambda threads: 1.0)
    assert machine.run(0.5)[-1] == FEW
    machine.rate = lambda threads: 1_000 * threads
    machine.run(3 * contention._LOOK + 1)
    assert machine.contention.most == 16


def test_jobs_that_compute_without_the_interpreter_get_all_threads():
    machine = Machine(8, fights, lambda threads: 1.0)
    assert machine.run(0.5)[-1] == FEW
    machine.cores = float
    assert machine.run(0.3)[-1] == 8
    assert set(machine.run(5)) == {8}


def test_another_thread_of_the_process_does_not_take_the_interpreter_from_the_jobs():
    """With few busy threads, it would get a third of the time and not a ninth."""
    machine = Machine(8, fights, lambda threads: 1.0, of_jobs=0.3)
    assert set(machine.run(1)) == {8}
    machine.of_jobs = 0.9
    assert machine.run(1)[-1] == FEW
    machine.of_jobs = 0.3
    assert machine.run(0.2)[-1] == 8


def test_nothing_is_decided_before_a_window_has_passed():
    machine = Contention(8, lambda: 1.0)
    for _ in range(3):
        machine.note(1_000, 0.9, WINDOW / 2)
    assert machine.most == 8
