"""Batches of a project's own jobs: children are counted however they end, the end is seen, calls are made once."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

import jobexec
from jobexec import signals
from jobexec.exceptions import BatchNotFound, BatchOver, BatchSealed, InvalidJob
from jobexec.executor.execute_now import execute_now
from jobexec.models import (
    JOB_TABLES,
    Batch,
    BatchTally,
    BlockedJob,
    DeadLetterJob,
    ExternalWorkerJob,
    Job,
    SuspendedJob,
    TimerJob,
)
from jobexec.operations import (
    activate,
    activate_batch,
    batch_progress,
    cancel,
    cancel_batch,
    clean_up_history,
    delete_batch,
    delete_jobs,
    move_to_dead_letter,
    publish_message,
    recover_node,
    requeue,
    retry_batch,
    seal_batch,
    set_retries,
    suspend,
    suspend_batch,
)
from jobexec.operations.batches.jobs import MONITOR
from jobexec.operations.external import complete_external_job, fail_external_job
from jobexec.testing import ManualExecutor
from tests.support.factories import fetch, make_node

pytestmark = [pytest.mark.transactional, pytest.mark.every_database]

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NO_RETRY = "R1/PT0S"


@pytest.fixture
def run(alias):
    """Run what is due, and what that brings."""
    return lambda: ManualExecutor(using=alias, reraise=False).run_until_empty()


@pytest.fixture
def work(alias, handle):
    """A job that succeeds, or fails for good."""

    def work(number, fails=False):
        if fails and number not in work_again:
            raise ValueError(number)

    work_again = set()
    job = handle(work, database=alias, retries=NO_RETRY)
    job.again = work_again
    return job


@pytest.fixture
def calls(alias, handle):
    """The calls that batches have made, in order: `calls.notify.s("what")`."""

    class Calls(list):
        pass

    found = Calls()

    def notify(context, what):
        found.append((what, context.batch))

    found.notify = handle(notify, database=alias)
    found.made = lambda: [what for what, _ in found]
    return found


@pytest.fixture
def begin(alias, calls):
    """Begin a batch that tells of its success and of its failure."""

    def begin(**options):
        both = {"on_success": calls.notify.s("success"), "on_failure": calls.notify.s("failure")}
        return jobexec.batch(**{**both, "using": alias, **options})

    return begin


def rest(alias):
    """What is left of jobs, by table and handler."""
    return {
        (table._meta.model_name, name)
        for table in JOB_TABLES
        for name in table._base_manager.using(alias).values_list("handler_type", flat=True)
    }


class TestChildrenThatWait:
    @pytest.mark.parametrize("encrypted", [False, True])
    def test_for_messages_of_their_own(self, alias, work, begin, calls, run, settings, encrypted):
        settings.JOBEXEC = {**settings.JOBEXEC, "ENCRYPTION_KEYS": {"2026": lambda: b"k" * 32}}
        job = work.using(wait_for=lambda number: ("paid", number) if number else None, encrypted=encrypted)
        with begin() as batch:
            assert isinstance(batch.add(job.s(1)), BlockedJob)
            assert isinstance(batch.add(job.s(0)), Job)
            assert batch.add_many(job.s(number) for number in (2, 0, 3)) == 3
        run()
        assert batch.progress() == (5, 2, 0, 0, 3)
        waiting = BlockedJob.objects.using(alias)
        assert sorted(waiting.values_list("waits_for_key", flat=True)) == ["1", "2", "3"]
        for number in (1, 2):
            publish_message("paid", key=number, using=alias)
        run()
        assert (batch.state, calls.made()) == ("running", [])
        publish_message("paid", key=3, using=alias)
        run()
        assert (batch.state, calls.made()) == ("completed", ["success"])


class TestTheEnd:
    def test_all_succeed(self, alias, work, begin, calls, run, frozen):
        with begin(name="invoices") as batch:
            assert batch.state == "open"
            assert batch.add_many(work.s(number) for number in range(5)) == 5
            batch.add(work.s(5))
            assert batch.progress() == (6, 0, 0, 0, 6) and batch.progress().percent == 0
        assert batch.state == "running" and calls.made() == []
        frozen.tick(1)
        run()
        assert (batch.state, batch.row.end_time) == ("completed", NOW + timedelta(seconds=1))
        assert batch.progress() == (6, 6, 0, 0, 0) and batch.progress().percent == 100
        assert list(calls) == [("success", batch)]
        assert rest(alias) == set() and not BatchTally.objects.using(alias).exists()
        assert str(batch.row) == f"invoices {batch.id}"

    def test_the_end_comes_without_waiting_for_the_monitors_date(self, alias, work, begin, calls, run):
        """No time passes in this test: the last outcome wakes the monitor."""
        with begin() as batch:
            batch.add(work.s(1))
        monitor = TimerJob.objects.using(alias).get(handler_type=MONITOR)
        assert monitor.due_date > NOW
        run()
        assert batch.state == "completed"

    def test_a_wake_up_that_is_lost_costs_only_time(self, alias, work, begin, calls, run, frozen, monkeypatch):
        from jobexec.operations.rows import tallies

        with begin() as batch:
            batch.add(work.s(1))
        monkeypatch.setattr(tallies, "look", lambda *told: None)
        run()
        assert batch.progress().open == 0 and batch.state == "running"
        frozen.tick(60)
        run()
        assert batch.state == "completed" and calls.made() == ["success"]

    def test_the_recovery_of_a_dead_node_looks(self, alias, work, begin, calls, run, monkeypatch):
        """The process may have been killed between the last commit and its look."""
        from jobexec.operations.rows import tallies

        with begin() as batch:
            batch.add(work.s(1))
        monkeypatch.setattr(tallies, "look", lambda *told: None)
        run()
        assert batch.state == "running"
        recover_node(alias, make_node(alias))
        run()
        assert batch.state == "completed" and calls.made() == ["success"]

    def test_one_fails(self, alias, work, begin, calls, run):
        with begin() as batch:
            batch.add_many([work.s(1), work.s(2, fails=True), work.s(3)])
        run()
        assert batch.state == "failed" and batch.progress() == (3, 2, 1, 0, 0)
        assert calls.made() == ["failure"]

    def test_an_error_in_its_block_is_raised_even_if_it_is_over_or_gone(self, begin, frozen, run):
        for end in (lambda batch: run(), lambda batch: delete_batch(batch.id, using=batch.using)):
            with pytest.raises(ZeroDivisionError), begin(deadline=timedelta(minutes=1)) as batch:
                frozen.tick(60)
                end(batch)
                raise ZeroDivisionError

    def test_no_children(self, begin, calls, run):
        with begin() as batch:
            pass
        run()
        assert batch.state == "completed" and calls.made() == ["success"]

    def test_it_is_not_over_while_it_is_open(self, work, begin, calls, run, frozen):
        batch = begin()
        batch.add(work.s(1))
        run()
        frozen.tick(4000)
        run()
        assert batch.state == "open" and calls == []
        batch.seal()
        batch.seal()
        run()
        assert batch.state == "completed" and calls.made() == ["success"]

    def test_calls_are_optional(self, alias, work, run):
        with jobexec.batch(using=alias) as batch:
            batch.add(work.s(1))
        run()
        assert batch.state == "completed" and rest(alias) == set()

    def test_a_signal(self, alias, work, begin, run):
        told = []
        signals.batch_ended.connect(receiver := lambda batch, using, **_: told.append((batch.pk, batch.state, using)))
        with begin() as batch:
            batch.add(work.s(1))
        with begin() as other:
            pass
        other.cancel()
        run()
        del receiver
        assert told == [(other.id, "cancelled", alias), (batch.id, "completed", alias)]

    def test_many_tallies_wake_the_monitor_before_the_end(self, alias, work, begin, run, monkeypatch):
        from jobexec.operations.rows import tallies

        monkeypatch.setattr(tallies, "MANY", 3)
        batch = begin()
        for number in range(5):
            batch.add(work.s(number))
        run()
        assert BatchTally.objects.using(alias).filter(batch_id=batch.id).count() < 3
        assert batch.progress() == (5, 5, 0, 0, 0)

    def test_the_monitor_comes_before_the_children(self, alias, work, begin, monkeypatch, frozen):
        """Otherwise a deadline, a condition and the rows to add up would wait behind a million jobs."""
        from jobexec.operations.rows import tallies

        monkeypatch.setattr(tallies, "MANY", 3)
        with begin() as batch:
            frozen.tick(1)
            batch.add_many(work.s(number) for number in range(9))
        frozen.tick(100)
        executor = ManualExecutor(using=alias, reraise=False)
        for _ in range(5):
            executor.run_next()
        assert batch.row.changed, "it has added rows up while children wait"
        assert Job.objects.using(alias).filter(handler_type="tests.work").exists()


class TestEveryEnd:
    def test_cancelled_while_it_waits(self, alias, work, begin, calls, run):
        with begin() as batch:
            rows = [batch.add(work.s(number)) for number in range(3)]
        cancel(rows[0], using=alias)
        delete_jobs(rows[1].pk, using=alias)
        assert batch.progress() == (3, 0, 0, 2, 1)
        run()
        assert batch.state == "failed" and batch.progress() == (3, 1, 0, 2, 0) and calls.made() == ["failure"]

    def test_cancelled_while_it_runs(self, alias, handle, begin, run):
        def stop(context):
            cancel(context.id, using=alias)
            raise ValueError

        with begin() as batch:
            batch.add(handle(stop, database=alias).s())
        run()
        assert batch.progress() == (1, 0, 0, 1, 0)

    def test_expired(self, work, begin, run, frozen):
        with begin() as batch:
            batch.add(work.using(expires=10).s(1))
        frozen.tick(11)
        run()
        assert batch.progress() == (1, 0, 0, 1, 0) and batch.state == "failed"

    def test_retried_and_then_done(self, alias, handle, begin, run, frozen):
        tried = []

        def flaky():
            tried.append(1)
            if len(tried) < 3:
                raise ValueError

        with begin() as batch:
            batch.add(handle(flaky, database=alias, retries="R5/PT10S").s())
        for _ in range(3):
            run()
            assert batch.progress().failed == 0
            frozen.tick(11)
        assert batch.progress() == (1, 1, 0, 0, 0) and batch.state == "completed"

    def test_dead_by_hand_and_deleted(self, alias, work, begin, run):
        with begin() as batch:
            rows = [batch.add(work.s(number)) for number in range(3)]
        move_to_dead_letter([row.pk for row in rows], using=alias)
        assert batch.progress() == (3, 0, 3, 0, 0)
        delete_jobs([rows[0].pk], using=alias)
        assert batch.progress() == (3, 0, 2, 1, 0)
        delete_jobs([row.pk for row in rows[1:]], using=alias)
        assert batch.progress() == (3, 0, 0, 3, 0)

    def test_timers_suspended_and_blocked_children_are_open(self, alias, work, begin, configure, run, frozen):
        configure(RESOURCES={"printer": {"limit": 1}})
        with begin() as batch:
            later = batch.add(work.using(delay=60).s(1))
            held = batch.add(work.s(2))
            batch.add(work.using(resource="printer").s(3))
        suspend(held.pk, using=alias)
        where = {table: table._base_manager.using(alias).filter(batch_id=batch.id) for table in JOB_TABLES}
        assert where[BlockedJob].exists() and where[SuspendedJob].exists() and where[TimerJob].filter(pk=later.pk)
        assert batch.progress().open == 3
        frozen.tick(61)
        run()
        assert batch.progress() == (3, 2, 0, 0, 1) and batch.state == "running"
        activate(held.pk, using=alias)
        run()
        assert batch.state == "completed"

    def test_execute_now(self, alias, work, begin, run):
        with begin() as batch:
            good, bad = batch.add(work.s(1)), batch.add(work.s(2, fails=True))
        execute_now(good.pk, using=alias)
        with pytest.raises(ValueError, match="2"):
            execute_now(bad.pk, using=alias)
        assert batch.progress() == (2, 1, 1, 0, 0)
        run()
        assert batch.state == "failed"
        work.again.add(2)
        execute_now(bad.pk, using=alias)
        assert batch.progress() == (2, 2, 0, 0, 0)
        run()
        assert batch.state == "completed"

    def test_tasks_with_results_in_one_statement(self, alias, work, begin, run, configure):
        configure(HISTORY_LEVEL="full")
        with begin() as batch:
            batch.add_many(work.s(number) for number in range(4))
        run()
        assert batch.progress() == (4, 4, 0, 0, 0)

    def test_atomic(self, alias, handle, begin, calls, run):
        def write():
            pass

        with begin() as batch:
            batch.add_many([handle(write, database=alias, atomic=True).s()] * 3)
        run()
        assert batch.progress() == (3, 3, 0, 0, 0) and calls.made() == ["success"]

    def test_unreadable(self, alias, work, begin, run):
        with begin() as batch:
            row = batch.add(work.s(1))
        Job.objects.using(alias).filter(pk=row.pk).update(handler_configuration={"args": "what"})
        run()
        assert batch.progress() == (1, 0, 1, 0, 0) and batch.state == "failed"

    def test_replaced_by_a_unique_job(self, alias, handle, begin, run):
        def only():
            pass

        job = handle(only, database=alias, unique="one", on_conflict="replace")
        with begin() as first:
            first.add(job.s())
        with begin() as second:
            second.add(job.s())
        run()
        assert first.progress() == (1, 0, 0, 1, 0) and second.progress() == (1, 1, 0, 0, 0)

    def test_a_duplicate_is_no_child(self, alias, handle, begin, run):
        def only():
            pass

        job = handle(only, database=alias, unique="one")
        job.enqueue()
        with begin() as batch:
            assert batch.add(job.s()).is_duplicate
            assert batch.add_many([job.s(), job.s()]) == 0
        run()
        assert batch.progress() == (0, 0, 0, 0, 0) and batch.state == "completed"


class TestExternal:
    def key(self, alias):
        (job,) = fetch(alias, "print", max_jobs=1)
        return job.key

    @pytest.mark.parametrize("instance", ["", "order"])
    def test_completed(self, alias, begin, calls, run, instance):
        with begin() as batch:
            batch.add_external("print", [{"page": 1}, {"page": 2}], process_instance_id=instance)
        for done in (1, 2):
            complete_external_job(alias, self.key(alias), worker="one")
            assert batch.progress() == (2, done, 0, 0, 2 - done)
        run()
        assert calls.made() == ["success"]

    @pytest.mark.parametrize("instance", ["", "order"])
    def test_with_a_job_that_follows(self, alias, handle, begin, run, instance):
        def printed(variables):
            pass

        with begin() as batch:
            batch.add_external("print", [{}], on_complete=handle(printed, database=alias), process_instance_id=instance)
        complete_external_job(alias, self.key(alias), worker="one")
        assert batch.progress() == (1, 0, 0, 0, 1)
        run()
        assert batch.progress() == (1, 1, 0, 0, 0) and batch.state == "completed"

    def test_of_another_database(self, alias, begin):
        with begin() as batch, pytest.raises(InvalidJob, match="database: expected the batch's database"):
            batch.add_external("print", [{}], database="another")

    def test_failed(self, alias, begin, run):
        with begin() as batch:
            batch.add_external("print", [{}])
        fail_external_job(alias, self.key(alias), retries=0, worker="one")
        run()
        assert batch.progress() == (1, 0, 1, 0, 0) and batch.state == "failed"
        assert retry_batch(batch.id, using=alias).changed
        assert ExternalWorkerJob.objects.using(alias).get().batch_id == batch.id
        assert batch.progress() == (1, 0, 0, 0, 1) and batch.state == "running"


class TestRetry:
    def test_a_failed_batch_goes_on_and_succeeds(self, alias, work, begin, calls, run):
        with begin() as batch:
            batch.add_many([work.s(number, fails=True) for number in range(3)])
        run()
        assert batch.state == "failed" and calls.made() == ["failure"]
        work.again.update((0, 1))
        assert len(batch.retry_failed().changed) == 3
        assert batch.state == "running" and batch.row.end_time is None
        run()
        assert batch.state == "failed" and batch.progress() == (3, 2, 1, 0, 0)
        assert calls.made() == ["failure"], "once in the life of a batch"
        work.again.add(2)
        batch.retry_failed(retries=1)
        run()
        assert batch.state == "completed" and calls.made() == ["failure", "success"]
        assert rest(alias) == set()

    @pytest.mark.parametrize("verb", [requeue, set_retries])
    def test_any_way_to_requeue_reopens_it(self, alias, work, begin, run, verb):
        with begin() as batch:
            row = batch.add(work.s(1, fails=True))
        run()
        work.again.add(1)
        verb(DeadLetterJob.objects.using(alias).get(pk=row.pk), 2, using=alias)
        assert batch.state == "running"
        run()
        assert batch.state == "completed"

    def test_before_the_end(self, alias, work, begin, calls, run):
        batch = begin()
        batch.add(work.s(1, fails=True))
        run()
        assert batch.progress().failed == 1
        work.again.add(1)
        batch.retry_failed()
        batch.seal()
        run()
        assert batch.state == "completed" and calls.made() == ["success"]

    def test_nothing_has_failed(self, work, begin, run):
        with begin() as batch:
            batch.add(work.s(1))
        assert not batch.retry_failed().changed
        run()
        assert not batch.retry_failed().changed and batch.state == "completed"


class TestCancel:
    def test_waiting_children_are_removed(self, alias, work, begin, calls, run, frozen):
        with begin() as batch:
            batch.add_many(work.s(number) for number in range(5))
            batch.add(work.using(delay=60).s(6))
            dead = batch.add(work.s(7))
        move_to_dead_letter(dead.pk, using=alias)
        batch.cancel()
        assert batch.state == "cancelled" and batch.progress() == (7, 0, 1, 6, 0)
        run()
        assert calls == [] and rest(alias) == {("deadletterjob", "tests.work")}
        batch.cancel()  # again
        with pytest.raises(BatchOver, match="takes no more jobs"):
            batch.add(work.s(8))
        with pytest.raises(BatchOver, match="cancelled"):
            batch.retry_failed()

    def test_a_running_child_is_asked_to_stop_and_counts(self, alias, handle, begin, run):
        seen = []

        def go_on(context):
            jobexec.get_batch(batch.id, using=alias).cancel()
            context.work.cancel_requested = Job.objects.using(alias).get(pk=context.id).cancel_requested
            seen.append(context.cancelled)

        with begin() as batch:
            batch.add(handle(go_on, database=alias).s())
        run()
        assert seen == [True] and batch.progress() == (1, 0, 0, 1, 0) and rest(alias) == set()

    @pytest.mark.gate
    def test_what_an_interrupted_cancellation_left(self, alias, work, begin, run, frozen, monkeypatch):
        from jobexec.operations.batches import control

        with begin() as batch:
            batch.add_many(work.using(delay=9000).s(number) for number in range(5))
        monkeypatch.setattr(control, "cancel_some", lambda using, id: False)
        batch.cancel()
        assert batch.progress().open == 5
        frozen.tick(60)
        run()
        assert batch.progress() == (5, 0, 0, 5, 0) and rest(alias) == set()

    def test_a_completed_one(self, begin, run):
        with begin() as batch:
            pass
        run()
        with pytest.raises(BatchOver, match="has completed"):
            batch.cancel()

    def test_a_block_that_raises_cancels_it(self, work, begin):
        with pytest.raises(ZeroDivisionError), begin() as batch:
            batch.add(work.s(1))
            1 / 0  # noqa: B018
        assert batch.state == "cancelled" and batch.progress() == (1, 0, 0, 1, 0)

    def test_a_block_that_raises_in_a_transaction(self, alias, work, begin):
        with pytest.raises(ZeroDivisionError), transaction.atomic(alias), begin() as batch:
            batch.add(work.s(1))
            1 / 0  # noqa: B018
        with pytest.raises(BatchNotFound):
            batch.progress()
        assert rest(alias) == set()


class TestDeadline:
    def test_it_fails_and_the_rest_is_cancelled(self, alias, work, begin, calls, run, frozen):
        with begin(deadline=timedelta(seconds=20)) as batch:
            batch.add(work.s(1))
            batch.add_many(work.using(delay=9000).s(number) for number in range(3))
        run()
        frozen.tick(19)
        run()
        assert batch.state == "running"
        frozen.tick(1)
        run()
        assert batch.state == "failed" and batch.progress() == (4, 1, 0, 3, 0)
        assert calls.made() == ["failure"] and rest(alias) == set()

    def test_an_open_batch_fails_too(self, alias, begin, calls, run, frozen, work):
        batch = begin(deadline=NOW + timedelta(seconds=20))
        batch.add(work.s(1))
        run()
        frozen.tick(21)
        run()
        assert batch.state == "failed" and calls.made() == ["failure"]

    def test_what_failed_is_retried_without_it(self, alias, begin, calls, run, frozen, work):
        with begin(deadline=20) as batch:
            batch.add(work.s(1, fails=True))
            batch.add(work.using(delay=10).s(2))
        run()
        frozen.tick(21)
        run()
        work.again.add(1)
        batch.retry_failed()
        assert batch.row.deadline is None
        run()
        assert batch.state == "completed" or batch.progress().cancelled


class TestConditions:
    def test_as_soon_as_they_hold(self, work, begin, calls, run):
        when = {"failed >= 2": calls.notify.s("two"), "failed_rate > 50%": calls.notify.s("half")}
        batch = begin(when=when)
        batch.add_many([work.s(1, fails=True), work.s(2)])
        run()
        assert calls.made() == []
        batch.add(work.s(3, fails=True))
        run()
        assert calls.made() == ["two"], "a share is not known before it is sealed"
        batch.seal()
        run()
        assert calls.made() == ["two", "half", "failure"]

    def test_less_than_is_known_at_the_end(self, work, begin, calls, run):
        with begin(when={"completed_rate < 0.9": calls.notify.s("few"), "cancelled < 1": calls.notify.s("none")}) as b:
            b.add_many([work.s(1, fails=True), work.s(2), work.using(delay=60).s(3)])
        run()
        assert calls.made() == []
        TimerJob.objects.using(b.using).filter(batch_id=b.id).exclude(handler_type=MONITOR).update(due_date=NOW)
        run()
        assert sorted(calls.made()) == ["failure", "few", "none"]

    @pytest.mark.parametrize(
        "text", ["failed", "lost > 3", "failed > many", "failed > 5%", "failed_rate > 5", "failed = 3", "", 5]
    )
    def test_wrong_ones(self, alias, begin, calls, text):
        with pytest.raises(InvalidJob, match="when: expected"):
            begin(when={text: calls.notify.s("what")})
        assert not Batch.objects.using(alias).exists()


class TestAdding:
    def test_sealed(self, alias, work, begin):
        with begin() as batch:
            batch.add(work.s(1))
        for add in (batch.add, lambda call: batch.add_many([call])):
            with pytest.raises(BatchSealed, match="is sealed"):
                add(work.s(2))
        with pytest.raises(BatchSealed):
            batch.add_external("print", [{}])
        assert batch.progress().total == 1 and Job.objects.using(alias).count() == 1

    def test_over(self, alias, work, begin, run):
        with begin() as batch:
            pass
        run()
        with transaction.atomic(alias):
            with pytest.raises(BatchOver, match="completed"):
                batch.add(work.s(2))
            Job.objects.using(alias).count()  # the transaction goes on
        with pytest.raises(BatchOver):
            batch.seal()

    def test_unknown(self, alias, work, begin):
        batch = begin()
        delete_batch(batch.id, using=alias)
        with pytest.raises(BatchNotFound):
            batch.add(work.s(1))
        with pytest.raises(BatchNotFound):
            jobexec.get_batch(batch.id, using=alias)
        with pytest.raises(BatchNotFound, match="expected a UUID"):
            jobexec.get_batch("what", using=alias)

    def test_rolled_back(self, alias, work, begin, run):
        batch = begin()
        with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
            batch.add_many(work.s(number) for number in range(3))
            1 / 0  # noqa: B018
        assert batch.progress().total == 0 and not Job.objects.using(alias).exists()

    def test_a_stream_page_by_page(self, alias, work, begin, monkeypatch):
        from jobexec.handlers import batch as module

        monkeypatch.setattr(module, "PAGE", 2)
        batch, seen = begin(), []

        def numbers():
            for number in range(5):
                seen.append(batch.progress().total)
                yield work.s(number)

        assert batch.add_many(numbers()) == 5
        assert seen == [0, 0, 2, 2, 4]

    def test_an_error_names_the_call(self, alias, work, begin, monkeypatch):
        from jobexec.handlers import batch as module

        monkeypatch.setattr(module, "PAGE", 2)
        batch = begin()
        with pytest.raises(InvalidJob, match=r"Call 4 of add_many: add: expected a call such as charge.s\(5\), got 5"):
            batch.add_many([work.s(1), work.s(2), work.s(3), 5])
        assert batch.progress().total == 2

    def test_different_jobs_and_options(self, alias, work, handle, begin, run):
        def other(context):
            pass

        with begin() as batch:
            batch.add_many([work.s(1), handle(other, database=alias).s(), work.using(priority=5).s(2), work.s(3)])
        assert sorted(Job.objects.using(alias).values_list("priority", flat=True)) == [0, 0, 0, 5]
        run()
        assert batch.progress() == (4, 4, 0, 0, 0)

    def test_from_a_running_child(self, alias, handle, work, begin, run):
        def spread(context):
            assert context.batch == batch and jobexec.current_job().batch == batch
            context.batch.add_many(work.s(number) for number in range(3))
            context.batch.seal()

        batch = begin()
        batch.add(handle(spread, database=alias, atomic=True).s())
        run()
        assert batch.state == "completed" and batch.progress() == (4, 4, 0, 0, 0)

    def test_an_atomic_child_that_fails_has_added_nothing(self, alias, handle, work, begin, run):
        def spread(context):
            context.batch.add(work.s(1))
            raise ValueError

        batch = begin()
        batch.add(handle(spread, database=alias, atomic=True, retries=NO_RETRY).s())
        run()
        assert batch.progress() == (1, 0, 1, 0, 0)

    def test_a_sealed_batch_that_grows(self, alias, handle, work, begin, run):
        def crawl(context, depth):
            for _ in range(2 if depth else 0):
                context.batch.add(job.s(depth - 1))

        job = handle(crawl, database=alias)
        with begin(grows=True) as batch:
            batch.add(job.s(3))
        with pytest.raises(BatchSealed):
            batch.add(job.s(1))  # it is no child
        run()
        assert batch.state == "completed" and batch.progress() == (15, 15, 0, 0, 0)

    def test_a_sealed_batch_refuses_its_children(self, alias, handle, work, begin, run):
        seen = []

        def spread(context):
            try:
                context.batch.add(work.s(1))
            except BatchSealed as error:
                seen.append(error)

        with begin() as batch:
            batch.add(handle(spread, database=alias).s())
        run()
        assert len(seen) == 1 and batch.progress() == (1, 1, 0, 0, 0)

    def test_the_tenant(self, alias, handle, work, begin, run):
        seen = []

        def nested(context):
            seen.append(jobexec.batch().row.tenant_id)

        with begin(tenant_id="acme") as batch:
            row = batch.add(work.s(1))
            batch.add(handle(nested, database=alias).s())
            with pytest.raises(InvalidJob, match="tenant_id: expected that of the batch, 'acme', got 'other'"):
                batch.add(work.using(tenant_id="other").s(1))
            batch.add_external("print", [{}])
        assert batch.row.tenant_id == row.tenant_id == "acme"
        assert ExternalWorkerJob.objects.using(alias).get().tenant_id == "acme"
        run()
        assert seen == ["acme"]


class TestControl:
    def test_what_is_counted_after_the_deletion_is_cleaned_up(self, alias, work, begin):
        batch, other = begin(), begin()
        rows = [batch.add(work.s(1)), other.add(work.s(2))]
        Batch.objects.using(alias).filter(pk=batch.id).delete()
        delete_jobs([row.pk for row in rows], using=alias)
        assert BatchTally.objects.using(alias).filter(batch_id=batch.id).exists()
        clean_up_history(alias)
        assert not BatchTally.objects.using(alias).filter(batch_id=batch.id).exists()
        assert other.progress() == (1, 0, 0, 1, 0)

    def test_progress_for_operators(self, alias, work, begin, run):
        with begin() as batch:
            batch.add_many([work.s(1), work.s(2, fails=True)])
        run()
        assert batch_progress(batch.row) == (2, 1, 0, 0, 1, False)

    def test_delete(self, alias, work, begin, run):
        batch = begin()
        batch.add(work.s(1))
        delete_batch(batch.id, using=alias)
        assert not Batch.objects.using(alias).exists() and not BatchTally.objects.using(alias).exists()
        run()
        assert rest(alias) == set()

    def test_it_cannot_be_suspended(self, alias, begin):
        with pytest.raises(InvalidJob, match="one of jobs"):
            suspend_batch(begin().id, using=alias)

    def test_a_monitor_that_is_gone_is_made_again(self, alias, work, begin, run):
        batch = begin()
        delete_jobs(TimerJob.objects.using(alias).get(handler_type=MONITOR), using=alias)
        assert batch_progress(batch.row).stalled
        activate_batch(batch.id, using=alias)
        assert not batch_progress(batch.row).stalled
        batch.seal()
        run()
        assert batch.state == "completed"

    def test_the_verbs_of_operators(self, alias, work, begin, run):
        batch = begin()
        batch.add(work.s(1, fails=True))
        assert seal_batch(str(batch.id), using=alias).state == "running"
        run()
        assert len(retry_batch(batch.id, using=alias).changed) == 1
        cancel_batch(batch.id, using=alias)
        assert batch.state == "cancelled"


class TestAsyncCallers:
    def test_all_of_it(self, alias, work, calls, run):
        async def fill():
            async with await jobexec.abatch(on_success=calls.notify.s("success"), using=alias) as batch:
                assert type(await batch.aadd(work.s(1))) is Job
                assert await batch.aadd_many(work.s(number) for number in (2, 3)) == 2
                assert await batch.aadd_external("print", [{}, {}]) == 2
            again = await jobexec.aget_batch(batch.id, using=alias)
            assert again == batch
            assert (await again.astate(), (await again.aprogress()).total) == ("running", 5)
            await again.aseal()
            return again

        batch = asyncio.run(fill())
        for each in fetch(alias, "print"):
            complete_external_job(alias, each.key)
        run()
        assert (batch.state, calls.made()) == ("completed", ["success"])

    def test_a_block_that_raises_cancels_it(self, alias, work):
        found = []

        async def fill():
            async with await jobexec.abatch(using=alias) as batch:
                found.append(batch)
                await batch.aadd(work.s(1))
                raise KeyError

        with pytest.raises(KeyError):
            asyncio.run(fill())
        assert found[0].state == "cancelled"

    def test_retry_and_cancel(self, alias, work, begin, run):
        with begin() as batch:
            batch.add(work.s(1, fails=True))
        run()
        assert batch.state == "failed"

        async def again():
            result = await batch.aretry_failed()
            await batch.acancel()
            return result

        assert asyncio.run(again()).changed
        assert batch.state == "cancelled"
