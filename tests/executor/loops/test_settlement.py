"""The settlement: outcomes are written in groups, at once when somebody waits, and only under a good lease."""

import threading

import pytest
from django.db import connections

from jobexec.executor.loops import settlement
from jobexec.executor.run.outcomes import Outcome
from jobexec.models import Job, JobLog, TimerJob
from tests.support.executor import all_gone
from tests.support.factories import a_failure, a_run, tables_of
from tests.support.waiting import TIMEOUT, passed, until

pytestmark = pytest.mark.transactional


def done(alias, work):
    return Outcome(work, a_run(alias))


@pytest.fixture
def calls(monkeypatch):
    """The sizes of the groups that were written."""
    sizes = []
    real = settlement.write

    def write(using, group, *more):
        sizes.append(len(group))
        return real(using, group, *more)

    monkeypatch.setattr(settlement, "write", write)
    return sizes


def test_a_single_outcome_is_written_at_once(alias, service, jobs):
    service._within = TIMEOUT
    (work,) = jobs(1)
    service.start()
    service.submit(done(alias, work))
    until(lambda: all_gone(alias), timeout=TIMEOUT / 2)


def test_many_outcomes_are_written_in_one_group_of_all_kinds(alias, service, jobs, calls):
    works = jobs(6)
    service.submit(Outcome(works[0]))
    service.submit(Outcome(works[1], a_run(alias), a_failure()))
    for work in works[2:]:
        service.submit(done(alias, work))
    service.start()
    assert service.stop(TIMEOUT)
    assert calls == [6]
    assert tables_of(alias) == {works[0].id: [Job], works[1].id: [TimerJob]}
    assert Job.objects.using(alias).get().lock_owner is None
    assert JobLog.objects.using(alias).filter(state="successful").count() == 4


def test_whoever_waits_for_a_sibling_does_not_wait_for_the_group(alias, service, jobs):
    service._within = TIMEOUT
    first, second = jobs(2)
    service.start()
    service.submit(done(alias, first))
    assert service.settle(done(alias, second)) is True
    until(lambda: all_gone(alias), timeout=TIMEOUT / 2)


def test_an_outcome_that_is_really_lost_is_said(alias, service, jobs, caplog):
    (work,) = jobs(1)
    Job.objects.using(alias).update(lock_owner="another", revision=9)
    service.start()
    assert service.settle(done(alias, work)) is False
    assert "its lock was lost; this outcome is discarded" in caplog.text
    assert Job.objects.using(alias).get().lock_owner == "another"


def test_past_the_lease_nothing_is_written_until_a_heartbeat_has_decided(alias, service, jobs, calls):
    (work,) = jobs(1)
    service.node._good_until = 0.0
    asked = threading.Event()
    decided = service.node.wait_until_decided

    def wait(*args):
        asked.set()
        return decided(*args)

    service.node.wait_until_decided = wait
    service.start()
    service.submit(done(alias, work))
    passed(asked)
    assert calls == []
    assert service.node.renew() is True
    until(lambda: all_gone(alias))


def test_a_failure_wakes_the_timers(alias, service, jobs):
    woken = threading.Event()
    service._after_failure = woken.set
    (work,) = jobs(1)
    service.start()
    service.submit(Outcome(work, a_run(alias), a_failure()))
    passed(woken)
    assert TimerJob.objects.using(alias).exists()


def test_an_idle_settlement_closes_its_connection(alias, service, jobs, monkeypatch):
    monkeypatch.setattr(settlement, "_IDLE_SECONDS", 0.01)
    closed = threading.Event()
    monkeypatch.setattr("jobexec.runtime.connections.rest_connections", lambda: (connections.close_all(), closed.set()))
    (work,) = jobs(1)
    service.start()
    assert service.settle(done(alias, work)) is True
    passed(closed)
