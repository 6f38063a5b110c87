"""The manual executor does what executors do: in the transaction of a test, and without one."""

from contextlib import suppress
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import DatabaseError, IntegrityError, connections, transaction

from jobexec import DoNotRetry, JobCancelled, RetryIn, clock, operations, signals
from jobexec.models import DeadLetterJob, Job, SuspendedJob, TimerJob
from jobexec.testing import JobsDoNotEnd, ManualExecutor, controlled_clock
from tests.support.factories import locked_ids, make_job, reload, table_of


def names(alias):
    return set(Group.objects.using(alias).values_list("name", flat=True))


class Everywhere:
    """What has to be the same in the transaction of a test and without one."""

    def test_runs_what_is_due_in_this_thread(self, alias, shop, executor):
        row = shop.send.enqueue(5)
        shop.send.using(delay=60).enqueue(6)
        (result,) = executor.run_due()
        assert (result.id, result.handler, result.outcome) == (row.pk, "shop.send", "successful")
        assert (result.value, result.exception, result.attempt) == ("sent 5", None, 1)
        assert shop.done == [5]
        assert table_of(alias, row) is None
        assert TimerJob.objects.using(alias).count() == 1

    def test_a_failure_is_recorded_and_then_raised(self, alias, shop, executor):
        shop.breaks.enqueue(1)
        second = shop.send.enqueue(2)
        with pytest.raises(ValueError, match="no 1") as raised:
            executor.run_due()
        assert "shop.break_, attempt 1; it is a TimerJob now" in raised.value.__notes__[0]
        assert TimerJob.objects.using(alias).get().exception_message == "ValueError: no 1"
        # What had not begun is given back, at no cost.
        assert not locked_ids(alias)
        assert table_of(alias, second) is Job
        assert [each.value for each in executor.run_due()] == ["sent 2"]

    def test_retries_come_when_their_time_does_and_end_as_dead_letters(self, alias, shop):
        with controlled_clock() as clock:
            executor = ManualExecutor(alias, reraise=False)
            row = shop.breaks.enqueue(1)
            (first,) = executor.run_until_empty()
            assert (first.outcome, first.became, first.dead) == ("failed", TimerJob, False)
            assert isinstance(first.exception, ValueError)
            clock.advance(timedelta(minutes=4, seconds=59))
            assert executor.run_due() == []
            clock.advance(1)
            (second,) = executor.run_due()
        assert (second.attempt, second.became, second.dead) == (2, DeadLetterJob, True)
        assert reload(alias, row).retries == 0

    def test_an_error_of_the_database_in_a_handler_spoils_nothing(self, alias, handle):
        def twice(name):
            Group.objects.using(alias).create(name=name)
            Group.objects.using(alias).create(name=name)

        Group.objects.using(alias).create(name="of the test")
        row = handle(twice, database=alias).enqueue("one")
        (result,) = ManualExecutor(alias, reraise=False).run_due()
        assert isinstance(result.exception, IntegrityError)
        assert table_of(alias, row) is TimerJob
        assert "of the test" in names(alias)

    def test_what_a_handler_wrote_before_it_failed_stays(self, alias, handle):
        def half(name):
            Group.objects.using(alias).create(name=name)
            raise ValueError("no")

        handle(half, database=alias).enqueue("half")
        ManualExecutor(alias, reraise=False).run_due()
        assert names(alias) == {"half"}

    def test_an_atomic_job_that_fails_leaves_nothing(self, alias, handle):
        def half(name):
            Group.objects.using(alias).create(name=name)
            raise ValueError("no")

        def whole(name):
            Group.objects.using(alias).create(name=name)

        handle(half, database=alias, atomic=True).enqueue("half")
        row = handle(whole, database=alias, atomic=True).enqueue("whole")
        results = ManualExecutor(alias, reraise=False).run_due()
        assert [each.outcome for each in results] == ["failed", "successful"]
        assert names(alias) == {"whole"}
        assert table_of(alias, row) is None

    @pytest.mark.parametrize("atomic", [False, True])
    def test_hooks_on_the_commit_of_a_handler_run_with_it(self, alias, handle, shop, executor, atomic):
        def order(number):
            transaction.on_commit(lambda: shop.send.enqueue(number), using=alias)

        handle(order, database=alias, atomic=atomic).enqueue(1)
        told = []
        signals.job_completed.connect(receiver := lambda jobs, **_: told.extend(jobs))
        try:
            assert [each.handler for each in executor.run_until_empty()] == ["shop.order", "shop.send"]
        finally:
            signals.job_completed.disconnect(receiver)
        assert shop.done == [1]
        assert len(told) == 2

    def test_a_transaction_that_is_left_open_is_rolled_back(self, alias, handle):
        def leaves(name):
            transaction.atomic(using=alias).__enter__()
            Group.objects.using(alias).create(name=name)

        handle(leaves, database=alias).enqueue("left")
        Group.objects.using(alias).create(name="of the test")
        with pytest.raises(transaction.TransactionManagementError, match="left a transaction open"):
            ManualExecutor(alias).run_due()
        assert names(alias) == {"of the test"}
        with transaction.atomic(using=alias):  # the connection is in order
            assert TimerJob.objects.using(alias).count() == 1

    def test_async_handlers_run(self, alias, handle, executor):
        async def greet(name):
            await Group.objects.using(alias).acreate(name=name)
            return name

        handle(greet, database=alias).enqueue("hello")
        assert [each.value for each in executor.run_due()] == ["hello"]
        assert names(alias) == {"hello"}


class TestInATestCase(Everywhere):
    """Everything in one transaction, which is rolled back."""

    def test_nothing_ends_the_transaction_of_the_test(self, alias, shop, executor):
        connection = connections[alias]
        blocks = list(connection.savepoint_ids)
        shop.send.enqueue(1)
        executor.run_until_empty()
        executor.tick()
        assert connection.in_atomic_block
        assert connection.savepoint_ids == blocks
        assert not connection.needs_rollback


@pytest.mark.transactional
class TestWithoutATransaction(Everywhere):
    """Every verb commits, as in production."""


def test_run_due_leaves_what_these_jobs_enqueue(alias, handle, shop, executor):
    handle(lambda: shop.send.enqueue(2), name="shop.first", database=alias).enqueue()
    assert [each.handler for each in executor.run_due()] == ["shop.first"]
    assert [each.handler for each in executor.run_due()] == ["shop.send"]


def test_run_due_takes_no_more_than_it_is_told(alias, shop, executor):
    for number in range(3):
        shop.send.enqueue(number)
    assert len(executor.run_due(2)) == 2
    assert executor.run_next().value == "sent 2"
    assert executor.run_next() is None


def test_a_job_that_enqueues_itself_for_ever_is_named(alias, handle):
    def again():
        handler.enqueue()

    handler = handle(again, database=alias)
    handler.enqueue()
    with pytest.raises(JobsDoNotEnd, match=r"^5 jobs have run .* Ran: 5 of shop.again \(successful\)"):
        ManualExecutor(alias, max_jobs=5).run_until_empty()
    assert not locked_ids(alias)


def test_until_empty_can_move_the_clock_on(alias, shop):
    with controlled_clock() as clock:
        begin = clock.now
        shop.breaks.enqueue(1)
        shop.send.using(delay=timedelta(days=1)).enqueue(2)
        results = ManualExecutor(alias, reraise=False).run_until_empty(advance=True)
        assert [each.outcome for each in results] == ["failed", "failed", "successful"]
        assert clock.now == begin + timedelta(days=1)


def test_without_a_clock_it_cannot(alias, executor):
    with pytest.raises(RuntimeError, match=r"controlled_clock.* or the fixture jobexec_clock"):
        executor.run_until_empty(advance=True)


def test_what_a_handler_says_about_its_retries_is_not_raised(alias, handle, executor):
    def steers(error):
        raise {"in": RetryIn(5), "cancel": JobCancelled()}[error]

    handler = handle(steers, database=alias)
    handler.enqueue("in")
    handler.enqueue("cancel")
    results = executor.run_due()
    assert [(each.outcome, each.became) for each in results] == [("failed", TimerJob), ("cancelled", None)]


def test_do_not_retry_is_a_dead_letter_and_raised(alias, handle, executor):
    def refuses():
        raise DoNotRetry("never")

    handle(refuses, database=alias).enqueue()
    with pytest.raises(DoNotRetry, match="never"):
        executor.run_due()
    assert DeadLetterJob.objects.using(alias).count() == 1


def test_who_ends_the_test_ends_it(alias, handle):
    def fails():
        pytest.fail("the test is over")

    handle(fails, database=alias).enqueue()
    with pytest.raises(pytest.fail.Exception, match="over"):
        ManualExecutor(alias, reraise=False).run_due()
    assert TimerJob.objects.using(alias).count() == 1


def test_a_handler_that_nobody_knows_is_tried_later(alias, executor):
    row = make_job(alias, handler_type="shop.unknown")
    with pytest.raises(LookupError, match=r"shop\.unknown"):
        executor.run_due()
    assert reload(alias, row).attempts == 0


def test_exclusive_siblings_run_in_order_and_are_free_afterwards(alias, handle, shop, executor):
    seen = []

    def looks():
        held = Job.objects.using(alias).filter(process_instance_id="order 7", lock_owner__isnull=False)
        seen.append(held.count())

    looks = handle(looks, database=alias, process_instance_id="order 7")
    for _ in range(3):
        looks.enqueue()
    assert len(executor.run_due()) == 3
    assert seen == [3, 2, 1]
    looks.enqueue()
    assert len(executor.run_due()) == 1


def test_an_instance_that_another_holds_waits(alias, shop, executor):
    instance = shop.send.using(process_instance_id="order 7")
    instance.enqueue(1)
    (held,) = executor.acquire(1)
    instance.enqueue(2)
    assert ManualExecutor(alias).run_due() == []
    executor.settle(executor.run(held))
    assert [each.value for each in ManualExecutor(alias).run_due()] == ["sent 2"]


def test_what_is_suspended_does_not_run(alias, shop, executor):
    row = shop.send.using(tenant_id="acme").enqueue(1)
    operations.suspend(tenant_id="acme", using=alias)
    assert executor.run_until_empty() == []
    assert table_of(alias, row) is SuspendedJob
    operations.activate(tenant_id="acme", using=alias)
    assert [each.value for each in executor.run_until_empty()] == ["sent 1"]


def test_a_job_that_is_cancelled_in_its_queue_does_not_begin(alias, handle, shop, executor):
    second = None

    def cancels():
        operations.cancel(second, using=alias)

    handle(cancels, database=alias).enqueue()
    second = shop.send.enqueue(2)
    results = executor.run_due()
    assert [each.outcome for each in results] == ["successful", "cancelled"]
    assert shop.done == []


def test_a_handler_past_its_timeout_has_failed_when_it_ends(alias, handle):
    with controlled_clock() as clock:

        def slow():
            clock.advance(11)

        handle(slow, database=alias, timeout=10).enqueue()
        (result,) = ManualExecutor(alias, reraise=False).run_due()
    assert (result.outcome, result.became, type(result.exception).__name__) == ("timeout", TimerJob, "JobTimeout")


def test_step_by_step(alias, shop, executor):
    rows = [shop.send.enqueue(number) for number in range(2)]
    works = executor.acquire()
    assert [work.id for work in works] == [row.pk for row in rows]
    assert locked_ids(alias) == {row.pk for row in rows}
    ran = executor.run(works[0])
    assert ran.value == "sent 0"
    assert table_of(alias, rows[0]) is Job  # not settled yet
    assert executor.settle(ran).successful
    assert table_of(alias, rows[0]) is None
    executor.release(works[1:])
    assert not locked_ids(alias)


def test_only_the_categories_that_are_named(alias, configure, shop):
    configure(CATEGORIES=["default", "mail"])
    shop.send.enqueue(1)
    shop.send.using(category="mail").enqueue(2)
    assert [each.value for each in ManualExecutor(alias, categories=["mail"]).run_until_empty()] == ["sent 2"]
    assert [each.value for each in ManualExecutor(alias).run_until_empty()] == ["sent 1"]
    with pytest.raises(ValueError, match=r"default, mail \(setting CATEGORIES\), got 'male'"):
        ManualExecutor(alias, categories=["male"])


def test_an_unknown_engine_is_refused(configure):
    with pytest.raises(Exception, match="nowhere"):
        ManualExecutor("nowhere")


def test_the_context_of_a_job(alias, handle, executor):
    def looks(context):
        context.check_lease()
        context.progress(1, 2)
        return context.attempt, context.job.handler_type, context.shutting_down

    handle(looks, database=alias).enqueue()
    assert executor.run_next().value == (1, "shop.looks", False)


def test_a_swallowed_error_is_told_if_it_undid_the_work(alias, handle, executor):
    def swallows():
        Group.objects.using(alias).create(name="one")
        with suppress(DatabaseError):
            connections[alias].cursor().execute("SELECT nothing FROM nowhere")

    handle(swallows, database=alias).enqueue()
    if connections[alias].vendor == "postgresql":
        with pytest.raises(transaction.TransactionManagementError, match=r"continued after an error.*transactional_db"):
            executor.run_due()
        assert names(alias) == set()
    else:
        assert executor.run_next().successful
        assert names(alias) == {"one"}


def test_the_time_of_an_earlier_executor_is_forgotten(alias):
    clock.synchronise(alias, clock.now(alias) + timedelta(days=3), clock.monotonic())
    late = clock.now(alias)
    ManualExecutor(alias)
    assert clock.now(alias) < late - timedelta(days=2)
