"""What external workers report reaches the circuit breakers of their resources."""

from datetime import timedelta

import pytest
from django.db import transaction

from jobexec import signals
from jobexec.exceptions import JobStateError
from jobexec.models import BlockedJob, BreakerState, ExternalWorkerJob, Incident, Resource
from jobexec.operations.external import (
    complete_external_job,
    fail_external_job,
    lock_external_job,
    throw_external_error,
    unlock_external_job,
    yield_jobs,
)
from jobexec.operations.manage.resources import hold_resource
from jobexec.operations.manage.unlock import unlock
from jobexec.operations.resources import calls
from jobexec.operations.resources.promote import blocked_resources, promote
from tests.support.factories import fetch, make_external

pytestmark = [pytest.mark.every_database, pytest.mark.transactional]
BREAKER = {"minimum_calls": 3, "window": 3, "failure_rate": 100, "trial_calls": 1, "wait": "PT30S"}


@pytest.fixture(autouse=True)
def breaker(configure):
    """A function that changes the breaker."""

    def change(**more):
        configure(RESOURCES={"pay.example": {"breaker": {**BREAKER, **more}}})

    change()
    yield change
    calls._of_workers.clear()


def held(alias):
    make_external(alias, resource="pay.example")
    promote(alias, blocked_resources(alias), 100)
    (job,) = fetch(alias)
    return job


def state(alias):
    row = Resource.objects.using(alias).filter(pk="pay.example").first()
    return row.breaker_state if row else None


def fail(alias, **values):
    fail_external_job(alias, held(alias).key, retries=0, message="TimeoutError: no answer", **values)


def test_failures_open_it_and_a_trial_call_closes_it(alias, frozen):
    for _ in range(3):
        assert state(alias) in (None, BreakerState.CLOSED)
        fail(alias)
    row = Resource.objects.using(alias).get(pk="pay.example")
    assert row.breaker_state == BreakerState.OPEN
    assert row.reason == "3 of the last 3 calls failed, the last with TimeoutError: no answer"
    make_external(alias, resource="pay.example")
    assert promote(alias, ["pay.example"], 10).moved == 0
    frozen.tick(30)
    assert promote(alias, ["pay.example"], 10).moved == 1
    assert state(alias) == BreakerState.HALF_OPEN
    (job,) = fetch(alias)
    complete_external_job(alias, job.key)
    assert state(alias) == BreakerState.CLOSED


def test_successes_count_too(alias):
    fail(alias)
    fail(alias)
    complete_external_job(alias, held(alias).key)
    fail(alias)
    assert state(alias) == BreakerState.CLOSED


def test_a_trial_call_that_fails_opens_it_again(alias, frozen):
    for _ in range(3):
        fail(alias)
    frozen.tick(30)
    fail(alias)
    row = Resource.objects.using(alias).get(pk="pay.example")
    assert (row.breaker_state, row.reason) == (BreakerState.OPEN, "a trial call failed: TimeoutError: no answer")


@pytest.mark.parametrize(
    ("more", "opens"),
    [({}, True), ({"ignores": ["NO_MONEY"]}, False), ({"counts": ["DOWN"]}, False), ({"counts": ["NO_MONEY"]}, True)],
)
def test_the_code_of_an_error_is_what_counts(alias, breaker, more, opens):
    breaker(**more)
    for _ in range(3):
        throw_external_error(alias, held(alias).key, code="NO_MONEY")
    assert (state(alias) == BreakerState.OPEN) is opens


def test_what_is_rolled_back_is_no_call(alias):
    for _ in range(3):
        job = held(alias)
        with transaction.atomic(using=alias):
            fail_external_job(alias, job.key, retries=0)
            transaction.set_rollback(True, using=alias)
        complete_external_job(alias, job.key)
    assert state(alias) == BreakerState.CLOSED


def test_other_settings_begin_anew(alias, breaker):
    fail(alias)
    fail(alias)
    breaker(window=4, minimum_calls=3)
    fail(alias)
    assert state(alias) == BreakerState.CLOSED


def test_an_incident_as_long_as_it_is_open(alias, frozen):
    heard = []

    def hear(state, **kwargs):
        heard.append(state)

    signals.breaker_changed.connect(hear)
    try:
        for _ in range(3):
            fail(alias)
        mine = Incident.objects.using(alias).filter(type="breakerOpen")
        row = mine.get()
        assert (row.resource, row.job_id, row.state, row.handler_type) == ("pay.example", None, "open", "")
        assert row.message == "3 of the last 3 calls failed, the last with TimeoutError: no answer"
        frozen.tick(30)
        fail(alias)
        assert mine.get().message == "a trial call failed: TimeoutError: no answer"
        frozen.tick(30)
        complete_external_job(alias, held(alias).key)
        row = mine.get()
        assert (row.state, row.end_time) == ("resolved", frozen.now)
        assert heard == ["open", "open", "closed"]
    finally:
        signals.breaker_changed.disconnect(hear)


@pytest.fixture
def opened(alias, frozen):
    """A function that opens the breaker, while a worker holds the job that is returned."""

    def open_it():
        make_external(alias, resource="pay.example", retries=3)
        promote(alias, blocked_resources(alias), 100)
        (job,) = fetch(alias)
        for _ in range(3):
            fail(alias)
        assert state(alias) == BreakerState.OPEN
        return job

    return open_it


def deadline_passes(alias, job, frozen):
    frozen.tick(61)


def worker_fails(alias, job, frozen):
    fail_external_job(alias, job.key, retries=2, message="no answer")


def worker_gives_it_back(alias, job, frozen):
    unlock_external_job(alias, job.key)


def operator_gives_it_back(alias, job, frozen):
    assert unlock(job.id, using=alias).changed == [job.id]


def client_has_gone(alias, job, frozen):
    assert yield_jobs(alias, [job]) == 1


LOST = [deadline_passes, worker_fails, worker_gives_it_back, operator_gives_it_back, client_has_gone]


@pytest.mark.parametrize("state_of_breaker", [BreakerState.OPEN, BreakerState.HALF_OPEN])
@pytest.mark.parametrize("lose", LOST)
def test_what_a_worker_had_before_it_opened_waits_for_a_new_permit(alias, frozen, opened, lose, state_of_breaker):
    job = opened()
    Resource.objects.using(alias).update(breaker_state=state_of_breaker)
    lose(alias, job, frozen)
    assert fetch(alias, worker="two") == []
    row = BlockedJob.objects.using(alias).get(pk=job.id)
    assert (row.retries, row.lost_runs) == (2 if lose is worker_fails else 3, int(lose is deadline_passes))
    frozen.tick(61)
    assert promote(alias, ["pay.example"], 10).moved == 1
    (trial,) = fetch(alias, worker="two")
    complete_external_job(alias, trial.key)
    assert state(alias) == BreakerState.CLOSED


def test_nobody_locks_it_by_its_key(alias, frozen, opened):
    job = opened()
    lock_external_job(alias, job.key, "one", timedelta(minutes=2))  # the worker that holds it may
    frozen.tick(121)
    with pytest.raises(JobStateError, match=r"the circuit breaker of its resource 'pay.example' is not closed"):
        lock_external_job(alias, job.key, "two", timedelta(minutes=1))
    assert fetch(alias) == []


def test_given_back_in_the_moment_it_opens_nobody_fetches_it_until_it_may_be_a_trial_call(alias, frozen, opened):
    job = opened()
    # As if it were given back after the jobs without a worker had been taken back, and before that was visible.
    ExternalWorkerJob.objects.using(alias).update(lock_owner=None, lock_expiration_time=None, available_at=None)
    assert fetch(alias) == []
    assert BlockedJob.objects.using(alias).filter(pk=job.id).exists()


def test_an_operator_holds_it_open(alias, frozen):
    make_external(alias, resource="pay.example")
    promote(alias, blocked_resources(alias), 100)
    (job,) = fetch(alias)
    hold_resource("pay.example", state="open", using=alias)
    frozen.tick(61)
    assert fetch(alias) == []
    hold_resource("pay.example", state="closed", using=alias)
    assert promote(alias, ["pay.example"], 10).moved == 1
    assert [each.id for each in fetch(alias)] == [job.id]
