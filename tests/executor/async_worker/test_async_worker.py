"""Async handlers run beside each other on one event loop, and mean what they mean in threads."""

import asyncio
import contextvars
import threading
from datetime import UTC, datetime, timedelta
from functools import wraps
from types import SimpleNamespace

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import connections, transaction

from jobexec import signals
from jobexec.exceptions import DoNotRetry, RetryIn
from jobexec.models import BlockedJob, DeadLetterJob, ExclusiveLock, ExecutorNode, Job, JobLog, JobProgress, TimerJob
from jobexec.operations import cancel
from jobexec.operations.values.acquired_job import LONG
from tests.support.executor import all_gone
from tests.support.factories import make_job, tables_of
from tests.support.gate import Gate
from tests.support.waiting import TIMEOUT, passed, threads, until

pytestmark = [pytest.mark.transactional, pytest.mark.smoke]

SHORT = timedelta(seconds=0.3)
NEVER = "R2/PT1H"
quick = {"WAIT_TIME": 0.01, "MAX_WAIT": 0.05, "MAX_WAIT_WHEN_LISTENING": 0.05}


@pytest.fixture
def gate(handle):
    """A gate, and an async handler `tests.wait` that waits at it."""
    gate = Gate()

    async def wait():
        await gate.passed()

    handle(wait, name="tests.wait", retries=NEVER)
    yield gate
    gate.open()


@pytest.fixture
def start(make_executor):
    """A function that starts an executor; `pace` is how many seconds jobs are known to take."""

    def run(engine=quick, pace=None, **keys):
        executor = make_executor(engine, **keys)
        executor.pool._queue.throughput.seconds = pace
        executor.start()
        return executor

    return run


def crowd(alias, start, handle, number, **options):
    gate = Gate()

    async def wait(index):
        await gate.passed()

    handler = handle(wait, name="tests.crowd", database=alias, **options)
    handler.enqueue_many([(index,) for index in range(number)])
    executor = start(THREADS=2, ASYNC_JOBS=number)
    until(lambda: gate.now == number)
    assert len(threads("jobexec-worker")) == 2
    assert executor.pool.async_jobs == number
    assert executor.pool.load() == {"busy_threads": 0, "stuck_threads": 0, "queued_jobs": 0}
    assert len(executor.pool.jobs_in_hand()) == number
    assert not executor.idle
    gate.open()
    until(lambda: executor.idle)
    assert all_gone(alias)
    assert (gate.done, executor.pool.done) == (number, number)
    assert JobLog.objects.using(alias).filter(state="successful").count() == number
    assert executor.stop()
    assert not threads()


@pytest.mark.gate
def test_thousands_wait_at_once(alias, start, handle):
    crowd(alias, start, handle, 2_000)


@pytest.mark.databases("postgresql")  # the async worker is the same; two thousand show the others
@pytest.mark.parametrize("options", [{}, {"timeout": 600}])
@pytest.mark.nightly
def test_ten_thousand_wait_at_once(alias, start, handle, options):
    crowd(alias, start, handle, 10_000, **options)


@pytest.mark.gate
def test_siblings_run_one_after_the_other_in_order(alias, start, handle):
    running, seen = set(), []

    async def step(instance, number):
        assert instance not in running
        running.add(instance)
        await asyncio.sleep(0.001)
        running.discard(instance)
        seen.append((instance, number))

    def sync_step(instance, number):
        assert instance not in running
        seen.append((instance, number))

    handle(step, name="tests.step")
    handle(sync_step, name="tests.sync_step")
    for number in range(5):
        for instance in range(8):
            make_job(
                alias,
                handler_type="tests.sync_step" if number == 2 else "tests.step",
                handler_configuration={"args": [instance, number], "kwargs": {}},
                process_instance_id=f"order-{instance}",
            )
    executor = start()
    until(lambda: executor.idle and all_gone(alias))
    assert [[number for instance, number in seen if instance == each] for each in range(8)] == [[0, 1, 2, 3, 4]] * 8
    assert executor.pool.done == 40
    assert JobLog.objects.using(alias).filter(state="successful").count() == 40
    until(lambda: not ExclusiveLock.objects.using(alias).exists())


@pytest.mark.gate
@pytest.mark.every_database
def test_no_more_at_once_than_their_resource_allows(alias, make_executor, handle, gate):
    async def other():
        pass

    handle(other, name="tests.other")
    executor = make_executor(quick, RESOURCES={"pay.example": {"limit": 2}})
    for _ in range(6):
        make_job(alias, handler_type="tests.wait", resource="pay.example")
    executor.start()
    until(lambda: gate.now == 2)
    other = make_job(alias, handler_type="tests.other")
    until(lambda: not Job.objects.using(alias).filter(pk=other.pk).exists())
    until(lambda: executor.pool.async_jobs == 2)
    assert (gate.now, BlockedJob.objects.using(alias).count()) == (2, 4), "there is room for more"
    gate.open()
    until(lambda: all_gone(alias))
    assert (gate.most, gate.done) == (2, 6)


def test_a_sibling_begins_after_the_outcome_of_the_one_before_it(alias, start, handle):
    left = []

    async def look():
        left.append(await Job.objects.using(alias).acount())

    handle(look, name="tests.look")
    for _ in range(3):
        make_job(alias, handler_type="tests.look", process_instance_id="order-1")
    executor = start()
    until(lambda: executor.idle and all_gone(alias))
    assert left == [3, 2, 1]


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), StopIteration()],
)
def test_whatever_is_raised_costs_one_retry(alias, start, handle, error):
    async def fail():
        await asyncio.sleep(0)
        raise error

    handle(fail, name="tests.fail", retries=NEVER)
    row = make_job(alias, handler_type="tests.fail", retries=2, retry_plan=NEVER)
    executor = start()
    until(lambda: TimerJob.objects.using(alias).exists())
    waiting = TimerJob.objects.using(alias).get()
    assert (waiting.pk, waiting.retries, waiting.attempts) == (row.pk, 1, 1)
    assert type(error).__name__ in waiting.exception_message or "StopIteration" in waiting.exception_message
    assert "in fail" in waiting.exception_stack or isinstance(error, asyncio.CancelledError)
    until(lambda: executor.idle)


def test_the_handler_may_choose_when_to_try_again_or_not_to(alias, start, handle):
    async def fail(error):
        raise RetryIn(3600) if error == "retry" else DoNotRetry("never")

    handle(fail, name="tests.fail", retries=NEVER)
    rows = [
        make_job(alias, handler_type="tests.fail", retries=9, handler_configuration={"args": [error], "kwargs": {}})
        for error in ("retry", "never")
    ]
    executor = start()
    until(lambda: executor.idle and DeadLetterJob.objects.using(alias).exists())
    until(lambda: tables_of(alias) == {rows[0].pk: [TimerJob], rows[1].pk: [DeadLetterJob]})
    wait = TimerJob.objects.using(alias).get().due_date - datetime.now(UTC)
    assert timedelta(minutes=50) < wait < timedelta(minutes=61)


@pytest.mark.gate
def test_one_past_its_timeout_is_cancelled_and_no_thread_is_stuck(alias, start, handle):
    ended = threading.Event()

    async def wait():
        try:
            await asyncio.sleep(TIMEOUT)
        finally:
            ended.set()

    handle(wait, name="tests.wait", retries=NEVER)
    row = make_job(alias, handler_type="tests.wait", timeout=SHORT, retry_plan=NEVER, process_instance_id="order-1")
    executor = start(MAX_STUCK_THREADS=0)
    passed(ended)
    until(lambda: TimerJob.objects.using(alias).exists())
    until(lambda: executor.idle and not ExclusiveLock.objects.using(alias).exists())
    waiting = TimerJob.objects.using(alias).get()
    assert (waiting.pk, waiting.attempts) == (row.pk, 1)
    assert waiting.exception_message.startswith("JobTimeout: It ran longer than")
    assert (executor.pool.load()["stuck_threads"], executor.restart_reason) == (0, None)


@pytest.mark.gate
def test_one_that_goes_on_after_its_timeout_counts_once(alias, start, handle, gate):
    cancelled = threading.Event()

    async def stubborn():
        try:
            await asyncio.sleep(TIMEOUT)
        except asyncio.CancelledError:
            cancelled.set()
        await gate.passed()

    handle(stubborn, name="tests.stubborn", retries=NEVER)
    row = make_job(alias, handler_type="tests.stubborn", timeout=SHORT, retry_plan=NEVER, process_instance_id="order-1")
    executor = start(MAX_STUCK_THREADS=0)
    passed(cancelled)
    until(lambda: TimerJob.objects.using(alias).exists())
    sibling = make_job(alias, handler_type="tests.wait", process_instance_id="order-1")
    assert ExclusiveLock.objects.using(alias).exists(), "it still runs"
    until(lambda: gate.now == 1)
    assert executor.restart_reason is None
    gate.open()
    until(lambda: not Job.objects.using(alias).filter(pk=sibling.pk).exists())
    until(lambda: executor.idle)
    assert tables_of(alias) == {row.pk: [TimerJob]}
    assert TimerJob.objects.using(alias).get().attempts == 1


def test_a_running_job_sees_that_it_is_cancelled_and_tells_its_progress(alias, start, handle, monkeypatch):
    monkeypatch.setattr("jobexec.executor.loops.monitor._INTERVAL", 0.02)
    began = threading.Event()

    async def look(context):
        context.progress(3, 7)
        began.set()
        while not context.cancelled:
            await asyncio.sleep(0.01)

    handle(look, name="tests.look", takes_context=True)
    row = make_job(alias, handler_type="tests.look")
    executor = start()
    passed(began)
    until(lambda: JobProgress.objects.using(alias).filter(done=3, total=7).exists())
    cancel(row.pk, using=alias)
    until(lambda: executor.idle and all_gone(alias))
    assert JobLog.objects.using(alias).filter(state="cancelled").count() == 1


def test_who_holds_up_the_loop_is_named(alias, start, handle, monkeypatch, caplog):
    monkeypatch.setattr("jobexec.executor.async_worker.watchdog._HELD_UP", 0.05)
    monkeypatch.setattr("jobexec.executor.async_worker.watchdog._INTERVAL", 0.02)
    said = threading.Event()

    async def block():
        until(lambda: "has blocked the event loop" in caplog.text or None)
        said.set()

    handle(block, name="tests.block")
    for _ in range(2):
        make_job(alias, handler_type="tests.block")
    executor = start()
    passed(said)
    until(lambda: executor.idle)
    warnings = [record.getMessage() for record in caplog.records if "blocked the event loop" in record.getMessage()]
    assert len(warnings) == 1
    assert warnings[0].startswith("tests.block has blocked the event loop for")
    assert "in until" in warnings[0]


class TestStop:
    def test_waits_for_those_that_end_in_time(self, alias, start, gate):
        make_job(alias, handler_type="tests.wait")
        executor = start(GRACE_PERIOD=TIMEOUT)
        until(lambda: gate.now == 1)
        stopping = threading.Thread(target=executor.stop)
        stopping.start()
        until(lambda: executor.shutting_down)
        gate.open()
        stopping.join(TIMEOUT)
        assert (gate.done, all_gone(alias)) == (1, True)
        assert not threads()

    @pytest.mark.gate
    def test_gives_back_those_that_do_not_and_those_that_have_not_begun(self, alias, start, gate, monkeypatch):
        monkeypatch.setattr("jobexec.executor.pool.pool._CANCEL_STOP", TIMEOUT)
        rows = [make_job(alias, handler_type="tests.wait", retries=5) for _ in range(5)]
        executor = start(ASYNC_JOBS=2)
        until(lambda: gate.now == 2 and executor.pool.load()["queued_jobs"])
        assert executor.stop(0.1)
        assert (gate.now, gate.done, gate.most) == (0, 0, 2)
        assert not threads()
        assert not ExecutorNode.objects.using(alias).exists()
        left = Job.objects.using(alias).values_list("pk", "lock_owner", "retries", "attempts", "lost_runs")
        assert set(left) == {(row.pk, None, 5, 0, 0) for row in rows}

    def test_leaves_to_recovery_what_cannot_be_ended(self, alias, start, handle, monkeypatch):
        monkeypatch.setattr("jobexec.executor.pool.pool._CANCEL_STOP", 0.1)
        began, tasks = threading.Event(), []

        async def stubborn():
            tasks.append(asyncio.current_task())
            while True:
                began.set()
                try:
                    await asyncio.sleep(TIMEOUT)
                except asyncio.CancelledError:
                    continue

        handle(stubborn, name="tests.stubborn")
        row = make_job(alias, handler_type="tests.stubborn")
        executor = start()
        passed(began)
        assert not executor.stop(0)
        assert not threads()
        assert Job.objects.using(alias).get(pk=row.pk).lock_owner
        assert ExecutorNode.objects.using(alias).exists()
        # The garbage collector would close it in the middle of another test. Its error is logged with a traceback, for
        # which Python 3.11 parses code; while the other test parses code, too, that raises SystemError there.
        tasks[0].get_coro().close()

    @pytest.mark.gate
    def test_can_be_started_again(self, alias, start, gate):
        make_job(alias, handler_type="tests.wait")
        executor = start()
        until(lambda: gate.now == 1)
        gate.open()
        until(lambda: executor.idle)
        assert executor.stop()
        executor.start()
        gate.renew()
        make_job(alias, handler_type="tests.wait")
        until(lambda: gate.now == 1)
        gate.open()
        until(lambda: executor.idle and all_gone(alias))
        assert executor.stop()
        assert gate.done == 2


def test_the_outcome_of_a_job_that_was_taken_over_does_not_count(alias, start, gate, caplog):
    row = make_job(alias, handler_type="tests.wait")
    executor = start()
    until(lambda: gate.now == 1)
    Job.objects.using(alias).filter(pk=row.pk).update(lock_owner="other:1", revision=99)
    gate.open()
    until(lambda: executor.idle)
    assert tables_of(alias) == {row.pk: [Job]}
    until(lambda: "its lock was lost" in caplog.text)


def test_none_begins_while_the_lease_is_in_doubt(alias, start, gate):
    executor = start(HEARTBEAT_INTERVAL=5, LEASE_TIME=10)
    node = executor.engines[alias].node
    good, node._good_until = node._good_until, 0.0
    assert executor.verdict(_work(alias, node.owner)) is None
    assert executor.verdict(_work(alias, "before:1")) is False
    node._good_until = good
    assert executor.verdict(_work(alias, node.owner)) is True
    executor.shutting_down = True
    assert executor.verdict(_work(alias, node.owner)) is False


def _work(alias, owner):
    return SimpleNamespace(using=alias, lock_owner=owner, resource=None)


class TestThreads:
    """Who does not run on the loop."""

    @pytest.fixture
    def where(self, handle):
        """The names of the threads in which `tests.where` and `tests.hidden` ran."""
        names = []

        async def where():
            names.append(threading.current_thread().name)

        @wraps(where)
        def hidden():
            return where()

        handle(where, name="tests.where")
        handle(hidden, name="tests.hidden")
        return names

    def test_an_ordinary_one_does(self, alias, start, where):
        make_job(alias, handler_type="tests.where")
        executor = start()
        until(lambda: executor.idle and all_gone(alias))
        assert where == ["jobexec-async"]

    @pytest.mark.parametrize(
        ("columns", "keys"),
        [
            ({"handler_type": "tests.where", "atomic": True}, {}),
            ({"handler_type": "tests.where", "lost_runs": 2}, {}),
            ({"handler_type": "tests.hidden"}, {}),
            ({"handler_type": "tests.where"}, {"ASYNC_JOBS": 0}),
        ],
    )
    def test_others_have_a_thread_of_their_own(self, alias, start, where, columns, keys):
        row = make_job(alias, **{key: value for key, value in columns.items() if key != "lost_runs"})
        Job.objects.using(alias).filter(pk=row.pk).update(lost_runs=columns.get("lost_runs", 0))
        executor = start(**keys)
        until(lambda: executor.idle and all_gone(alias))
        assert len(where) == 1
        assert where != ["jobexec-async"]
        assert not threads("jobexec-async")

    def test_one_that_must_run_alone_waits_for_the_lane_and_the_lane_for_it(self, alias, start, handle, gate):
        seen = []
        handle(lambda: seen.append((gate.now, gate.done)), name="tests.alone")
        row = make_job(alias, handler_type="tests.alone")
        Job.objects.using(alias).filter(pk=row.pk).update(lost_runs=2)
        make_job(alias, handler_type="tests.wait")
        executor = start()
        until(lambda: gate.now == 1 and executor.pool._queue.lone is not None)
        make_job(alias, handler_type="tests.wait")
        assert seen == []
        gate.open()
        until(lambda: executor.idle and all_gone(alias))
        assert seen == [(0, 1)]


class TestLimit:
    def test_no_more_than_async_jobs_at_once_and_threads_go_on_beside_them(self, alias, start, handle, gate):
        done = []
        handle(lambda: done.append(1), name="tests.note")
        for _ in range(6):
            make_job(alias, handler_type="tests.wait")
        make_job(alias, handler_type="tests.note")
        executor = start(ASYNC_JOBS=3)
        until(lambda: gate.now == 3 and done)
        gate.open()
        until(lambda: executor.idle and all_gone(alias))
        assert (gate.most, gate.done) == (3, 6)

    @pytest.mark.gate
    def test_they_come_although_all_threads_are_busy(self, alias, start, handle, gate):
        go = threading.Event()
        handle(lambda: go.wait(TIMEOUT), name="tests.hold")
        for _ in range(2):
            make_job(alias, handler_type="tests.hold")
        executor = start(THREADS=2, ASYNC_JOBS=500)
        until(lambda: executor.pool.load()["busy_threads"] == 2)
        for _ in range(200):
            make_job(alias, handler_type="tests.wait")
        until(lambda: gate.now == 200)
        go.set()

    @pytest.mark.gate
    def test_they_come_although_all_threads_are_busy_and_jobs_are_known_to_take_long(self, alias, start, handle, gate):
        go, held = threading.Event(), []
        handle(lambda: held.append(1) or go.wait(TIMEOUT), name="tests.hold")
        executor = start(pace=100.0, THREADS=2, ASYNC_JOBS=500)
        for _ in range(2):
            make_job(alias, handler_type="tests.hold")
        until(lambda: executor.pool.load()["busy_threads"] == 2)
        for _ in range(200):
            make_job(alias, handler_type="tests.wait")
        until(lambda: gate.now == 200)
        go.set()

    def test_one_that_is_tried_and_needs_a_thread_is_given_back(self, alias, start, handle, gate):
        go = threading.Event()
        handle(lambda: go.wait(TIMEOUT), name="tests.hold")
        executor = start(pace=100.0, THREADS=1, ASYNC_JOBS=500)
        boarding, tries = executor.pool._queue.admission, []
        may_try = boarding.may_try
        boarding.may_try = lambda using: may_try(using) and not tries.append(using)
        for _ in range(3):
            make_job(alias, handler_type="tests.hold")
        until(lambda: tries and executor.pool.load()["busy_threads"])
        until(lambda: Job.objects.using(alias).exclude(lock_owner=None).count() == 1)
        assert executor.pool.load()["queued_jobs"] == 0
        go.set()
        until(lambda: executor.idle and all_gone(alias))


class TestContext:
    def test_each_job_has_its_own(self, alias, start, handle):
        variable, seen = contextvars.ContextVar("variable", default="fresh"), []

        async def change(number):
            seen.append(variable.get())
            variable.set("changed")
            await asyncio.sleep(0)

        handle(change, name="tests.change")
        for number in range(3):
            make_job(alias, handler_type="tests.change", handler_configuration={"args": [number], "kwargs": {}})
        executor = start()
        until(lambda: executor.idle and all_gone(alias))
        assert seen == ["fresh"] * 3


class TestDatabase:
    def test_all_calls_of_a_job_go_to_one_of_few_threads(self, alias, start, handle):
        seen = []

        async def use(number):
            one = await sync_to_async(lambda: threading.current_thread().name)()
            await Job.objects.using(alias).acount()
            seen.append((one, await sync_to_async(lambda: threading.current_thread().name)()))

        handle(use, name="tests.use")
        for number in range(20):
            make_job(alias, handler_type="tests.use", handler_configuration={"args": [number], "kwargs": {}})
        executor = start(ASYNC_THREADS=3)
        until(lambda: executor.idle and all_gone(alias))
        assert {one for one, _ in seen} == {f"jobexec-async-orm-{number}" for number in (1, 2, 3)}
        assert all(one == other for one, other in seen)
        assert executor.stop()
        assert not threads()

    def test_long_arguments_are_fetched(self, alias, start, handle):
        seen = []

        async def use(text):
            seen.append(len(text))

        handle(use, name="tests.use")
        make_job(alias, handler_type="tests.use", handler_configuration={"args": ["x" * (LONG + 1)], "kwargs": {}})
        executor = start()
        until(lambda: executor.idle and all_gone(alias))
        assert seen == [LONG + 1]

    @pytest.mark.gate
    def test_a_transaction_left_open_fails_that_job_and_no_other(self, alias, start, handle, gate):
        left = threading.Event()

        async def leave():
            block = transaction.atomic(using=alias)
            try:
                await sync_to_async(block.__enter__)()
            finally:
                left.set()

        async def write():
            await gate.passed()
            await Group.objects.using(alias).acreate(name="written")

        handle(leave, name="tests.leave", retries=NEVER)
        handle(write, name="tests.write")
        make_job(alias, handler_type="tests.write")
        row = make_job(alias, handler_type="tests.leave", retry_plan=NEVER)
        executor = start(ASYNC_THREADS=1)
        passed(left)
        until(lambda: TimerJob.objects.using(alias).exists())
        gate.open()
        until(lambda: executor.idle)
        assert tables_of(alias) == {row.pk: [TimerJob]}
        assert Group.objects.using(alias).filter(name="written").exists()
        message = TimerJob.objects.using(alias).get().exception_message
        assert f"left a transaction open on {alias}" in message

    @pytest.mark.gate
    def test_a_connection_that_broke_is_replaced(self, alias, start, handle):
        """As after a restart of the server: the job that meets it fails, and the next one does not."""
        results = []

        def break_it():
            connections[alias].ensure_connection()
            connections[alias].connection.close()

        async def use(number):
            if number == 0:
                await sync_to_async(break_it)()
            try:
                results.append(await Job.objects.using(alias).acount() >= 0)
            except Exception as error:
                results.append(type(error).__name__)

        handle(use, name="tests.use")
        for number in range(3):
            make_job(
                alias,
                handler_type="tests.use",
                handler_configuration={"args": [number], "kwargs": {}},
                process_instance_id="order-1",
            )
        executor = start(ASYNC_THREADS=1)
        until(lambda: executor.idle and all_gone(alias))
        assert results == [True, True, True]


def test_its_end_is_announced_as_any_other(alias, start, handle):
    heard = []

    def hear(jobs, **kwargs):
        heard.extend(job.handler_type for job in jobs)

    async def nothing():
        pass

    handle(nothing, name="tests.nothing")
    signals.job_completed.connect(hear)
    try:
        make_job(alias, handler_type="tests.nothing")
        executor = start()
        until(lambda: executor.idle and heard)
    finally:
        signals.job_completed.disconnect(hear)
    assert heard == ["tests.nothing"]
