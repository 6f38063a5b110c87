"""Outcomes that cannot be written at once: the database is away, a commit is in doubt, an outcome is poison."""

import threading

import pytest
from django.db import OperationalError

from jobexec import signals
from jobexec.executor.loops import settlement
from jobexec.executor.run import outcomes
from jobexec.executor.run.outcomes import Outcome
from jobexec.models import DeadLetterJob, Job, JobLog, TimerJob
from tests.support.factories import a_failure, a_run, acquire, make_job, tables_of
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.transactional


def done(alias, work):
    return Outcome(work, a_run(alias))


@pytest.fixture
def outage(monkeypatch):
    """Between `outage.set()` and `outage.clear()` the database is away; `outage.tries` counts."""
    event = threading.Event()
    event.tries = 0
    for name in ("complete_or_lose", "fail_jobs", "release_jobs"):
        monkeypatch.setattr(outcomes, name, _cut(event, getattr(outcomes, name)))
    unreachable = settlement.unreachable
    monkeypatch.setattr(settlement, "unreachable", lambda *args: event.is_set() or unreachable(*args))
    return event


def _cut(event, function):
    def call(*args, **kwargs):
        if event.is_set():
            event.tries += 1
            raise OperationalError("server closed the connection unexpectedly")
        return function(*args, **kwargs)

    return call


def test_outcomes_survive_a_database_that_is_away(alias, service, jobs, outage):
    works = jobs(4)
    outage.set()
    service.start()
    service.submit(done(alias, works[0]))
    service.submit(Outcome(works[1], a_run(alias), a_failure()))
    service.submit(Outcome(works[2]))
    until(lambda: outage.tries >= 3)
    assert not service.empty
    assert {job.id for job in service.jobs_in_hand()} == {work.id for work in works[:3]}
    service.submit(done(alias, works[3]))
    outage.clear()
    until(lambda: service.empty)
    assert tables_of(alias) == {works[1].id: [TimerJob], works[2].id: [Job]}
    assert service.jobs_in_hand() == []


def test_a_commit_in_doubt_is_tried_again_and_not_counted_as_lost(alias, service, jobs, monkeypatch, caplog):
    real, doubt = outcomes.complete_or_lose, []

    def complete(using, completed, *more):
        lost = real(using, completed, *more)
        if not doubt:
            doubt.append({job.id for job, _ in completed} - lost)
            raise OperationalError("the connection was cut after COMMIT was sent")
        return lost

    monkeypatch.setattr(outcomes, "complete_or_lose", complete)
    works = jobs(2)
    service.start()
    for work in works:
        service.submit(done(alias, work))
    until(lambda: service.empty and doubt)
    assert (len(doubt[0]), tables_of(alias)) == (2, {})
    assert "lock was lost; this outcome is discarded" not in caplog.text
    assert JobLog.objects.using(alias).count() == 2, "written once, although it was tried twice"


def test_what_was_settled_before_an_error_in_its_group_counts(alias, service, jobs, monkeypatch, caplog):
    real, failures = outcomes.fail_jobs, []

    def fail(*args):
        if not failures:
            failures.append(1)
            raise OperationalError("cut")
        return real(*args)

    monkeypatch.setattr(outcomes, "fail_jobs", fail)
    bad, good = jobs(2)
    ends = [Outcome(bad, a_run(alias), a_failure()), done(alias, good)]
    heard = []
    signals.job_completed.connect(receiver := lambda jobs, **kwargs: heard.extend(job.id for job in jobs))
    try:
        for end in ends:
            service.submit(end)
        service.start()
        until(lambda: service.empty)
    finally:
        signals.job_completed.disconnect(receiver)
    assert (heard, [end.counted for end in ends]) == ([good.id], [True, True])
    assert "is discarded" not in caplog.text


@pytest.mark.parametrize("error", [ValueError("cannot be written"), OperationalError("max_allowed_packet")])
def test_a_poison_outcome_does_not_take_its_neighbours(alias, service, jobs, monkeypatch, error):
    real, works = outcomes.fail_jobs, jobs(4)
    poison = works[1].id

    def fail(using, failed):
        if any(work.id == poison and failure.kind == "error" for work, failure, _ in failed):
            raise error
        return real(using, failed)

    monkeypatch.setattr(outcomes, "fail_jobs", fail)
    for work in works[:3]:
        service.submit(Outcome(work, a_run(alias), a_failure()))
    service.submit(done(alias, works[3]))
    service.start()
    until(lambda: TimerJob.objects.using(alias).count() == 2)
    until(lambda: works[3].id not in tables_of(alias))
    if isinstance(error, ValueError):
        until(lambda: service.empty)
        message = DeadLetterJob.objects.using(alias).get().exception_message
        assert message == "ValueError: no (The outcome could not be written: ValueError: cannot be written)"
    else:  # may pass: it is kept and tried again
        assert not service.empty
        monkeypatch.setattr(outcomes, "fail_jobs", real)
        until(lambda: service.empty)
        assert TimerJob.objects.using(alias).count() == 3


def test_a_row_that_cannot_even_become_a_dead_letter_by_a_move_is_buried(alias, service, jobs, monkeypatch):
    monkeypatch.setattr(outcomes, "fail_jobs", lambda *args: 1 / 0)
    (work,) = jobs(1, process_instance_id="order-1")
    service.start()
    assert service.settle(Outcome(work, a_run(alias), a_failure())) is True
    row = DeadLetterJob.objects.using(alias).get()
    assert "The outcome could not be written: ZeroDivisionError" in row.exception_message
    make_job(alias, process_instance_id="order-1")
    assert len(acquire(alias, "another")) == 1, "the process instance is free again"


@pytest.mark.parametrize("buried", [False, True])
def test_one_that_still_runs_keeps_its_process_instance_whatever_becomes_of_it(
    alias, service, jobs, monkeypatch, buried
):
    real = outcomes.fail_jobs

    def fail(using, failed):
        if buried or any(failure.kind == "error" for _, failure, _ in failed):
            raise ValueError("cannot be written")
        return real(using, failed)

    monkeypatch.setattr(outcomes, "fail_jobs", fail)
    (work,) = jobs(1, process_instance_id="order-1")
    service.start()
    assert service.settle(Outcome(work, a_run(alias), a_failure(keeps_instance=True))) is True
    assert tables_of(alias) == {work.id: [DeadLetterJob]}
    make_job(alias, process_instance_id="order-1")
    assert acquire(alias, "another") == []
    service.submit(Outcome(work))  # its thread has ended
    until(lambda: service.empty)
    assert len(acquire(alias, "another")) == 1


def test_a_job_is_not_given_back_before_its_timeout_is_written(alias, service, jobs, monkeypatch):
    real, tries = outcomes.fail_jobs, []

    def fail(*args):
        tries.append(1)
        if len(tries) <= 2:  # as a group, and alone
            raise OperationalError("deadlock detected")
        return real(*args)

    monkeypatch.setattr(outcomes, "fail_jobs", fail)
    timed_out, other = jobs(2)
    service.submit(Outcome(timed_out, a_run(alias), a_failure(keeps_instance=True)))
    service.submit(Outcome(timed_out))
    service.submit(Outcome(other))
    service.start()
    until(lambda: service.empty)
    assert tables_of(alias) == {timed_out.id: [TimerJob], other.id: [Job]}


def test_a_logging_filter_that_fails_costs_no_outcome_and_no_thread(alias, service, jobs, outage):
    def fail(record):
        raise RuntimeError("a filter of the project's")

    works = jobs(2)
    Job.objects.using(alias).filter(pk=works[0].id).update(revision=99)
    outage.set()
    settlement.logger.addFilter(fail)
    try:
        service.submit(done(alias, works[0]))
        service.submit(done(alias, works[1]))
        service.start()
        until(lambda: outage.tries)
        outage.clear()
        until(lambda: service.empty)
    finally:
        settlement.logger.removeFilter(fail)
    assert service.alive
    assert tables_of(alias) == {works[0].id: [Job]}


def test_stop_writes_what_is_left_and_gives_up_at_its_deadline(alias, service, jobs, outage):
    works = jobs(2)
    outage.set()
    service.start()
    service.submit(done(alias, works[0]))
    until(lambda: outage.tries)
    settled = []
    waiting = threading.Thread(target=lambda: settled.append(service.settle(done(alias, works[1]))))
    waiting.start()
    until(lambda: len(service.jobs_in_hand()) == 2)
    assert service.stop(0.1) is False
    waiting.join(TIMEOUT)
    assert settled == [False], "who waits for a sibling's commit is let go"
    assert service.settle(done(alias, works[1])) is False, "and nobody waits for a settlement that has stopped"
    outage.clear()
    service.start()
    until(lambda: service.empty)
    assert tables_of(alias) == {}
