"""What a failure is, what it costs and what is said of it; and in which transaction a handler runs."""

import logging
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction

from jobexec import clock, signals
from jobexec.exceptions import DoNotRetry
from jobexec.executor.execute_now import execute_now
from jobexec.executor.run.execution import ended
from jobexec.executor.run.outcomes import Outcome
from jobexec.models import DeadLetterJob, ExclusiveLock, Job, JobLog, TimerJob
from jobexec.operations import requeue, trigger_due_timers
from jobexec.operations.values.failure import MESSAGE_LENGTH, STACK_LENGTH
from tests.support.executor import all_gone, run_one
from tests.support.factories import acquire, make_job, table_of
from tests.support.waiting import until

pytestmark = pytest.mark.transactional


@pytest.mark.parametrize("atomic", [False, True])
def test_a_broken_constraint_is_a_failure_and_no_conflict(alias, handle, atomic):
    def twice():
        for _ in range(2):
            Group.objects.using(alias).create(name="one of a kind")

    handle(twice, name="tests.twice")
    make_job(alias, handler_type="tests.twice", atomic=atomic)
    run_one(alias)
    row = TimerJob.objects.using(alias).get()
    assert (row.retries, row.conflicts, row.attempts) == (2, 0, 1)
    assert row.exception_message.startswith("IntegrityError")
    assert Group.objects.using(alias).count() == (0 if atomic else 1), "an atomic job undoes what it did"


def test_a_failure_inside_a_nested_transaction_costs_one_retry_and_undoes_only_that(alias, handle):
    def nested():
        Group.objects.using(alias).create(name="before")
        with transaction.atomic(alias):
            Group.objects.using(alias).create(name="inside")
            execute_now(make_job(alias, handler_type="tests.inner").pk, using=alias)

    def inner():
        raise ValueError("no")

    handle(nested, name="tests.nested")
    handle(inner, name="tests.inner")
    make_job(alias, handler_type="tests.nested")
    run_one(alias)
    row = TimerJob.objects.using(alias).get()
    assert (row.handler_type, row.retries, row.attempts) == ("tests.nested", 2, 1)
    assert [group.name for group in Group.objects.using(alias).all()] == ["before"]
    assert [entry.state for entry in JobLog.objects.using(alias).all()] == ["failed"]


@pytest.mark.parametrize("retries", [{}, {"retries": "R9/PT5M"}])
def test_do_not_retry_counts_whatever_the_plan_says_and_keeps_its_cause(alias, handle, retries):
    def give_up():
        raise DoNotRetry("never") from ValueError("the reason")

    handle(give_up, name="tests.fail", **retries)
    make_job(alias, handler_type="tests.fail", retries=9)
    run_one(alias)
    row = DeadLetterJob.objects.using(alias).get()
    assert (row.retries, row.attempts, row.exception_message) == (0, 1, "DoNotRetry: never")
    assert "ValueError: the reason" in row.exception_stack


def test_do_not_retry_as_the_cause_of_another_error_is_an_error_like_any(alias, handle):
    def wrap():
        raise ValueError("wrapped") from DoNotRetry("never")

    handle(wrap, name="tests.fail")
    make_job(alias, handler_type="tests.fail")
    run_one(alias)
    assert TimerJob.objects.using(alias).get().retries == 2


@pytest.mark.gate
def test_a_plan_that_always_says_yes_cannot_go_beyond_the_attempts(alias, handle):
    runs = []

    def plan(failures, error):
        return 0

    plan.attempts = 2
    handle(lambda: runs.append(1) or 1 / 0, name="tests.fail", retries=plan)
    make_job(alias, handler_type="tests.fail", retries=2)
    for _ in range(4):
        trigger_due_timers(alias, 10)
        run_one(alias)
    assert len(runs) == 2
    assert DeadLetterJob.objects.using(alias).get().attempts == 2


def test_each_failed_run_is_one_line_in_the_log(alias, handle, caplog):
    def fail():
        raise ValueError("no")

    handle(fail, name="tests.fail", retries="R3/PT0S")
    row = make_job(alias, handler_type="tests.fail")
    with caplog.at_level(logging.INFO, "jobexec.execution"):
        for _ in range(3):
            trigger_due_timers(alias, 10)
            run_one(alias)
    records = [record for record in caplog.records if record.name == "jobexec.execution"]
    assert [(record.levelname, record.job_id) for record in records] == [("WARNING", str(row.pk))] * 3
    assert ["(attempt 1)" in record.getMessage() for record in records] == [True, False, False]
    assert {record.exc_info for record in records} == {None}, "the stack is in the row and in the job log"
    assert "ValueError: no" in DeadLetterJob.objects.using(alias).get().exception_stack


@pytest.mark.gate
def test_a_message_of_megabytes_is_one_cut_line_in_the_log(alias, handle, caplog):
    def fail():
        raise ValueError(f"no\n{'x' * 20_000_000}")

    handle(fail, name="tests.fail")
    make_job(alias, handler_type="tests.fail", retries=1)
    run_one(alias)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "jobexec.execution"]
    assert "(attempt 1): ValueError: no\\nxxx" in line
    assert line.endswith("x…")
    assert line.count("x") == MESSAGE_LENGTH - len("ValueError: no\n")
    assert max(len(record.getMessage()) for record in caplog.records) == len(line), "nor in any other line"
    row = DeadLetterJob.objects.using(alias).get()
    assert len(row.exception_message) == MESSAGE_LENGTH
    assert len(row.exception_stack) < 2 * STACK_LENGTH


@pytest.mark.gate
def test_a_storm_of_failures_is_one_line_a_minute(alias, handle, jobexec_clock, caplog):
    def fail(number):
        raise (KeyError if number == 99 else ValueError)(number)

    handle(fail, name="tests.fail", retries="R1/PT0S")

    def lines(*numbers):
        for number in numbers:
            make_job(alias, handler_type="tests.fail", handler_configuration={"args": [number], "kwargs": {}})
            run_one(alias)
        said = [record.getMessage() for record in caplog.records if record.name == "jobexec.execution"]
        caplog.clear()
        return [text.partition(": ")[2] for text in said]

    assert lines(*range(10)) == [f"ValueError: {number}" for number in range(10)]
    assert lines(10, 11, 12) == []
    assert lines(99) == ["KeyError: 99"], "another group has lines of its own"
    jobexec_clock.advance(60)
    assert lines(13, 14) == ["ValueError: 13 (3 more of this group not logged)"]
    jobexec_clock.advance(60)
    assert lines(15, 16) == ["ValueError: 15 (1 more of this group not logged)"]
    jobexec_clock.advance(60)
    jobexec_clock.advance(60)
    assert lines(17, 18) == ["ValueError: 17 (1 more of this group not logged)"]
    jobexec_clock.advance(60)
    assert lines(19) == ["ValueError: 19 (1 more of this group not logged)"]
    jobexec_clock.advance(60)
    assert lines(20, 21) == ["ValueError: 20", "ValueError: 21"], "the storm is over"


@pytest.mark.gate
@pytest.mark.parametrize("how", ["its minute", "a stop"])
def test_the_end_of_a_storm_is_logged(alias, handle, make_executor, jobexec_clock, caplog, how):
    def fail(number):
        raise ValueError(number)

    handle(fail, name="tests.fail", retries="R1/PT0S")
    executor = make_executor()

    def lines():
        said = [record.getMessage() for record in caplog.records if record.name == "jobexec.execution"]
        caplog.clear()
        return [text.partition(": ")[2] for text in said]

    for number in range(25):
        make_job(alias, handler_type="tests.fail", handler_configuration={"args": [number], "kwargs": {}})
        run_one(alias)
    assert lines() == [f"ValueError: {number}" for number in range(10)]
    monitor = executor.engines[alias].monitor
    monitor.run_once()
    assert lines() == [], "its minute is not over"
    if how == "a stop":
        executor.start()
        assert executor.stop()
    else:
        jobexec_clock.advance(60)
        monitor.run_once()
    assert lines() == ["ValueError: 24 (14 more of this group not logged)"]
    monitor.run_once()
    assert lines() == []


@pytest.mark.gate
def test_while_a_storm_lasts_the_monitor_logs_one_line_a_minute(alias, handle, make_executor, jobexec_clock, caplog):
    def fail(number):
        raise ValueError(number)

    handle(fail, name="tests.fail", retries="R1/PT0S")
    monitor = make_executor().engines[alias].monitor

    def lines(*numbers):
        for number in numbers:
            make_job(alias, handler_type="tests.fail", handler_configuration={"args": [number], "kwargs": {}})
            run_one(alias)
            monitor.run_once()
        said = [record.getMessage() for record in caplog.records if record.name == "jobexec.execution"]
        caplog.clear()
        return [text.partition(": ")[2] for text in said]

    def minute():
        jobexec_clock.advance(60)
        monitor.run_once()

    assert lines(*range(12)) == [f"ValueError: {number}" for number in range(10)]
    minute()
    assert lines(12, 13, 14) == ["ValueError: 11 (1 more of this group not logged)"]
    minute()
    assert lines(15) == ["ValueError: 14 (2 more of this group not logged)"]
    minute()
    assert lines() == ["ValueError: 15"]
    minute()
    assert lines(16, 17) == ["ValueError: 16", "ValueError: 17"], "the storm is over"


def test_a_storm_of_late_ends_is_ten_lines_in_the_log(alias, caplog):
    make_job(alias, handler_type="tests.slow")
    (work,) = acquire(alias, "here:1")
    for _ in range(12):
        late = Outcome(work)
        late.timed_out = True
        ended(late, SimpleNamespace(node_name="here"), clock.now(alias), clock.monotonic())
    assert len([text for text in caplog.messages if "finally ended after" in text]) == 10


def test_who_runs_a_job_himself_gets_the_error_and_no_line_in_the_log(alias, handle, caplog):
    def fail():
        raise ValueError("no")

    handle(fail, name="tests.fail")
    row = make_job(alias, handler_type="tests.fail")
    with caplog.at_level(logging.DEBUG, "jobexec"), pytest.raises(ValueError, match="no"):
        execute_now(row.pk, using=alias)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert TimerJob.objects.using(alias).get().retries == 2


@pytest.mark.parametrize("fails", [False, True])
def test_a_handler_runs_in_no_transaction_and_holds_its_process_instance(alias, handle, fails):
    seen = []

    def look():
        connection = connections[alias]
        connection.ensure_connection()
        seen.append((connection.in_atomic_block, connection.get_autocommit()))
        seen.append(ExclusiveLock.objects.using(alias).get().process_instance_id)
        if fails:
            raise ValueError("no")

    handle(look, name="tests.look")
    make_job(alias, handler_type="tests.look", process_instance_id="order-1")
    run_one(alias)
    assert seen == [(False, True), "order-1"]
    assert not ExclusiveLock.objects.using(alias).exists()
    assert [row.retries for row in TimerJob.objects.using(alias).all()] == [2] * fails


@pytest.mark.gate
def test_the_signals_tell_the_life_of_a_job_in_order(alias, make_executor, handle):
    told = []
    names = [name for name in vars(signals) if name.startswith("job_")]
    receivers = {
        name: lambda name=name, jobs=(), job=None, **kwargs: told.append((name, (job or jobs[0]).id)) for name in names
    }
    runs = []

    def fail_twice():
        runs.append(1)
        if len(runs) < 3:
            raise ValueError("no")

    handle(fail_twice, name="tests.flaky", retries="R2/PT0.01S")
    for name, receiver in receivers.items():
        getattr(signals, name).connect(receiver)
    try:
        # Nothing runs while we create and requeue: these signals are sent by our own thread, after it woke the others.
        row = make_job(alias, handler_type="tests.flaky", retries=2)
        executor = make_executor({"WAIT_TIME": 0.01, "MAX_WAIT": 0.1, "MAX_WAIT_WHEN_LISTENING": 0.1})
        executor.start()
        until(lambda: table_of(alias, row) is DeadLetterJob)
        assert executor.stop()
        assert requeue(row.pk, using=alias)
        executor.start()
        until(lambda: all_gone(alias))
        assert executor.stop()
    finally:
        for name, receiver in receivers.items():
            getattr(signals, name).disconnect(receiver)
    run = ["job_acquired", "job_started"]
    life = ["job_created", *run, "job_failed", *run, "job_dead_lettered", "job_requeued", *run, "job_completed"]
    assert told == [(name, row.pk) for name in life]
    assert not Job.objects.using(alias).exists()
