"""Exclusive siblings in one thread, and what a handler can ask about its run."""

import logging
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError, transaction

from jobexec.clock import FrozenClock
from jobexec.exceptions import LockLost
from jobexec.executor.run import execution
from jobexec.models import DeadLetterJob, ExclusiveLock, Job, TimerJob
from jobexec.runtime.threads import call_in_thread
from tests.support.executor import Host, run_one
from tests.support.factories import acquire, make_job, tables_of
from tests.support.waiting import TIMEOUT

pytestmark = pytest.mark.transactional


def siblings(alias, *handlers):
    return [make_job(alias, handler_type=name, process_instance_id="order-1") for name in handlers]


def test_a_siblings_outcome_is_committed_before_the_next_one_starts(alias, handle):
    seen = []
    handle(lambda: seen.append(Job.objects.using(alias).count()), name="tests.count")
    siblings(alias, *["tests.count"] * 3)
    run_one(alias)
    assert seen == [3, 2, 1]
    assert not ExclusiveLock.objects.using(alias).exists()


def test_a_sibling_that_fails_does_not_keep_the_others_from_running(alias, handle):
    seen = []
    handle(lambda: 1 / 0, name="tests.fail")
    handle(lambda: seen.append(TimerJob.objects.using(alias).count()), name="tests.count")
    siblings(alias, "tests.fail", "tests.count")
    run_one(alias)
    assert seen == [1]
    assert TimerJob.objects.using(alias).get().exception_message.startswith("ZeroDivisionError")


def test_what_may_not_start_any_more_is_given_back(alias, handle):
    host = Host()
    handle(lambda: setattr(host, "shutting_down", True), name="tests.stop")
    rows = siblings(alias, "tests.stop", "tests.stop", "tests.stop")
    run_one(alias, host)
    assert tables_of(alias) == {row.pk: [Job] for row in rows[1:]}
    for row in Job.objects.using(alias).all():
        assert (row.lock_owner, row.retries, row.attempts, row.lost_runs) == (None, 3, 0, 0)
    assert not ExclusiveLock.objects.using(alias).exists()


def test_siblings_after_an_outcome_in_doubt_are_given_back_and_not_left_locked(alias, handle):
    class Doubtful(Host):
        def settle(self, outcome):
            super().settle(outcome)  # the commit went through, its confirmation did not arrive
            return False

    began = []
    handle(lambda: began.append(1), name="tests.begin")
    rows = siblings(alias, *["tests.begin"] * 3)
    run_one(alias, Doubtful())
    assert len(began) == 1
    assert tables_of(alias) == {row.pk: [Job] for row in rows[1:]}
    assert not Job.objects.using(alias).exclude(lock_owner=None).exists()
    assert len(acquire(alias, "another")) == 2


def test_siblings_are_given_back_after_an_error_that_nobody_foresaw(alias, handle, monkeypatch):
    handle(lambda: None, name="tests.begin")
    rows = siblings(alias, *["tests.begin"] * 3)
    real, calls = execution.execute, []

    def execute(work, host):
        calls.append(work.id)
        if len(calls) == 2:
            raise SystemExit
        return real(work, host)

    monkeypatch.setattr(execution, "execute", execute)
    with pytest.raises(SystemExit):
        run_one(alias)
    assert tables_of(alias) == {row.pk: [Job] for row in rows[1:]}
    assert len(acquire(alias, "another")) == 2


def test_nothing_starts_once_the_lock_is_lost(alias, handle):
    host = Host()
    host.lost.add("one")
    began = []
    handle(lambda: began.append(1), name="tests.begin")
    siblings(alias, "tests.begin")
    run_one(alias, host)
    assert began == []
    assert Job.objects.using(alias).get().lock_owner is None


@pytest.mark.parametrize("kind", [{"lost_runs": 1}, {"atomic": True}])
def test_a_database_that_is_away_at_the_start_costs_nothing(alias, handle, monkeypatch, kind):
    """The start of a suspect cannot be written, the transaction of an atomic job cannot be opened: nothing has run."""

    def away(*args, **kwargs):
        raise OperationalError("server closed the connection unexpectedly")

    began = []
    handle(lambda: began.append(1), name="tests.begin")
    siblings(alias, "tests.begin", "tests.begin")
    Job.objects.using(alias).update(**kind)
    jobs = acquire(alias)
    host = Host()
    with monkeypatch.context() as patch:
        patch.setattr(execution, "mark_suspect_started", away)
        patch.setattr(transaction.Atomic, "__enter__", away)
        left = execution.execute(jobs[0], host)
    assert (left.run, left.failure, began) == (None, None, [])
    monkeypatch.setattr(execution, "execute", lambda work, host: left)
    call_in_thread("jobexec-one", lambda: execution.execute_batch(jobs, host), TIMEOUT)
    expected = [(None, 3, 0, kind.get("lost_runs", 0))] * 2
    assert [(row.lock_owner, row.retries, row.attempts, row.lost_runs) for row in Job.objects.using(alias)] == expected
    assert not ExclusiveLock.objects.using(alias).exists()


def test_an_unknown_handler_is_left_to_others_and_then_a_dead_letter_that_names_it(alias, configure, caplog):
    configure(UNKNOWN_HANDLER_TIMEOUT=3600, UNKNOWN_HANDLER_DELAY=60)
    start = datetime(2026, 3, 1, 12, tzinfo=UTC)
    with FrozenClock(start) as clock:
        make_job(alias, handler_type="tests.from_next_release")
        run_one(alias)
        row = TimerJob.objects.using(alias).get()
        assert (row.retries, row.attempts, row.unknown_since) == (3, 0, start)
        assert row.due_date == start + timedelta(seconds=60)
        assert f"tests.from_next_release {row.pk} was put back: HandlerNotFound" in caplog.text
        assert "failed" not in caplog.text
        clock.tick(3600)
        from jobexec.operations import trigger_due_timers

        assert trigger_due_timers(alias, 10) == 1
        run_one(alias)
    assert "'tests.from_next_release'" in DeadLetterJob.objects.using(alias).get().exception_message


def test_a_suspect_starts_with_a_marker_that_is_committed(alias, handle):
    seen = []
    handle(lambda: seen.append(Job.objects.using(alias).get().start_time), name="tests.look")
    row = make_job(alias, handler_type="tests.look")
    run_one(alias)
    make_job(alias, handler_type="tests.look")
    Job.objects.using(alias).update(lost_runs=1)
    run_one(alias)
    assert seen[0] is None
    assert seen[1] is not None
    assert row.start_time is None


def test_the_outcome_of_a_job_that_runs_alone_is_committed_before_anything_starts(alias, handle):
    class Noting(Host):
        waited = 0

        def settle(self, outcome):
            self.waited += 1
            return super().settle(outcome)

    handle(lambda: None, name="tests.nothing")
    make_job(alias, handler_type="tests.nothing")
    assert run_one(alias, Noting()).waited == 0
    make_job(alias, handler_type="tests.nothing")
    Job.objects.using(alias).update(lost_runs=1)
    assert run_one(alias, Noting()).waited == 0
    make_job(alias, handler_type="tests.nothing")
    Job.objects.using(alias).update(lost_runs=2)
    assert run_one(alias, Noting()).waited == 1


def test_the_context_tells_about_the_run(alias, handle, caplog):
    seen = {}
    host = Host()

    def look(context, number):
        seen.update(
            job=context.job.pk,
            id=context.id,
            attempt=context.attempt,
            left=context.deadline - context.started_at,
            stopping=context.shutting_down,
        )
        context.check_lease()
        context.logger.info("number %d", number)
        host.shutting_down = True
        seen["later"] = context.shutting_down
        host.lost.add("one")
        with pytest.raises(LockLost):
            context.check_lease()

    handle(look, name="tests.look")
    row = make_job(
        alias,
        handler_type="tests.look",
        handler_configuration={"args": [7], "kwargs": {}},
        timeout=timedelta(seconds=30),
        attempts=4,
    )
    with caplog.at_level(logging.INFO, "jobexec.job"):
        run_one(alias, host)
    expected = {"job": row.pk, "id": row.pk, "attempt": 5, "left": timedelta(seconds=30)}
    assert seen == expected | {"stopping": False, "later": True}
    (record,) = [record for record in caplog.records if record.name == "jobexec.job"]
    assert (record.getMessage(), record.job_id, record.handler_type, record.attempt) == (
        "number 7",
        str(row.pk),
        "tests.look",
        5,
    )


def test_without_a_timeout_there_is_no_deadline(alias, handle):
    seen = []
    handle(lambda context: seen.append(context.deadline), name="tests.look", takes_context=True)
    make_job(alias, handler_type="tests.look")
    run_one(alias)
    assert seen == [None]
