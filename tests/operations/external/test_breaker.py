"""What external workers report reaches the circuit breakers of their resources."""

import pytest
from django.db import transaction

from jobexec import signals
from jobexec.models import BreakerState, Incident, Resource
from jobexec.operations.external import complete_external_job, fail_external_job, throw_external_error
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
