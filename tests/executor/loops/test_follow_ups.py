"""Jobs that handlers enqueue stay with their node: inserted locked, handed to the pool after the commit."""

import contextvars
import faulthandler
import os
import threading
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError, connections, transaction

from jobexec import signals
from jobexec.executor.loops import follow_ups
from jobexec.executor.loops.acquisition import JobAcquisition
from jobexec.executor.loops.follow_ups import FollowUps
from jobexec.handlers.context import current_job
from jobexec.models import BlockedJob, ExclusiveLock, Job, JobLog, SuspendedJob, TimerJob
from jobexec.operations import cancel, publish_message, suspend
from jobexec.operations.notify import wake
from jobexec.operations.settle.recover import release_strays
from jobexec.operations.values.followers import MOST
from tests.support.executor import all_gone
from tests.support.factories import make_job
from tests.support.waiting import TIMEOUT, passed, until

pytestmark = pytest.mark.transactional

#: A job that must wait for a look at the table would be seen to run too late, or not at all.
SELDOM = {"WAIT_TIME": 60, "MAX_WAIT": 60, "MAX_WAIT_WHEN_LISTENING": 60}
every_database = pytest.mark.every_database


def note(alias, name, *arguments, **columns):
    """A job of the handler `tests.<name>`."""
    configuration = {"args": list(arguments), "kwargs": {}}
    return make_job(alias, handler_type=f"tests.{name}", handler_configuration=configuration, **columns)


class Node:
    """An executor that has seen that its table is empty."""

    def __init__(self, alias, executor):
        self.alias, self.executor, self.engine = alias, executor, executor.engines[alias]
        executor.start()
        self.wait()

    @property
    def home(self):
        return self.engine.follow_ups

    def wait(self):
        """Until it has looked at the table for the last time."""
        until(lambda: all(loop.succeeded_at for loop in self.engine._loops if loop is not self.engine._listener))
        until(lambda: all(each.sees_the_end for each in self.engine.acquisitions.values()))

    def begin(self, name, *arguments, **columns):
        """Enqueue a job as another process does."""
        wake.remove_listener(self.engine.hear)  # it would be followed by the notification, and so by another look
        row = note(self.alias, name, *arguments, **columns)
        wake.add_listener(self.engine.hear)
        if not self.engine._hears_of_jobs():
            self.engine._look()
        return row

    def run(self, name, *arguments, **columns):
        """Enqueue a job, and wait until it and all that it leads to have ended."""
        self.begin(name, *arguments, **columns)
        until(lambda: all_gone(self.alias))
        until(lambda: self.executor.idle)
        assert self.home is None or self.home.jobs() == []
        assert not ExclusiveLock.objects.using(self.alias).exists()


@pytest.fixture
def node(alias, make_executor):
    """A function that starts an executor."""

    def make(**keys):
        # With a small queue, a round of the acquisition may reserve all places while a follow-up arrives.
        return Node(alias, make_executor(SELDOM, **{"QUEUE_SIZE": 200} | keys))

    return make


@pytest.fixture
def enqueued(alias, handle):
    """What a handler `tests.parent` enqueues: set `do`; `seen` are the arguments of the jobs `tests.child` that ran."""

    class Enqueued:
        def __init__(self):
            self.seen, self.held, self.do = [], [], lambda: self.child()

        def child(self, *arguments, **columns):
            row = note(alias, "child", *arguments or (0,), **columns)
            self.held.append(row.lock_owner is not None)
            return row

        def wait_for_acquisition(self):
            """Until it has looked at the table, which may need a thread for what it finds, and knows its end."""
            found = current_job().host.engines[alias].acquisitions.values()
            until(lambda: all(each.sees_the_end and not each.expects_jobs for each in found))

    enqueued = Enqueued()

    def parent():
        enqueued.wait_for_acquisition()
        enqueued.do()

    handle(parent, name="tests.parent")
    handle(enqueued.seen.append, name="tests.child")
    return enqueued


class TestAChain:
    @pytest.mark.gate
    @every_database
    def test_ten_in_a_row_stay(self, alias, node, handle):
        seen = []

        def step(number):
            seen.append((number, current_job().work.followers is not None))
            if number < MOST:
                note(alias, "step", number + 1)

        handle(step, name="tests.step")
        node().run("step", 0)
        assert seen == [(number, number > 0) for number in range(MOST + 1)]

    def test_the_next_one_is_acquired(self, alias, node, handle):
        held = []

        def step(number):
            if number:
                held.append(note(alias, "step", number - 1).lock_owner is not None)

        handle(step, name="tests.step")
        node().run("step", MOST + 1)
        assert held == [True] * MOST + [False]

    @pytest.mark.gate
    def test_also_of_one_process_instance(self, alias, node, handle):
        seen, running = [], []

        def step(number):
            assert not running, "an exclusive job begins after the one before it"
            running.append(number)
            if number < 5:
                row = note(alias, "step", number + 1, process_instance_id="order-1")
                seen.append(row.lock_owner is not None)
            running.pop()

        handle(step, name="tests.step")
        node(THREADS=1).run("step", 0, process_instance_id="order-1")
        assert seen == [True] * 5

    @pytest.mark.gate
    def test_the_meter_counts_them_and_the_signal_tells_of_them(self, alias, node, enqueued):
        told = []

        def hear(jobs, **others):
            told.extend(job.handler_type for job in jobs)

        signals.job_acquired.connect(hear)
        try:
            started = node()
            started.run("parent")
        finally:
            signals.job_acquired.disconnect(hear)
        assert told == ["tests.parent", "tests.child"]
        assert started.engine.node.meters.take().counts["job-followed-up", ""] == 1


class TestTransactions:
    @every_database
    @pytest.mark.parametrize("atomic", [False, True])
    def test_what_is_committed_runs(self, alias, node, enqueued, atomic):
        def do():
            with transaction.atomic(alias):
                enqueued.child(1)
                enqueued.child(2)
                assert enqueued.seen == []

        enqueued.do = do
        node().run("parent", atomic=atomic)
        assert sorted(enqueued.seen) == [1, 2]
        assert enqueued.held == [True, True]

    @every_database
    @pytest.mark.parametrize("instance", ["", "order-1"])
    def test_what_is_rolled_back_does_not(self, alias, node, enqueued, instance):
        def do():
            with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
                enqueued.child(1, process_instance_id=instance)
                raise ZeroDivisionError

        enqueued.do = do
        node().run("parent", process_instance_id=instance)
        assert (enqueued.seen, enqueued.held) == ([], [True])

    @pytest.mark.gate
    def test_an_atomic_job_that_fails_has_enqueued_nothing(self, alias, node, enqueued):
        def do():
            enqueued.child(1)
            raise ValueError("no")

        enqueued.do = do
        node().begin("parent", atomic=True)
        until(lambda: TimerJob.objects.using(alias).exists())
        assert not Job.objects.using(alias).exists()
        assert (enqueued.seen, enqueued.held) == ([], [True])

    @every_database
    def test_a_savepoint_that_is_rolled_back_takes_only_its_own_jobs_with_it(self, alias, node, enqueued):
        def do():
            with transaction.atomic(alias):
                enqueued.child(1)
                with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
                    enqueued.child(2)
                    raise ZeroDivisionError

        enqueued.do = do
        node().run("parent")
        assert enqueued.seen == [1]

    @every_database
    def test_a_job_that_the_transaction_deletes_or_cancels_never_runs(self, alias, node, enqueued):
        def do():
            with transaction.atomic(alias):
                Job.objects.using(alias).filter(pk=enqueued.child(1).pk).delete()
                cancel(enqueued.child(2).pk, using=alias)
                enqueued.child(3)

        enqueued.do = do
        node().run("parent")
        assert (enqueued.seen, enqueued.held) == ([3], [True] * 3)

    @every_database
    @pytest.mark.parametrize("instance", ["", "order-1"])
    def test_a_hook_that_fails_before_ours_costs_nothing_but_the_short_way(self, alias, node, enqueued, instance):
        def do():
            def fail():
                raise ValueError("a hook of the project")

            with pytest.raises(ValueError, match="a hook"), transaction.atomic(alias):
                transaction.on_commit(fail, using=alias)
                enqueued.child(1, process_instance_id=instance)

        enqueued.do = do
        node().run("parent", process_instance_id=instance)
        assert (enqueued.seen, enqueued.held) == ([1], [True])

    def test_an_open_transaction_does_not_look_like_a_stray(self, alias, node, enqueued, monkeypatch):
        entered, go = threading.Event(), threading.Event()
        arrive = FollowUps.arrive

        def late(self, followers, jobs):
            entered.set()
            passed(go)
            arrive(self, followers, jobs)

        monkeypatch.setattr(FollowUps, "arrive", late)
        started = node()
        started.begin("parent")
        passed(entered)
        assert release_strays(alias, started.engine.node.owner, started.engine._in_hand) == 0
        go.set()
        until(lambda: all_gone(alias))
        assert enqueued.seen == [0]


class TestWhatDoesNotStay:
    """Jobs that acquisition must look at, or that nobody here runs."""

    @pytest.mark.gate
    @pytest.mark.parametrize(
        "columns",
        [
            {"due_date": timedelta(hours=1)},
            {"resource": "pay.example"},
            {"waits_for": "approved", "waits_for_key": "4711"},
            {"category": "elsewhere"},
            {"deployment_id": "elsewhere"},
            {"priority": 5},
            {"tenant_id": "acme"},
            {"process_instance_id": "order-2"},
        ],
        ids=lambda columns: next(iter(columns)),
    )
    def test_by_its_columns(self, alias, make_executor, enqueued, columns):
        resources = {"pay.example": {"limit": 1}}
        engine = {**SELDOM, "PRIORITY_RANGE": (None, 4), "DEPLOYMENT_AWARE": True}
        more = {"CATEGORIES": ["default", "elsewhere"], "RESOURCES": resources, "TENANT_CONCURRENCY": 5}
        executor = make_executor(engine, **more)
        home = executor.engines[alias].follow_ups
        started = Node(alias, executor)
        node = started.engine.node
        node._categories = ("default",)
        node.scope = node._scope()
        done = threading.Event()

        def do():
            given = dict(columns)
            if "due_date" in given:
                given["due_date"] += current_job().started_at
            enqueued.child(1)
            enqueued.child(2, **given)
            done.set()

        enqueued.do = do
        started.begin("parent", process_instance_id="order-1")
        passed(done)
        assert enqueued.held == [True, False]
        until(lambda: home.jobs() == [])

    def test_a_unique_job(self, alias, node, handle, enqueued):
        child = handle(enqueued.seen.append, name="tests.unique", unique=True, database=alias)
        many = handle(enqueued.seen.append, name="tests.uniques", unique=True, database=alias)

        def do():
            with transaction.atomic(alias):
                rows = [child.enqueue(1), *many.enqueue_many([(2,), (3,)])]
                enqueued.held.extend(row.lock_owner for row in rows)

        enqueued.do = do
        node().run("parent")
        assert (sorted(enqueued.seen), enqueued.held) == ([1, 2, 3], [None] * 3)

    def test_when_the_setting_is_off(self, node, enqueued):
        node(FOLLOW_UPS=False).run("parent")
        assert (enqueued.seen, enqueued.held) == ([0], [False])

    def test_while_other_jobs_may_wait_in_the_table(self, alias, node, enqueued):
        started = node()

        def do():
            started.engine.acquisitions[alias].sees_the_end = False
            enqueued.child()

        enqueued.do = do
        started.run("parent")
        assert (enqueued.seen, enqueued.held) == ([0], [False])

    @pytest.mark.parametrize(("threads", "held"), [(2, False), (3, True)])
    def test_on_the_thread_that_an_announced_job_may_need(self, alias, node, enqueued, threads, held):
        started = node(THREADS=threads)

        def do():
            with started.engine.node.acquiring:  # it cannot look
                started.engine.acquisitions[alias].wake()
                enqueued.child()

        enqueued.do = do
        started.run("parent")
        assert (enqueued.seen, enqueued.held) == ([0], [held])

    @pytest.mark.gate
    def test_beyond_the_idle_threads(self, alias, node, handle, enqueued):
        began, go = threading.Barrier(4), threading.Event()

        def child(number):
            began.wait(TIMEOUT)
            passed(go)

        handle(child, name="tests.slow")

        def do():
            for number in range(5):
                if number < 3:
                    enqueued.wait_for_acquisition()
                enqueued.held.append(note(alias, "slow", number).lock_owner is not None)
            began.wait(TIMEOUT)
            go.set()

        enqueued.do = do
        started = node(THREADS=4)
        started.begin("parent")
        passed(go)
        assert enqueued.held[:3] == [True] * 3
        assert enqueued.held[4] is False, "of four threads one runs the handler that enqueues"
        began.reset()
        began.abort()

    def test_on_one_thread_that_its_own_handler_keeps(self, node, enqueued):
        node(THREADS=1).run("parent")
        assert (enqueued.seen, enqueued.held) == ([0], [False])

    @pytest.mark.gate
    @every_database
    def test_while_a_suspension_is_in_force(self, alias, node, enqueued):
        suspend(process_definition_key="invoice", using=alias)
        row = []

        def do():
            row.append(enqueued.child(1, process_definition_key="invoice"))
            enqueued.child(2)

        enqueued.do = do
        started = node()
        started.begin("parent")
        until(lambda: SuspendedJob.objects.using(alias).exists() and enqueued.seen == [2])
        until(lambda: started.executor.idle)
        assert SuspendedJob.objects.using(alias).get().pk == row[0].pk
        assert enqueued.held == [True, False], "after the first one was sent back, the node asks no more"

    def test_of_a_handler_past_its_timeout(self, alias, node, enqueued):
        def do():
            current_job().timed_out = True
            enqueued.child()
            current_job().timed_out = False

        enqueued.do = do
        node().run("parent")
        assert (enqueued.seen, enqueued.held) == ([0], [False])

    @pytest.mark.gate
    @pytest.mark.databases("postgresql", "mariadb")
    @pytest.mark.every_database
    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    @pytest.mark.parametrize("instance", ["", "order-1"])
    def test_of_a_process_that_the_handler_forks(self, alias, make_executor, enqueued, instance):
        """Its copy of the pool has no threads, and stays locked if another thread was just asking the pool."""
        inherited, exit_codes = [], []

        def in_child():
            faulthandler.dump_traceback_later(TIMEOUT / 4, exit=True)
            try:
                inherited.append(connections[alias])  # closing it would end the parent's session
                del connections[alias]
                enqueued.child(process_instance_id=instance)
                connections[alias].close()
                os._exit(0)
            finally:
                os._exit(1)

        def do():
            asks, forked = threading.Event(), threading.Event()

            def ask():
                with current_job().host.pool._queue.changed:
                    asks.set()
                    forked.wait(TIMEOUT)

            asking = threading.Thread(target=contextvars.copy_context().run, args=(ask,))
            asking.start()
            asks.wait(TIMEOUT)
            child = os.fork()  # as multiprocessing does on Linux
            if not child:
                in_child()
            forked.set()
            asking.join(TIMEOUT)
            exit_codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

        enqueued.do = do
        # Nobody tells this process of a job of another one where the database cannot notify.
        executor = make_executor({"WAIT_TIME": 0.1, "MAX_WAIT": 0.1})
        Node(alias, executor).run("parent", process_instance_id=instance)
        assert (enqueued.seen, exit_codes) == ([0], [0])

    def test_what_another_database_is_for(self, alias, node, enqueued):
        started = node()
        asked = []

        def do():
            columns = {"handler_type": "tests.child"}
            asked.extend(started.executor.hold(current_job(), each, columns, 1) for each in (alias, "another"))

        enqueued.do = do
        started.run("parent")
        assert [hold is not None for hold in asked] == [True, False]


class TestManyAtOnce:
    @every_database
    @pytest.mark.parametrize("looks", [False, True])
    def test_the_first_ones_stay(self, alias, node, handle, enqueued, monkeypatch, looks):
        """Of four threads one runs the parent, and one is left to what the acquisition finds if it looks just now."""
        child = handle(enqueued.seen.append, name="tests.many", database=alias)
        rows = []

        def do():
            with monkeypatch.context() as patch:  # it may look at any time, also by chance
                patch.setattr(JobAcquisition, "expects_jobs", looks)
                rows.extend(child.enqueue_many([(number,) for number in range(20)]))

        enqueued.do = do
        node(THREADS=4).run("parent")
        assert sorted(enqueued.seen) == list(range(20))
        stay = 2 if looks else 3
        assert [row.lock_owner is not None for row in rows] == [True] * stay + [False] * (20 - stay)

    def test_page_by_page(self, alias, node, handle, enqueued, monkeypatch):
        monkeypatch.setattr("jobexec.handlers.many.PAGE", 200)
        child = handle(enqueued.seen.append, name="tests.many", database=alias)
        enqueued.do = lambda: child.enqueue_many((number,) for number in range(500))
        node().run("parent")
        assert sorted(enqueued.seen) == list(range(500))


class TestSiblings:
    @pytest.mark.gate
    def test_it_runs_after_those_that_wait_behind_its_parent(self, alias, node, enqueued):
        enqueued.do = lambda: enqueued.child("follow-up", process_instance_id="order-1")
        started = node()
        wake.remove_listener(started.engine.hear)
        with transaction.atomic(alias):
            note(alias, "parent", process_instance_id="order-1")
            note(alias, "child", "sibling", process_instance_id="order-1")
        started.engine._look()
        until(lambda: all_gone(alias))
        assert enqueued.seen == ["sibling", "follow-up"]

    @pytest.mark.gate
    @every_database
    @pytest.mark.parametrize("atomic", [False, True])
    def test_a_sibling_that_came_earlier_goes_first(self, alias, node, enqueued, atomic):
        def do():
            if not enqueued.held:  # as if enqueued by another process, whose notification has not come yet
                context = contextvars.Context()
                home.append(context.run(note, alias, "child", "earlier", process_instance_id="order-1"))
            enqueued.child("follow-up", process_instance_id="order-1")

        home = []
        enqueued.do = do
        started = node()
        listening = wake._listeners.copy()
        wake._listeners.clear()
        try:
            started.run("parent", process_instance_id="order-1", atomic=atomic)
        finally:
            wake._listeners.update(listening)
        assert enqueued.seen == ["earlier", "follow-up"]
        assert home[0].lock_owner is None

    @pytest.mark.gate
    def test_it_begins_when_its_parent_has_failed(self, alias, node, enqueued):
        def do():
            enqueued.child(1, process_instance_id="order-1")
            raise ValueError("no")

        enqueued.do = do
        node().begin("parent", process_instance_id="order-1")
        until(lambda: enqueued.seen == [1] and not Job.objects.using(alias).exists())
        assert enqueued.held == [True]
        assert TimerJob.objects.using(alias).exists()
        entries = JobLog.objects.using(alias).order_by("pk")
        assert list(entries.values_list("state", flat=True)) == ["failed", "successful"]

    @pytest.mark.gate
    def test_of_a_parent_that_lost_its_lock_none_runs_here(self, alias, node, enqueued, handle):
        def do():
            row = note(alias, "grandchild", 1, process_instance_id="order-1")
            enqueued.held.append(row.lock_owner is not None)
            Job.objects.using(alias).filter(handler_type="tests.parent").update(revision=99, lock_owner="another")

        enqueued.do = do
        handle(lambda number: enqueued.seen.append(current_job().work.followers), name="tests.grandchild")
        started = node()
        started.begin("parent", process_instance_id="order-1")
        until(lambda: enqueued.seen and started.executor.idle)
        assert enqueued.seen == [None], "it was released, and acquired"
        assert enqueued.held == [True]


class TestWhatGoesWrong:
    @pytest.mark.parametrize("instance", ["", "order-1"])
    def test_the_database_does_not_answer(self, alias, node, enqueued, monkeypatch, instance):
        def fail(*arguments):
            monkeypatch.undo()
            raise DatabaseError("gone")

        enqueued.do = lambda: enqueued.child(1, process_instance_id=instance)
        started = node()
        monkeypatch.setattr(follow_ups, "committed", fail)
        started.run("parent", process_instance_id=instance)
        assert (enqueued.seen, enqueued.held) == ([1], [True])

    @pytest.mark.gate
    def test_the_pool_is_full_by_then(self, alias, node, enqueued, monkeypatch):
        started = node()
        monkeypatch.setattr(started.executor.pool, "offer", lambda batches, share: batches)
        started.run("parent")
        assert (enqueued.seen, enqueued.held) == ([0], [True])

    @pytest.mark.parametrize("instance", ["", "order-1"])
    def test_the_executor_stops_before_the_commit(self, alias, node, enqueued, instance):
        entered, go = threading.Event(), threading.Event()

        def do():
            with transaction.atomic(alias):
                enqueued.child(1, process_instance_id=instance)
                entered.set()
                passed(go)

        enqueued.do = do
        started = node()
        started.begin("parent", process_instance_id=instance)
        passed(entered)
        stopping = threading.Thread(target=started.executor.stop)
        stopping.start()
        until(lambda: started.executor.shutting_down)
        go.set()
        stopping.join(TIMEOUT)
        row = Job.objects.using(alias).get()
        assert (row.lock_owner, row.lost_runs, row.retries, row.attempts) == (None, 0, 3, 0)
        assert enqueued.seen == []
        assert not ExclusiveLock.objects.using(alias).exists()

    @pytest.mark.gate
    @pytest.mark.databases("postgresql", "mariadb")  # on SQLite nothing else can be written meanwhile
    @pytest.mark.every_database
    @pytest.mark.parametrize("instance", ["", "order-1"])
    def test_the_commit_comes_after_the_run(self, alias, node, enqueued, instance):
        """A thread that the handler has started, in a copy of its context, goes on."""
        inserted, go, threads = threading.Event(), threading.Event(), []

        def late():
            from django.db import connections

            with transaction.atomic(alias):
                enqueued.child(1, process_instance_id=instance)
                inserted.set()
                passed(go)
            enqueued.child(2, process_instance_id=instance)
            connections[alias].close()

        def do():
            context = contextvars.copy_context()
            threads.append(threading.Thread(target=lambda: context.run(late)))
            threads[0].start()
            passed(inserted)

        enqueued.do = do
        started = node()
        started.begin("parent", process_instance_id=instance)
        passed(inserted)
        until(lambda: started.executor.idle and not Job.objects.using(alias).exists())
        go.set()
        threads[0].join(TIMEOUT)
        until(lambda: all_gone(alias))
        assert sorted(enqueued.seen) == [1, 2]
        assert enqueued.held == [True, False]
        assert started.home.jobs() == []


class TestAsyncHandlers:
    @pytest.mark.gate
    @pytest.mark.parametrize("instance", ["", "order-1"])
    def test_a_chain_of_them(self, alias, node, handle, instance):
        seen = []

        async def step(number):
            seen.append((number, current_job().work.followers is not None))
            if number < 3:
                await chain.aenqueue(number + 1)

        chain = handle(step, name="tests.step", database=alias, process_instance_id=instance)
        node(THREADS=1).run("step", 0, process_instance_id=instance)
        assert seen == [(0, False), (1, True), (2, True), (3, True)]

    def test_one_enqueues_a_job_for_a_thread(self, alias, node, handle, enqueued):
        async def parent():
            await sync_to_async(enqueued.child)()

        handle(parent, name="tests.asynchronous")
        node().run("asynchronous")
        assert (enqueued.seen, enqueued.held) == ([0], [True])


class TestPermits:
    @every_database
    def test_promoted_jobs_stay_and_the_limit_holds(self, alias, node, handle):
        running, most, kept = [], [], []

        def run():
            running.append(1)
            most.append(len(running))
            kept.append(Job.objects.using(alias).filter(resource="pay.example").count())
            running.pop()

        handle(run, name="tests.paid")
        started = node(RESOURCES={"pay.example": {"limit": 2}})
        with transaction.atomic(alias):
            for _ in range(8):
                make_job(alias, handler_type="tests.paid", resource="pay.example")
        until(lambda: len(most) == 8 and all_gone(alias))
        assert max(most) <= 2
        assert max(kept) <= 2
        assert started.engine.node.meters.take().counts["job-followed-up", ""] > 0
        assert started.home.jobs() == []

    @every_database
    def test_tiny_ones_stay_beyond_the_idle_threads(self, alias, node, handle):
        seen = []
        handle(seen.append, name="tests.paid")
        started = node(THREADS=1, RESOURCES={"pay.example": {"limit": 50}})
        started.executor.pool._queue.throughput.seconds = 0.00005  # a hundred in 5 ms
        with transaction.atomic(alias):
            for number in range(40):
                note(alias, "paid", number, resource="pay.example")
        until(lambda: len(seen) == 40 and all_gone(alias))
        assert seen == sorted(seen)
        assert started.engine.node.meters.take().counts["job-followed-up", ""] == 40
        assert started.home.jobs() == []

    @pytest.mark.gate
    @every_database
    def test_one_that_waits_for_a_message_gets_none(self, alias, node, handle):
        seen = []
        handle(seen.append, name="tests.paid")
        started = node(RESOURCES={"pay.example": {"limit": 2}})
        with transaction.atomic(alias):
            note(alias, "paid", 1, resource="pay.example", waits_for="approved", waits_for_key="4711")
            note(alias, "paid", 2, resource="pay.example")
        until(lambda: seen == [2] and started.executor.idle)
        assert BlockedJob.objects.using(alias).get().waits_for == "approved"
        publish_message("approved", key="4711", using=alias)
        until(lambda: seen == [2, 1] and all_gone(alias))
        assert started.home.jobs() == []

    @every_database
    def test_a_suspended_one_does_not(self, alias, node, handle):
        seen = []
        handle(seen.append, name="tests.paid")
        suspend(process_definition_key="invoice", using=alias)
        started = node(RESOURCES={"pay.example": {"limit": 2}})
        with transaction.atomic(alias):
            note(alias, "paid", 1, resource="pay.example", process_definition_key="invoice")
            note(alias, "paid", 2, resource="pay.example")
        until(lambda: seen == [2] and SuspendedJob.objects.using(alias).exists())
        until(lambda: started.executor.idle)
        assert started.home.jobs() == []
        assert not BlockedJob.objects.using(alias).exists()

    def test_a_promotion_whose_end_is_not_known_leaves_no_job_behind(self, alias, node, handle, monkeypatch):
        from jobexec.executor.loops import promotion

        real, seen = promotion.promote, []

        def promote(*arguments):
            result = real(*arguments)
            if result.kept:
                monkeypatch.undo()
                raise DatabaseError("the connection was lost after the commit")
            return result

        handle(seen.append, name="tests.paid")
        started = node(RESOURCES={"pay.example": {"limit": 2}})
        monkeypatch.setattr(promotion, "promote", promote)
        note(alias, "paid", 1, resource="pay.example")
        until(lambda: seen == [1] and all_gone(alias))
        assert started.home.jobs() == []
