"""Soft and hard timeouts, threads that are stuck, and words between running jobs and the database."""

import asyncio
import threading
from contextlib import ExitStack
from datetime import timedelta
from types import SimpleNamespace
from uuid import UUID

import pytest
from django.db import connections

from jobexec import clock, signals
from jobexec.clock import FrozenClock
from jobexec.exceptions import JobCancelled, JobTimeout
from jobexec.executor.loops.timeouts import Timeouts
from jobexec.executor.run.running import MOST_REPORTED, RunningJobs
from jobexec.handlers.context import JobContext
from jobexec.models import DeadLetterJob, ExclusiveLock, ExecutorNode, Job, JobLog, JobProgress, TimerJob
from jobexec.operations import cancel
from tests.support.executor import all_gone, watching
from tests.support.factories import make_job, tables_of
from tests.support.waiting import TIMEOUT, passed, until

SHORT = timedelta(seconds=0.3)
NEVER = "R2/PT1H"
quick = {"WAIT_TIME": 0.01, "MAX_WAIT": 0.05, "MAX_WAIT_WHEN_LISTENING": 0.05}


class TestWatch:
    """Without threads and databases."""

    @pytest.fixture
    def watch(self):
        with FrozenClock() as frozen:
            watch = SimpleNamespace(clock=frozen, outcomes=[], given_up=[], restarts=[], stuck=1)
            watch.running = RunningJobs()
            pool = SimpleNamespace(give_up=lambda work, most: watch.given_up.append(work) or watch.stuck)
            watch.loop = Timeouts(watch.running, pool, watch.outcomes.append, watch.restarts.append, "here", 3)
            yield watch

    def context(self, timeout):
        seconds = None if timeout is None else timedelta(seconds=timeout)
        work = SimpleNamespace(
            using="default",
            lock_owner="me",
            timeout=seconds,
            id="1",
            handler_type="tests.slow",
            attempts=0,
            category="default",
            process_instance_id="",
            tenant_id="",
        )
        return JobContext(work, SimpleNamespace(owns=lambda *args: True, shutting_down=False))

    handler = SimpleNamespace(retry_plan=None)

    def test_sleeps_until_the_next_limit(self, watch):
        assert watch.loop.run_once() == pytest.approx(60)
        with watching(watch.running, self.context(None), self.handler):
            assert watch.loop.run_once() == pytest.approx(60)
            with watching(watch.running, self.context(10), self.handler):
                assert watch.loop.run_once() == pytest.approx(8)
                watch.clock.tick(8)
                assert watch.loop.run_once() == pytest.approx(2)
        assert watch.loop.run_once() == pytest.approx(60)

    def test_at_eighty_per_cent_the_context_says_so_and_a_signal_is_sent_once(self, watch):
        heard, context = [], self.context(10)

        def hear(job, context, using, **kwargs):
            heard.append((job, context, using))

        signals.job_timeout_near.connect(hear)
        try:
            with watching(watch.running, context, self.handler):
                watch.clock.tick(7.9)
                watch.loop.run_once()
                assert (context.soft_timeout, heard) == (False, [])
                watch.clock.tick(0.2)
                watch.loop.run_once()
                watch.loop.run_once()
        finally:
            signals.job_timeout_near.disconnect(hear)
        assert (context.soft_timeout, context.timed_out) == (True, False)
        assert heard == [(context.work, context, "default")]

    def test_at_a_hundred_per_cent_the_job_has_failed(self, watch):
        context = self.context(10)
        with watching(watch.running, context, self.handler):
            watch.clock.tick(10)
            watch.loop.run_once()
            watch.loop.run_once()
        (outcome,) = watch.outcomes
        assert context.timed_out
        assert outcome.failure.message == "JobTimeout: It ran longer than its timeout of 0:00:10."
        assert (outcome.run.duration, outcome.run.node, outcome.failure.kind) == (pytest.approx(10), "here", "error")
        assert outcome.failure.keeps_instance
        assert watch.given_up == [context.work]
        with pytest.raises(JobTimeout):
            context.check_lease()

    @pytest.mark.parametrize("holds_thread", [True, False], ids=["thread", "async"])
    def test_a_storm_of_timeouts_is_one_line_a_minute(self, watch, caplog, holds_thread):
        """Ten of each kind, however many jobs of one handler are past their timeout."""
        contexts = [self.context(10) for _ in range(12)]
        with ExitStack() as stack:
            for context in contexts:
                context.holds_thread = holds_thread
                stack.enter_context(watching(watch.running, context, self.handler))
            watch.clock.tick(8.1)
            watch.loop.run_once()
            warned = [record for record in caplog.records if "has used 80 %" in record.getMessage()]
            watch.clock.tick(2)
            watch.loop.run_once()
        ended = [record for record in caplog.records if "ran longer" in record.getMessage()]
        assert (len(warned), len(ended)) == (10, 10)
        watch.clock.tick(60)
        caplog.clear()
        context = self.context(10)
        context.holds_thread = holds_thread
        with watching(watch.running, context, self.handler):
            watch.clock.tick(10)
            watch.loop.run_once()
        assert caplog.messages[-1].endswith(" (2 more of this group not logged)")

    def test_its_failure_is_handed_on_before_its_thread_can_give_it_back(self, watch):
        """However long it takes to deal with the thread of another job."""
        contexts = [self.context(10), self.context(10)]
        submitted, given_up = [], []
        watch.loop._submit = lambda outcome: submitted.append([context.timed_out for context in contexts])
        watch.loop._pool = SimpleNamespace(give_up=lambda work, most: given_up.append(len(submitted)) or 1)
        with watching(watch.running, contexts[0], self.handler), watching(watch.running, contexts[1], self.handler):
            watch.clock.tick(10)
            watch.loop.run_once()
        assert submitted == [[False, False], [True, False]]
        assert given_up == [2, 2]

    def test_one_that_cannot_be_interrupted_yet_is_as_soon_as_it_can(self):
        context, interrupted = self.context(10), []
        context.timed_out = True
        context.interrupt()
        context.on_interrupt(lambda: interrupted.append(1))
        context.on_interrupt(None)
        assert interrupted == [1]

    def test_one_that_ends_in_time_is_let_alone(self, watch):
        context = self.context(10)
        with watching(watch.running, context, self.handler):
            watch.clock.tick(9.9)
        watch.clock.tick(1)
        watch.loop.run_once()
        assert not context.timed_out
        assert watch.outcomes == []

    def test_too_many_stuck_threads_ask_for_a_fresh_process(self, watch):
        for stuck, expected in ((3, []), (4, ["4 threads are stuck in jobs that are past their timeout"])):
            watch.stuck = stuck
            with watching(watch.running, self.context(1), self.handler):
                watch.clock.tick(1)
                watch.loop.run_once()
            assert watch.restarts == expected


@pytest.fixture
def gate(handle):
    """A handler `tests.hang` that does not look at its timeout."""
    gate = SimpleNamespace(open=threading.Event(), entered=threading.Semaphore(0), contexts=[])

    def hang(context):
        gate.contexts.append(context)
        gate.entered.release()
        assert gate.open.wait(TIMEOUT)

    handle(hang, name="tests.hang", takes_context=True, retries=NEVER)
    yield gate
    gate.open.set()


@pytest.mark.transactional
class TestExecutor:
    def test_a_timeout_costs_a_retry_and_its_thread_is_replaced(self, alias, make_executor, handle, gate):
        done = []
        handle(lambda: done.append(1), name="tests.note")
        row = make_job(alias, handler_type="tests.hang", timeout=SHORT, retry_plan=NEVER, retries=2)
        executor = make_executor(quick, THREADS=1, HEARTBEAT_INTERVAL=0.05)
        executor.start()
        until(lambda: TimerJob.objects.using(alias).exists())
        waiting = TimerJob.objects.using(alias).get()
        assert (waiting.pk, waiting.retries, waiting.attempts) == (row.pk, 1, 1)
        assert waiting.exception_message == "JobTimeout: It ran longer than its timeout of 0:00:00.300000."
        make_job(alias, handler_type="tests.note")
        until(lambda: done)
        assert executor.pool.load()["stuck_threads"] == 1
        until(lambda: ExecutorNode.objects.using(alias).get().stuck_threads == 1)
        gate.open.set()
        until(lambda: executor.pool.load()["stuck_threads"] == 0)
        until(lambda: executor.idle)
        assert tables_of(alias) == {row.pk: [TimerJob]}, "its late end does not count"
        assert executor.stop()

    @pytest.mark.gate
    def test_the_last_retry_ends_as_a_dead_letter(self, alias, make_executor, gate):
        make_job(alias, handler_type="tests.hang", timeout=SHORT, retries=1)
        executor = make_executor(quick)
        executor.start()
        until(lambda: DeadLetterJob.objects.using(alias).exists())
        gate.open.set()

    @pytest.mark.gate
    def test_an_exclusive_job_keeps_its_process_instance_until_its_thread_ends(
        self, alias, make_executor, handle, gate
    ):
        done = []
        handle(lambda: done.append(1), name="tests.note")
        make_job(alias, handler_type="tests.hang", timeout=SHORT, retry_plan=NEVER, process_instance_id="order-1")
        sibling = make_job(alias, handler_type="tests.note", process_instance_id="order-1")
        executor = make_executor(quick)
        executor.start()
        until(lambda: TimerJob.objects.using(alias).exists())
        late = make_job(alias, handler_type="tests.note", process_instance_id="order-1")
        other = make_job(alias, handler_type="tests.note", process_instance_id="order-2")
        until(lambda: not Job.objects.using(alias).filter(pk=other.pk).exists())
        assert len(done) == 1
        assert ExclusiveLock.objects.using(alias).filter(process_instance_id="order-1").exists()
        assert {sibling.pk, late.pk} == set(Job.objects.using(alias).values_list("pk", flat=True))
        gate.open.set()
        until(lambda: len(done) == 3)
        until(lambda: executor.idle and not ExclusiveLock.objects.using(alias).exists())

    @pytest.mark.gate
    @pytest.mark.databases("postgresql", "mariadb")
    def test_an_atomic_job_is_rolled_back(self, alias, make_executor, handle, gate):
        def write():
            ExclusiveLock.objects.using(alias).create(process_instance_id="written", lock_owner="x", acquisition=PK)
            assert gate.open.wait(TIMEOUT)

        handle(write, name="tests.write", atomic=True, retries=NEVER)
        row = make_job(alias, handler_type="tests.write", atomic=True, timeout=SHORT, retry_plan=NEVER)
        executor = make_executor(quick)
        executor.start()
        until(lambda: TimerJob.objects.using(alias).exists())
        gate.open.set()
        until(lambda: executor.pool.load()["stuck_threads"] == 0)
        assert tables_of(alias) == {row.pk: [TimerJob]}
        assert not ExclusiveLock.objects.using(alias).exists()

    @pytest.mark.gate
    def test_an_async_handler_is_cancelled(self, alias, make_executor, handle):
        ended = threading.Event()

        async def wait():
            try:
                await asyncio.sleep(TIMEOUT)
            finally:
                ended.set()

        handle(wait, name="tests.wait_async", retries=NEVER)
        make_job(alias, handler_type="tests.wait_async", timeout=SHORT, retry_plan=NEVER)
        executor = make_executor(quick)
        executor.start()
        passed(ended)
        until(lambda: TimerJob.objects.using(alias).exists())
        until(lambda: not executor.pool.load()["stuck_threads"])
        assert executor.stop()

    @pytest.mark.gate
    def test_more_stuck_threads_than_allowed_ask_for_a_fresh_process(self, alias, make_executor, gate):
        for _ in range(3):
            make_job(alias, handler_type="tests.hang", timeout=SHORT, retry_plan=NEVER)
        executor = make_executor(quick, THREADS=2, MAX_STUCK_THREADS=1)
        executor.start()
        until(lambda: executor.restart_reason)
        assert executor.restart_reason == "2 threads are stuck in jobs that are past their timeout"
        assert not executor.stop(0.1), "what is stuck cannot be waited for"
        assert ExecutorNode.objects.using(alias).exists(), "its lease keeps process instances from others"
        gate.open.set()
        until(lambda: executor.pool.load()["stuck_threads"] == 0)
        executor.start()
        assert executor.stop()


@pytest.mark.transactional
class TestMonitor:
    @pytest.fixture(autouse=True)
    def often(self, monkeypatch):
        monkeypatch.setattr("jobexec.executor.loops.monitor._INTERVAL", 0.02)

    @pytest.mark.parametrize("ending", ["returns", "raises", "says so"])
    def test_a_running_job_sees_that_it_is_cancelled(self, alias, make_executor, handle, ending):
        began, saw = threading.Event(), []

        def look(context):
            began.set()
            until(lambda: context.cancelled)
            saw.append(1)
            if ending == "raises":
                raise ValueError("half done")
            if ending == "says so":
                raise JobCancelled

        handle(look, name="tests.look", takes_context=True)
        row = make_job(alias, handler_type="tests.look")
        executor = make_executor(quick)
        executor.start()
        passed(began)
        assert cancel(row, using=alias)
        until(lambda: all_gone(alias))
        assert saw == [1]
        log = JobLog.objects.using(alias).get(job_id=row.pk)
        assert (log.state, log.exception_message) == (
            "cancelled",
            "ValueError: half done" if ending == "raises" else "",
        )

    @pytest.mark.gate
    def test_one_that_does_not_look_and_ends_well_is_done(self, alias, make_executor, gate):
        row = make_job(alias, handler_type="tests.hang")
        executor = make_executor(quick)
        executor.start()
        until(lambda: gate.contexts)
        cancel(row, using=alias)
        until(lambda: gate.contexts[0].work.cancel_requested)
        gate.open.set()
        until(lambda: all_gone(alias))
        assert JobLog.objects.using(alias).get(job_id=row.pk).state == "successful"

    @pytest.mark.databases("postgresql", "mariadb")
    def test_what_an_atomic_job_wrote_before_it_looked_is_rolled_back(self, alias, make_executor, handle):
        def look(context):
            ExclusiveLock.objects.using(alias).create(process_instance_id="written", lock_owner="x", acquisition=PK)
            until(lambda: context.cancelled)

        handle(look, name="tests.look", takes_context=True, atomic=True)
        row = make_job(alias, handler_type="tests.look", atomic=True)
        executor = make_executor(quick)
        executor.start()
        until(lambda: executor.running.all())
        cancel(row, using=alias)
        until(lambda: all_gone(alias))
        assert JobLog.objects.using(alias).get(job_id=row.pk).state == "cancelled"
        assert not ExclusiveLock.objects.using(alias).exists()

    @pytest.mark.gate
    def test_one_that_waits_in_the_queue_never_begins(self, alias, make_executor, gate):
        rows = [make_job(alias, handler_type="tests.hang") for _ in range(2)]
        executor = make_executor(quick, THREADS=1)
        executor.start()
        until(lambda: gate.contexts and executor.pool.load()["queued_jobs"])
        (queued,) = [row for row in rows if row.pk != gate.contexts[0].id]
        cancel(queued, using=alias)
        until(lambda: any(job.cancel_requested for job in executor.pool.jobs_in_hand()))
        gate.open.set()
        until(lambda: all_gone(alias))
        assert len(gate.contexts) == 1
        assert JobLog.objects.using(alias).get(job_id=queued.pk).state == "cancelled"

    @pytest.mark.gate
    @pytest.mark.parametrize("atomic", [False, True])
    def test_one_that_its_sibling_cancels_never_begins(self, alias, make_executor, handle, atomic, monkeypatch):
        monkeypatch.setattr("jobexec.executor.loops.monitor._INTERVAL", TIMEOUT * 2)
        rows, seen = [], []

        def first():
            cancel(rows[1].pk, using=alias)

        handle(first, name="tests.first")
        handle(seen.append, name="tests.note")
        rows += [make_job(alias, handler_type="tests.first", process_instance_id="order-1", atomic=atomic)]
        for name in ("cancelled", "spared"):
            arguments = {"args": [name], "kwargs": {}}
            columns = {"handler_type": "tests.note", "process_instance_id": "order-1"}
            rows += [make_job(alias, handler_configuration=arguments, **columns)]
        executor = make_executor(quick)
        executor.start()
        until(lambda: all_gone(alias))
        assert seen == ["spared"]
        states = dict(JobLog.objects.using(alias).values_list("job_id", "state"))
        assert [states[row.pk] for row in rows] == ["successful", "cancelled", "successful"]
        assert executor.stop()
        assert not signals.job_cancel_requested.receivers

    def test_progress_is_seen_while_the_job_runs_and_gone_afterwards(self, alias, make_executor, handle):
        go = threading.Event()

        def count(context):
            for done in range(1, 4):
                context.progress(done, 10)
            assert go.wait(TIMEOUT)
            context.progress(10, 10)

        handle(count, name="tests.count", takes_context=True)
        row = make_job(alias, handler_type="tests.count")
        executor = make_executor(quick)
        executor.start()
        said = until(lambda: JobProgress.objects.using(alias).first())
        assert (said.job_id, said.attempt, said.done, said.total) == (row.pk, 1, 3, 10)
        go.set()
        until(lambda: all_gone(alias))
        until(lambda: not JobProgress.objects.using(alias).exists())

    def test_a_cancellation_reaches_the_retry_beside_the_thread_of_an_earlier_attempt(self, alias, make_executor):
        row = make_job(alias)
        monitor = make_executor(quick).engines[alias].monitor
        jobs = [SimpleNamespace(id=row.pk, using=alias, cancel_requested=False) for _ in range(2)]
        monitor._in_hand = lambda: jobs
        monitor.run_once()
        Job.objects.using(alias).filter(pk=row.pk).update(cancel_requested=True)
        monitor.run_once()
        assert [job.cancel_requested for job in jobs] == [True, True]

    def test_progress_of_a_job_that_runs_twice_is_written_once(self, alias, make_executor):
        """As after a lost lease, when the job was recovered and acquired again and the first thread goes on."""
        executor = make_executor(quick)
        work = SimpleNamespace(using=alias, lock_owner="me", timeout=None, id=UUID(PK), attempts=0)
        contexts = [JobContext(work, executor) for _ in range(2)]
        with watching(executor, contexts[0], None), watching(executor, contexts[1], None):
            contexts[0].progress(1)
            contexts[1].progress(2, 10)
            executor.engines[alias].monitor.run_once()
        assert JobProgress.objects.using(alias).get().job_id == UUID(PK)

    def test_jobs_that_are_quickly_done_are_not_asked_about(self, alias, make_executor):
        executor = make_executor(quick)
        monitor = executor.engines[alias].monitor
        jobs = [SimpleNamespace(id=number, using=alias, cancel_requested=False) for number in range(3)]
        monitor._in_hand = lambda: jobs
        with connections[alias].execute_wrapper(lambda *args: pytest.fail("asked")):
            monitor.run_once()
            jobs[:] = []
            monitor.run_once()


@pytest.mark.parametrize("values", [(-1,), (1.5,), ("1",), (True,), (1, -1), (1, 2.0), (2**63,)])
def test_progress_is_counted_in_whole_numbers(values):
    context = TestWatch().context(None)
    with pytest.raises(ValueError, match="progress: expected a whole number"):
        context.progress(*values)
    assert context.take_progress() is None


PK = "00000000-0000-0000-0000-000000000001"


def test_what_has_run_for_a_while_is_reported():
    running, moment = RunningJobs(), clock.now()

    def begin(number, ago, using="default", timeout=None, holds_thread=True):
        context = SimpleNamespace(
            id=f"job-{number}",
            using=using,
            timeout=timeout,
            holds_thread=holds_thread,
            started_at=moment - timedelta(seconds=ago),
            work=SimpleNamespace(handler_type="tests.slow", category="default"),
        )
        running.begin(context, None)
        return context

    begin(1, ago=-60)
    begin(2, ago=5, timeout=timedelta(minutes=1))
    begin(3, ago=60)
    begin(4, ago=30, using="other")
    begin(5, ago=2, holds_thread=False)
    running.end(begin(6, ago=10))
    found = running.report("default")
    assert [each["job"] for each in found] == ["job-3", "job-2", "job-5"]
    assert [bool(each["thread"]) for each in found] == [True, True, False], "an event loop runs many"
    assert found[0]["handler"] == "tests.slow"
    for number in range(200):
        begin(f"many-{number}", ago=100)
    assert len(running.report("default")) == MOST_REPORTED
