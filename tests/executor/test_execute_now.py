"""One job in the caller's thread, from whichever table."""

import sys
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction

from jobexec.clock import FrozenClock
from jobexec.conf.resources import PROFILES
from jobexec.exceptions import (
    DuplicateJob,
    HandlerNotFound,
    InvalidJob,
    JobLocked,
    JobNotFound,
    JobStateError,
    LockLost,
    UnreadableJob,
)
from jobexec.executor.execute_now import execute_by_hand, execute_now
from jobexec.models import (
    JOB_TABLES,
    BlockedJob,
    DeadLetterJob,
    ExclusiveLock,
    ExternalWorkerJob,
    Job,
    JobLog,
    JobType,
    Resource,
    SuspendedJob,
    TimerJob,
)
from jobexec.operations import acquire_jobs, delete_jobs, find_job, hold_resource, move_to_dead_letter
from jobexec.operations.resources.breaker import open_breaker
from jobexec.operations.resources.promote import promote
from jobexec.operations.values.acquired_job import ServedJobs
from tests.support.factories import LOCK_TIME, acquire, make_job, tables_of
from tests.support.factories import make_row as insert
from tests.support.threads import finish, held, start, wait_until_waiting


@pytest.fixture(autouse=True)
def handlers(handle):
    handle(lambda number: number * 2, name="tests.double")
    handle(lambda: 1 / 0, name="tests.fail")


def make_row(table, alias, **columns):
    return insert(table, alias, **{"handler_configuration": {"args": [], "kwargs": {}}} | columns)


def double(table, alias, **columns):
    configuration = {"args": [21], "kwargs": {}}
    return make_row(table, alias, handler_type="tests.double", handler_configuration=configuration, **columns)


@pytest.mark.parametrize("table", [Job, TimerJob, SuspendedJob, DeadLetterJob])
@pytest.mark.parametrize("atomic", [False, True])
def test_runs_a_job_of_every_table_and_returns_its_result(alias, table, atomic):
    due = datetime(2100, 1, 1, tzinfo=UTC) if table is TimerJob else None
    row = double(table, alias, retries=0 if table is DeadLetterJob else 3, due_date=due, atomic=atomic)
    assert execute_now(str(row.pk), using=alias) == 42
    assert tables_of(alias) == {}
    entry = JobLog.objects.using(alias).get()
    assert (entry.state, entry.node, entry.job_id) == ("successful", "execute now", row.pk)


@pytest.mark.parametrize("table", [Job, TimerJob, SuspendedJob, DeadLetterJob])
def test_a_failure_is_recorded_and_raised_again(alias, table):
    row = make_row(table, alias, handler_type="tests.fail", retries=0 if table is DeadLetterJob else 3)
    with pytest.raises(ZeroDivisionError):
        execute_now(row.pk, using=alias)
    (tables,) = tables_of(alias).values()
    assert tables == [DeadLetterJob if table is DeadLetterJob else TimerJob]
    stored = tables[0]._base_manager.using(alias).get()
    assert stored.exception_message == "ZeroDivisionError: division by zero"
    assert (stored.attempts, stored.lock_owner) == (1, None)


class TestByHand:
    """For operators: what was held back on purpose is refused, and a failure is told as it is recorded."""

    @pytest.mark.parametrize("table", [Job, TimerJob])
    @pytest.mark.parametrize("atomic", [False, True])
    def test_runs_what_waits(self, alias, table, atomic):
        assert execute_by_hand(double(table, alias, atomic=atomic).pk, using=alias) is None
        assert tables_of(alias) == {}

    @pytest.mark.parametrize(
        ("table", "columns", "error", "words"),
        [
            (SuspendedJob, {}, JobStateError, "is suspended. Activate it first"),
            (DeadLetterJob, {}, JobStateError, "is a dead letter. Requeue it first"),
            (ExternalWorkerJob, {"type": JobType.EXTERNAL}, JobStateError, "for external workers"),
            (Job, {"type": JobType.HISTORY}, InvalidJob, "is a history job"),
            (Job, {"lock_owner": "node:1"}, JobLocked, "running or queued on node:1"),
            (TimerJob, {"handler_type": "tests.unknown"}, HandlerNotFound, r"No handler 'tests\.unknown'"),
        ],
    )
    def test_refuses_and_changes_nothing(self, alias, table, columns, error, words):
        row = make_row(table, alias, **{"handler_type": "tests.double", **columns})
        before = table._base_manager.using(alias).values().get()
        with pytest.raises(error, match=words):
            execute_by_hand(row.pk, using=alias)
        assert table._base_manager.using(alias).values().get() == before

    @pytest.mark.parametrize("atomic", [False, True])
    def test_tells_a_failure_without_secrets(self, alias, handle, atomic):
        def pay(password):
            raise ValueError(f"no {password}")

        handle(pay, name="tests.pay")
        configuration = {"args": ["hush-hush"], "kwargs": {}}
        row = make_row(Job, alias, handler_type="tests.pay", handler_configuration=configuration, atomic=atomic)
        failure = execute_by_hand(row.pk, using=alias)
        assert failure.message == "ValueError: no ●●●"
        stored = TimerJob.objects.using(alias).get()
        assert (stored.exception_message, stored.retries) == (failure.message, row.retries - 1)

    def test_a_handler_that_wants_to_leave(self, alias, handle):
        handle(lambda: sys.exit(3), name="tests.leave")
        row = make_row(Job, alias, handler_type="tests.leave")
        assert execute_by_hand(row.pk, using=alias).message == "SystemExit: 3"


@pytest.mark.parametrize("table", [ExternalWorkerJob, SuspendedJob, DeadLetterJob])
def test_a_job_of_external_workers_has_no_handler_wherever_it_is(alias, table):
    row = make_row(table, alias, handler_type="pay", type=JobType.EXTERNAL, job_key=1)
    with pytest.raises(JobStateError, match="for external workers"):
        execute_now(row.pk, using=alias)
    assert tables_of(alias) == {row.pk: [table]}


def test_what_is_not_there_or_cannot_run(alias):
    with pytest.raises(JobNotFound):
        execute_now(uuid4(), using=alias)
    unknown = make_row(Job, alias, handler_type="tests.unknown")
    with pytest.raises(HandlerNotFound, match=r"tests\.unknown"):
        execute_now(unknown.pk, using=alias)
    assert tables_of(alias) == {unknown.pk: [TimerJob]}
    broken = make_row(Job, alias, handler_type="tests.double", handler_configuration=[1])
    with pytest.raises(UnreadableJob):
        execute_now(broken.pk, using=alias)
    assert tables_of(alias)[broken.pk] == [DeadLetterJob]


def test_a_job_that_runs_elsewhere_is_refused_and_let_alone(alias):
    row = double(Job, alias)
    acquire(alias, "elsewhere")
    with pytest.raises(JobLocked, match="running or queued on elsewhere"):
        execute_now(row.pk, using=alias)
    stored = Job.objects.using(alias).get()
    assert (stored.lock_owner, stored.revision) == ("elsewhere", 2)


def test_an_exclusive_sibling_that_runs_keeps_it_from_running(alias):
    first = make_job(alias, process_instance_id="order-1")
    acquire(alias, "elsewhere")
    waiting = double(TimerJob, alias, process_instance_id="order-1", due_date=datetime(2100, 1, 1, tzinfo=UTC))
    with pytest.raises(JobLocked, match="'order-1' is running"):
        execute_now(waiting.pk, using=alias)
    assert tables_of(alias) == {first.pk: [Job], waiting.pk: [TimerJob]}, "where it was"
    beside = double(Job, alias, process_instance_id="order-1", exclusive=False)
    assert execute_now(beside.pk, using=alias) == 42


@pytest.mark.every_database
class TestOfAResource:
    """It needs a permit like any other job, although it waits for none."""

    @pytest.fixture(autouse=True)
    def pay(self, alias, configure):
        configure(RESOURCES={"pay.example": {"limit": 2, "rate": "60/PT1M", "breaker": "fast"}})
        with FrozenClock() as clock:
            yield clock

    @staticmethod
    def everything(alias):
        """All that an execution could change."""
        tables = (*JOB_TABLES, Resource, ExclusiveLock, JobLog)
        return [list(table._base_manager.using(alias).order_by("pk").values()) for table in tables]

    @staticmethod
    def limit(alias, clock):
        for _ in range(2):
            make_row(Job, alias, resource="pay.example")

    @staticmethod
    def rate(alias, clock):
        later = clock.now + timedelta(seconds=1)
        Resource.objects.using(alias).create(name="pay.example", next_permit_time=later)

    @staticmethod
    def breaker(alias, clock):
        open_breaker(alias, "pay.example", PROFILES["fast"], "3 of 3 calls failed")

    @staticmethod
    def operator(alias, clock):
        hold_resource("pay.example", using=alias)

    @pytest.mark.parametrize("table", [BlockedJob, TimerJob, SuspendedJob, DeadLetterJob])
    @pytest.mark.parametrize("gate", ["limit", "rate", "breaker", "operator"])
    def test_without_a_permit_it_is_refused_and_let_alone(self, alias, pay, table, gate):
        row = double(table, alias, resource="pay.example", process_instance_id="order-1")
        getattr(self, gate)(alias, pay)
        before = self.everything(alias)
        with pytest.raises(JobLocked, match=r"its resource 'pay\.example', which lets no more jobs run now"):
            execute_now(row.pk, using=alias)
        assert self.everything(alias) == before

    def test_what_no_entry_covers_lets_none_run(self, alias, configure):
        row = double(BlockedJob, alias, resource="pay.example")
        configure()  # another release has declared it
        before = self.everything(alias)
        for execute in (execute_now, execute_by_hand):
            with pytest.raises(JobLocked):
                execute(row.pk, using=alias)
        assert self.everything(alias) == before

    @pytest.mark.parametrize("table", [BlockedJob, TimerJob, SuspendedJob, DeadLetterJob])
    def test_it_takes_a_permit_while_it_runs(self, alias, handle, pay, table):
        seen = []

        def look():
            pay.tick(2)  # the rate would allow more
            seen.append(promote(alias, ["pay.example"], 100).moved)

        handle(look, name="tests.look")
        waiting = [make_row(BlockedJob, alias, resource="pay.example") for _ in range(3)]
        row = make_row(table, alias, handler_type="tests.look", resource="pay.example")
        execute_now(row.pk, using=alias)
        assert seen == [1], "the other of two permits"
        pay.tick(2)
        assert promote(alias, ["pay.example"], 100).moved == 1, "it has given its permit back"
        assert Resource.objects.using(alias).get().promoted == 3
        assert Job.objects.using(alias).filter(pk__in=[each.pk for each in waiting]).count() == 2

    def test_it_uses_up_its_rate(self, alias, pay):
        rows = [double(BlockedJob, alias, resource="pay.example") for _ in range(2)]
        assert execute_now(rows[0].pk, using=alias) == 42
        with pytest.raises(JobLocked):
            execute_now(rows[1].pk, using=alias)
        pay.tick(1)
        assert execute_now(rows[1].pk, using=alias) == 42


def test_while_it_runs_it_holds_its_process_instance(alias, handle):
    seen = []

    def look():
        make_job(alias, process_instance_id="order-1")
        seen.append(acquire_jobs(alias, "elsewhere", 9, ServedJobs(), lock_time=LOCK_TIME).jobs)
        seen.append(ExclusiveLock.objects.using(alias).count())

    handle(look, name="tests.look")
    row = make_row(Job, alias, handler_type="tests.look", process_instance_id="order-1")
    execute_now(row.pk, using=alias)
    assert seen == [[], 1]
    assert len(acquire(alias, "elsewhere")) == 1


@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")
def test_inside_a_transaction_it_keeps_nobody_waiting_but_its_siblings(alias):
    row = double(Job, alias, process_instance_id="order-1")
    sibling = make_job(alias, process_instance_id="order-1")
    others = {make_job(alias, process_instance_id=f"order-{number}").pk for number in range(2, 5)}
    with held(alias) as inside:
        assert inside(lambda: execute_now(row.pk, using=alias)) == 42
        acquiring = start(alias, lambda: {work.id for work in acquire(alias, "elsewhere")})
        assert finish(acquiring) == others
    assert {work.id for work in acquire(alias, "elsewhere")} == {sibling.pk}


@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")
def test_two_siblings_in_two_transactions_wait_for_each_other_in_no_circle(alias):
    rows = [double(Job, alias, process_instance_id="order-1") for _ in range(2)]
    with held(alias) as inside:
        assert inside(lambda: execute_now(rows[0].pk, using=alias)) == 42
        second = start(alias, lambda: in_transaction(alias, lambda: execute_now(rows[1].pk, using=alias)))
        wait_until_waiting(alias, second)
    assert finish(second) == 42


def in_transaction(alias, function):
    with transaction.atomic(alias):
        return function()


def test_a_dead_letter_whose_key_another_has_is_refused(alias, handle):
    handler = handle(lambda number: number * 2, name="tests.unique", unique=True, database=alias)
    first = handler.enqueue(4)
    move_to_dead_letter(first, using=alias)
    second = handler.enqueue(4)
    with pytest.raises(DuplicateJob, match=str(second.pk)):
        execute_now(first.pk, using=alias)
    assert tables_of(alias) == {first.pk: [DeadLetterJob], second.pk: [Job]}
    delete_jobs(second, using=alias)
    assert execute_now(first.pk, using=alias) == 8


@pytest.mark.every_database
def test_a_dead_letter_that_loses_its_key_after_it_was_looked_at_stays(alias, handle, monkeypatch):
    handler = handle(lambda number: number * 2, name="tests.unique", unique=True, database=alias)
    first = handler.enqueue(4)
    move_to_dead_letter(first, using=alias)
    seen = find_job(first.pk, alias)
    second = handler.enqueue(4)
    monkeypatch.setattr("jobexec.executor.execute_now.find_job", lambda *args: seen)
    with pytest.raises(JobNotFound, match="has just changed"):
        execute_now(first.pk, using=alias)
    assert tables_of(alias) == {first.pk: [DeadLetterJob], second.pk: [Job]}


def test_a_refusal_does_not_spoil_the_callers_transaction(alias):
    row = double(Job, alias)
    acquire(alias, "elsewhere")
    with transaction.atomic(using=alias):
        with pytest.raises(JobLocked):
            execute_now(row.pk, using=alias)
        Group.objects.using(alias).create(name="kept")
    assert Group.objects.using(alias).get().name == "kept"


@pytest.mark.transactional
def test_in_a_broken_transaction_the_handlers_error_is_what_is_raised(alias, handle):
    def spoil():
        Group.objects.using(alias).create(name="twice")
        Group.objects.using(alias).create(name="twice")

    handle(spoil, name="tests.spoil")
    row = make_row(Job, alias, handler_type="tests.spoil")
    with pytest.raises(IntegrityError), transaction.atomic(using=alias):
        execute_now(row.pk, using=alias)
    assert Job.objects.using(alias).get().lock_owner is None, "rolled back with the caller's transaction"


def test_longer_than_its_lock_and_taken_by_somebody_else(alias, handle):
    with FrozenClock() as clock:

        def slow(context):
            clock.tick(timedelta(minutes=6))
            with pytest.raises(LockLost):
                context.check_lease()
            Job.objects.using(alias).update(lock_owner="another", revision=9)

        handle(slow, name="tests.slow", takes_context=True)
        row = make_row(Job, alias, handler_type="tests.slow")
        with pytest.raises(LockLost):
            execute_now(row.pk, using=alias)
    assert Job.objects.using(alias).get().lock_owner == "another"


@pytest.mark.transactional
def test_an_error_in_a_hook_on_the_commit_is_raised_but_no_failure(alias, handle):
    handle(lambda: transaction.on_commit(lambda: 1 / 0, using=alias), name="tests.hook")
    row = make_row(Job, alias, handler_type="tests.hook", atomic=True)
    with pytest.raises(ZeroDivisionError):
        execute_now(row.pk, using=alias)
    assert tables_of(alias) == {}
    assert [entry.state for entry in JobLog.objects.using(alias).all()] == ["successful"]
