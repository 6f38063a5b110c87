"""A whole executor on small scenarios: the ones that Camunda's and Flowable's own suites run against a database.

Camunda: JobExecutorTest, JobExecutorCmdExceptionTest, JobExecutorFollowUpTest, JobExecutorShutdownTest. Flowable:
AsyncExecutorTest, AsyncExecutorTwoEnginesTest, AsyncExclusiveJobsTest, AsyncNonExclusiveJobsTest.
"""

import threading
from collections import Counter
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import transaction

from jobexec import clock
from jobexec.executor.loops import settlement
from jobexec.models import DeadLetterJob, ExclusiveLock, ExecutorNode, Job, JobLog, TimerJob
from jobexec.operations import delete_jobs
from jobexec.operations.notify import wake
from tests.support.executor import all_gone
from tests.support.factories import make_job, tables_of
from tests.support.waiting import TIMEOUT, passed, until

pytestmark = [pytest.mark.transactional, pytest.mark.smoke]
servers = pytest.mark.databases("postgresql", "mariadb")  # SQLite bears one node

QUICK = {"WAIT_TIME": 0.01, "MAX_WAIT": 0.1, "MAX_WAIT_WHEN_LISTENING": 0.1}


def note(alias, name, *arguments, **columns):
    """A job of the handler `tests.<name>`."""
    configuration = {"args": list(arguments), "kwargs": {}}
    return make_job(alias, handler_type=f"tests.{name}", handler_configuration=configuration, **columns)


@pytest.mark.gate
def test_messages_run_at_once_and_timers_when_they_are_due(alias, make_executor, handle):
    seen, times = [], {}

    def run(name):
        times[name] = clock.now(alias)
        seen.append(name)

    handle(run, name="tests.run")
    executor = make_executor(QUICK)
    executor.start()
    due = clock.now(alias) + timedelta(seconds=1)
    for number in range(4):
        note(alias, "run", f"message {number}")
    note(alias, "run", "timer", due_date=due)
    tomorrow = note(alias, "run", "tomorrow", due_date=due + timedelta(days=1))
    until(lambda: len(seen) == 5)
    # A heartbeat may have set the clock anew meanwhile, by milliseconds.
    assert times["timer"] > due - timedelta(seconds=0.5)
    until(lambda: executor.idle and not Job.objects.using(alias).exists())
    assert executor.stop()
    assert tables_of(alias) == {tomorrow.pk: [TimerJob]}
    assert Counter(seen) == Counter(["timer", *(f"message {number}" for number in range(4))])


@pytest.mark.gate
def test_forty_jobs_that_fail_again_and_again_hold_up_nobody(alias, make_executor, handle):
    runs, done = Counter(), threading.Event()

    def fail(number):
        runs[number] += 1
        raise ValueError(f"number {number}")

    handle(fail, name="tests.fail", retries="R2/PT0.05S")
    handle(done.set, name="tests.done")
    for number in range(40):
        note(alias, "fail", number, retries=2)
    executor = make_executor(QUICK)
    executor.start()
    until(lambda: DeadLetterJob.objects.using(alias).count() == 40)
    assert runs == dict.fromkeys(range(40), 2)
    note(alias, "done")
    passed(done)
    until(lambda: executor.idle)
    assert executor.stop()
    for row in DeadLetterJob.objects.using(alias).all():
        number = row.handler_configuration["args"][0]
        assert (row.retries, row.attempts, row.exception_message) == (0, 2, f"ValueError: number {number}")
    assert JobLog.objects.using(alias).filter(state="failed").count() == 80


class Overlap:
    """A handler that notices when another job of its process instance runs beside it."""

    def __init__(self):
        self.lock, self.running, self.most = threading.Lock(), Counter(), Counter()
        self.beside = threading.Event()

    def __call__(self, instance):
        with self.lock:
            self.running[instance] += 1
            self.most[instance] = max(self.most[instance], self.running[instance])
            if self.running[instance] > 1:
                self.beside.set()
        self.beside.wait(0.02)  # long enough for another one to come, if anything lets it
        with self.lock:
            self.running[instance] -= 1


@pytest.mark.gate
def test_exclusive_jobs_of_a_process_instance_never_run_beside_each_other(alias, make_executor, handle):
    _run_exclusive_jobs(alias, make_executor, handle, nodes=1)


@pytest.mark.gate
@servers
def test_nor_do_they_on_two_nodes(alias, make_executor, handle):
    _run_exclusive_jobs(alias, make_executor, handle, nodes=2)


def _run_exclusive_jobs(alias, make_executor, handle, nodes):
    overlap = Overlap()
    handle(overlap, name="tests.run")
    for number in range(36):
        note(alias, "run", f"order-{number % 3}", process_instance_id=f"order-{number % 3}")
    executors = [make_executor({**QUICK, "MAX_JOBS_PER_ACQUISITION": 3}, NODE_NAME=f"node {n}") for n in range(nodes)]
    for executor in executors:
        executor.start()
    until(lambda: all_gone(alias))
    assert overlap.most == {"order-0": 1, "order-1": 1, "order-2": 1}
    assert [executor.stop() for executor in executors] == [True] * len(executors)
    assert not ExclusiveLock.objects.using(alias).exists()


def test_five_that_are_not_exclusive_do_run_beside_each_other(alias, make_executor, handle):
    together = threading.Barrier(5)
    handle(lambda: together.wait(TIMEOUT), name="tests.meet")
    for _ in range(5):
        note(alias, "meet", process_instance_id="order-1", exclusive=False)
    executor = make_executor(QUICK, THREADS=5)
    executor.start()
    until(lambda: all_gone(alias))
    assert {entry.state for entry in JobLog.objects.using(alias).all()} == {"successful"}, "nobody waited in vain"


@pytest.mark.gate
@servers
def test_two_executors_share_the_work(alias, make_executor, handle):
    meeting, met, runs = threading.Barrier(2), threading.Event(), Counter()

    def run(number):
        runs[number] += 1
        if not met.is_set():
            meeting.wait(TIMEOUT)  # each has one thread: only two executors can meet
            met.set()

    handle(run, name="tests.run")
    for number in range(20):
        note(alias, "run", number)
    few = {**QUICK, "MAX_JOBS_PER_ACQUISITION": 2}
    executors = [make_executor(few, NODE_NAME=name, THREADS=1, QUEUE_SIZE=1) for name in ("berlin", "paris")]
    for executor in executors:
        executor.start()
    until(lambda: all_gone(alias))
    assert runs == dict.fromkeys(range(20), 1)
    assert set(JobLog.objects.using(alias).values_list("node", flat=True)) == {"berlin", "paris"}
    assert [executor.stop() for executor in executors] == [True] * len(executors)
    assert not ExecutorNode.objects.using(alias).exists()


@pytest.mark.gate
@servers
def test_of_two_jobs_that_deadlock_one_is_run_again_and_it_costs_no_retry(alias, make_executor, handle):
    crossed, met = threading.Barrier(2), threading.Event()
    for name in ("one", "two"):
        Group.objects.using(alias).create(name=name)

    def run(*names):
        groups = Group.objects.using(alias).select_for_update()
        groups.get(name=names[0])
        if not met.is_set():
            crossed.wait(TIMEOUT)
            met.set()
        groups.get(name=names[1])

    handle(run, name="tests.run")
    for names in (("one", "two"), ("two", "one")):
        note(alias, "run", *names, atomic=True)
    executor = make_executor(QUICK, THREADS=2, CONFLICT_DELAY=0.05)
    executor.start()
    until(lambda: all_gone(alias))
    entries = JobLog.objects.using(alias).order_by("pk").values_list("state", "attempt", "retries")
    assert sorted(entries) == [("failed", 1, 3), ("successful", 1, 3), ("successful", 2, 3)]


def test_a_job_that_is_deleted_by_the_transaction_that_made_it_never_runs(alias, make_executor, handle):
    seen, done = [], threading.Event()
    handle(seen.append, name="tests.note")
    handle(done.set, name="tests.done")
    executor = make_executor(QUICK)
    executor.start()
    with transaction.atomic(alias):
        doomed = [note(alias, "note", "doomed"), note(alias, "note", "doomed", process_instance_id="order-1")]
        assert len(delete_jobs(doomed, using=alias).changed) == 2
        note(alias, "done", priority=-1)
    passed(done)
    until(lambda: executor.idle and all_gone(alias))
    assert seen == []


@pytest.mark.gate
def test_what_is_rolled_back_never_runs_now_or_later(alias, make_executor, handle):
    seen = []
    handle(seen.append, name="tests.note")
    executor = make_executor(QUICK)
    executor.start()
    soon = clock.now(alias) + timedelta(seconds=0.1)
    with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
        note(alias, "note", "message")
        note(alias, "note", "timer", due_date=soon)
        raise ZeroDivisionError
    with transaction.atomic(alias):
        note(alias, "note", "message of another transaction")
        note(alias, "note", "its timer", due_date=soon)
    until(lambda: len(seen) == 2)
    until(lambda: executor.idle and all_gone(alias))
    assert sorted(seen) == ["its timer", "message of another transaction"]


@pytest.mark.gate
def test_a_follow_up_of_a_running_job_waits_for_it_and_runs_at_once_afterwards(alias, make_executor, handle):
    began, early = threading.Event(), []

    def first():
        note(alias, "second", process_instance_id="order-1")
        early.append(began.wait(0.3))

    handle(first, name="tests.first")
    handle(began.set, name="tests.second")
    # Long waits: only being woken brings the follow-up in time.
    executor = make_executor(dict.fromkeys(("WAIT_TIME", "MAX_WAIT", "MAX_WAIT_WHEN_LISTENING"), TIMEOUT * 2))
    executor.start()
    note(alias, "first", process_instance_id="order-1")
    passed(began)
    assert early == [False]
    until(lambda: all_gone(alias))


@pytest.mark.gate
def test_a_follow_up_that_comes_while_the_executor_stops_is_left_alone(alias, make_executor, handle):
    entered, go, seen = threading.Event(), threading.Event(), []

    def last():
        entered.set()
        passed(go)
        note(alias, "note", "follow-up", process_instance_id="order-1")
        note(alias, "note", "sibling", process_instance_id="order-1", exclusive=False)

    handle(last, name="tests.last")
    handle(seen.append, name="tests.note")
    executor = make_executor(QUICK)
    note(alias, "last", process_instance_id="order-1")
    executor.start()
    passed(entered)
    stopped = []
    stopping = threading.Thread(target=lambda: stopped.append(executor.stop()))
    stopping.start()
    until(lambda: executor.shutting_down)
    go.set()
    stopping.join(TIMEOUT)
    assert (stopped, seen) == ([True], [])
    rows = list(Job.objects.using(alias).all())
    assert [(row.lock_owner, row.retries, row.attempts, row.lost_runs) for row in rows] == [(None, 3, 0, 0)] * 2
    assert not ExclusiveLock.objects.using(alias).exists()


def test_who_has_stopped_hears_nothing_any_more(alias, make_executor):
    executor = make_executor(QUICK)
    before = set(wake._listeners)
    executor.start()
    assert len(wake._listeners - before) == 1
    assert executor.stop()
    assert wake._listeners == before
    note(alias, "nobody")
    assert Job.objects.using(alias).get().lock_owner is None


@pytest.mark.gate
def test_outcomes_that_cannot_be_written_stop_acquisition_until_they_are(alias, make_executor, handle, monkeypatch):
    monkeypatch.setattr(settlement, "_GROUP", 8)
    monkeypatch.setattr(settlement, "_MOST_WAITING", 8)
    may_write, real = threading.Event(), settlement.write

    def write(using, group, *more):
        assert may_write.wait(TIMEOUT)
        return real(using, group, *more)

    monkeypatch.setattr(settlement, "write", write)
    runs = Counter()
    handle(lambda number: runs.update([number]), name="tests.count")
    for number in range(100):
        note(alias, "count", number)
    never = 10 * TIMEOUT
    executor = make_executor({"WAIT_TIME": never, "MAX_WAIT": never, "MAX_WAIT_WHEN_LISTENING": never})
    executor.start()
    engine = executor.engines[alias]
    until(lambda: engine.settlement._wanting_room and executor.pool.empty)
    # What was being written, what may wait for it, and what the pool had before somebody looked.
    assert runs.total() <= 8 + 8 + executor.settings.threads + executor.settings.queue_size
    may_write.set()
    until(lambda: all_gone(alias))
    assert runs == dict.fromkeys(range(100), 1)
