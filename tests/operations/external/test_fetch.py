"""Fetching external jobs: who gets which, for how long, and what is set aside on the way."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

import jobexec
from jobexec.exceptions import InvalidJob, NotAllowed
from jobexec.models import DeadLetterJob, ExclusiveLock, ExternalWorkerJob, Incident, SuspendedJob
from jobexec.operations import suspend
from jobexec.operations.external import fail_external_job
from jobexec.operations.external import fetch as external_fetch
from jobexec.operations.external.fetch import activate_jobs, yield_jobs
from jobexec.operations.external.types import Caller, Fetch
from tests.support.factories import make_job

pytestmark = pytest.mark.every_database

MINUTE = timedelta(minutes=1)


def fetch(alias: str, type: str = "payment", worker: str = "w1", **values: Any) -> list[Any]:
    asked: dict[str, Any] = {"timeout": MINUTE, "max_jobs": 10} | values
    return activate_jobs(alias, Fetch(type=type, worker=worker, **asked))


def make(alias: str, type: str = "payment", **options: Any) -> Any:
    return jobexec.external_job(type, database=alias, **options)


def stored(job: Any, alias: str) -> ExternalWorkerJob:
    return ExternalWorkerJob.objects.using(alias).get(pk=job.pk if hasattr(job, "pk") else job.id)


def test_a_worker_gets_what_waits_in_order(alias):
    low, high, later = make(alias), make(alias, priority=5), make(alias)
    make(alias, "mail")
    jobs = fetch(alias)
    assert [job.id for job in jobs] == [high.pk, low.pk, later.pk]
    row = stored(low, alias)
    assert (row.lock_owner, row.attempts, row.revision) == ("w1", 1, 2)
    assert row.lock_expiration_time == row.available_at == jobs[1].deadline
    assert row.locked
    assert fetch(alias, worker="w2") == []


def test_it_gets_all_that_it_must_know(alias):
    make(
        alias,
        variables={"amount": 5},
        headers={"region": "eu"},
        tags=["a"],
        priority=2,
        tenant_id="acme",
        process_instance_id="p1",
        process_definition_key="shop",
        element_id="pay",
        business_key="B-1",
        retries=4,
    )
    (job,) = fetch(alias)
    assert (job.variables, job.headers, job.tags) == ({"amount": 5}, {"region": "eu"}, ("a",))
    assert (job.priority, job.tenant_id, job.process_instance_id) == (2, "acme", "p1")
    assert (job.process_definition_key, job.element_id, job.business_key) == ("shop", "pay", "B-1")
    assert (job.retries, job.failures, job.worker, job.lease_token) == (4, 0, "w1", "")


def test_only_the_variables_that_it_wants(alias):
    make(alias, variables={"a": 1, "b": 2})
    (job,) = fetch(alias, variables=["b", "none"])
    assert job.variables == {"b": 2}


def test_no_more_than_it_wants(alias):
    first, second = make(alias), make(alias)
    assert [job.id for job in fetch(alias, max_jobs=1)] == [first.pk]
    assert [job.id for job in fetch(alias, max_jobs=1)] == [second.pk]


def test_after_the_deadline_it_is_fetched_again(alias, frozen):
    job = make(alias)
    assert len(fetch(alias)) == 1
    frozen.tick(MINUTE - timedelta(milliseconds=1))
    assert fetch(alias, worker="w2") == []
    frozen.tick(timedelta(milliseconds=1))
    (second,) = fetch(alias, worker="w2")
    row = stored(job, alias)
    assert (second.id, row.lock_owner, row.attempts, row.lost_runs, row.retries) == (job.pk, "w2", 2, 1, 3)


def test_a_deadline_missed_too_often_is_an_incident(alias, frozen):
    job = make(alias, max_deliveries=2)
    for worker in ("w1", "w2"):
        assert fetch(alias, worker=worker)
        frozen.tick(MINUTE)
    assert fetch(alias, worker="w3") == []
    dead = DeadLetterJob.objects.using(alias).get(pk=job.pk)
    assert "'w2'" in dead.exception_message and dead.lost_runs == 2
    assert Incident.objects.using(alias).get(job_id=job.pk).state == "open"
    assert dead.job_key == job.job_key


def test_the_setting_says_how_often_where_the_job_does_not(alias, frozen, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "EXTERNAL_MAX_DELIVERIES": 1}
    job = make(alias)
    assert fetch(alias)
    frozen.tick(MINUTE)
    assert fetch(alias) == []
    assert DeadLetterJob.objects.using(alias).filter(pk=job.pk).exists()


def test_a_page_full_of_siblings_is_filled_up_with_others(alias):
    """Of siblings one at a time is given out; those behind them are free."""
    siblings = [make(alias, process_instance_id="p") for _ in range(12)]
    more = [make(alias, process_instance_id="q") for _ in range(3)]
    free = [make(alias) for _ in range(4)]
    jobs = fetch(alias, max_jobs=5)
    assert [job.id for job in jobs] == [siblings[0].pk, more[0].pk, *(job.pk for job in free[:3])]
    assert [job.id for job in fetch(alias, max_jobs=5)] == [free[3].pk]
    assert ExternalWorkerJob.objects.using(alias).exclude(lock_owner=None).count() == 6


def test_for_a_caller_who_goes_while_his_page_is_filled_up_nothing_is_locked(alias):
    for _ in range(6):
        make(alias, process_instance_id="p")
    make(alias)
    here = [True, False]
    assert fetch(alias, max_jobs=3, is_alive=lambda: here.pop(0)) == []
    assert here == []
    assert not ExternalWorkerJob.objects.using(alias).exclude(lock_owner=None).exists()
    assert not ExclusiveLock.objects.using(alias).exists()
    assert set(ExternalWorkerJob.objects.using(alias).values_list("attempts", flat=True)) == {0}


def test_what_is_not_due_yet_waits(alias, frozen):
    make(alias, delay=60)
    assert fetch(alias) == []
    frozen.tick(MINUTE)
    assert len(fetch(alias)) == 1


def test_for_a_caller_who_has_gone_nothing_is_locked(alias):
    job = make(alias, process_instance_id="p1")
    asked = []

    def gone() -> bool:
        asked.append(1)
        return False

    assert fetch(alias, is_alive=gone) == [] and asked
    row = stored(job, alias)
    assert (row.lock_owner, row.attempts) == (None, 0)
    assert not ExclusiveLock.objects.using(alias).exists()
    assert len(fetch(alias)) == 1


def test_nobody_is_asked_whether_he_lives_when_there_is_nothing(alias):
    assert fetch(alias, is_alive=lambda: pytest.fail("asked")) == []


def test_one_too_large_is_an_incident_and_the_next_is_fetched(alias, settings):
    large, small = make(alias), make(alias)
    configuration = {"variables": {}, "local": {"text": "x" * 2000}}
    ExternalWorkerJob.objects.using(alias).filter(pk=large.pk).update(handler_configuration=configuration)
    settings.JOBEXEC = {**settings.JOBEXEC, "EXTERNAL_MAX_PAYLOAD": 1000}
    assert [job.id for job in fetch(alias, max_jobs=1)] == [small.pk]
    assert "EXTERNAL_MAX_PAYLOAD" in DeadLetterJob.objects.using(alias).get(pk=large.pk).exception_message


def test_what_was_suspended_meanwhile_is_set_aside(alias, frozen):
    job = make(alias, tenant_id="acme")
    assert fetch(alias)
    suspend(tenant_id="acme", using=alias)
    assert stored(job, alias).lock_owner == "w1", "a worker has it"
    other = make(alias, tenant_id="acme")
    frozen.tick(MINUTE)
    assert fetch(alias, worker="w2") == []
    assert set(SuspendedJob.objects.using(alias).values_list("pk", flat=True)) == {job.pk, other.pk}


class TestExclusive:
    def test_one_of_a_process_instance_at_a_time(self, alias, frozen):
        first, _ = make(alias, process_instance_id="p1"), make(alias, process_instance_id="p1")
        free = make(alias, process_instance_id="p1", exclusive=False)
        assert {job.id for job in fetch(alias)} == {first.pk, free.pk}
        assert fetch(alias, worker="w2") == []
        frozen.tick(MINUTE)
        assert first.pk in [job.id for job in fetch(alias, worker="w2", max_jobs=1)], "it holds its instance still"

    def test_executors_and_workers_keep_off_each_other(self, alias, acquire_one):
        make(alias, process_instance_id="p1")
        make_job(alias, process_instance_id="p1")
        assert len(fetch(alias)) == 1
        assert acquire_one(alias) == []

    def test_workers_wait_for_executors(self, alias, acquire_one):
        make(alias, process_instance_id="p1")
        make_job(alias, process_instance_id="p1")
        assert len(acquire_one(alias)) == 1
        assert fetch(alias) == []

    def test_what_is_given_back_frees_it(self, alias):
        make(alias, process_instance_id="p1")
        second = make(alias, process_instance_id="p1", priority=-1)
        jobs = fetch(alias)
        assert yield_jobs(alias, jobs) == 1
        assert not ExclusiveLock.objects.using(alias).exists()
        assert second.pk not in [job.id for job in fetch(alias)]


@pytest.fixture
def acquire_one():
    from tests.support.factories import acquire

    return lambda alias: acquire(alias)


class TestYield:
    def test_it_is_as_if_it_had_never_been_fetched(self, alias):
        job = make(alias)
        assert yield_jobs(alias, fetch(alias)) == 1
        row = stored(job, alias)
        assert (row.lock_owner, row.lock_expiration_time, row.attempts, row.lost_runs) == (None, None, 0, 0)
        assert row.available_at is None

    def test_not_what_somebody_else_has_by_now(self, alias, frozen):
        make(alias)
        jobs = fetch(alias)
        frozen.tick(MINUTE)
        assert fetch(alias, worker="w2")
        assert yield_jobs(alias, jobs) == 0
        assert ExternalWorkerJob.objects.using(alias).get().lock_owner == "w2"


class TestLease:
    def test_each_fetch_has_a_token_of_its_own(self, alias, frozen):
        job = make(alias)
        (first,) = fetch(alias, with_lease=True)
        assert first.lease_token and stored(job, alias).lease_token == first.lease_token
        frozen.tick(MINUTE)
        assert fetch(alias, worker="w2") == [], "once leased, only to those who take a lease"
        (second,) = fetch(alias, worker="w2", with_lease=True)
        assert second.lease_token not in ("", first.lease_token)

    def test_what_is_given_back_is_leased_if_it_was_before(self, alias):
        job, other = make(alias), make(alias)
        (first,) = fetch(alias, with_lease=True, max_jobs=1)
        fail_external_job(alias, first.key, retries=2, lease=first.lease_token)
        jobs = fetch(alias, worker="w2", with_lease=True)
        assert [each.lease_before for each in jobs] == [first.lease_token, ""]
        assert yield_jobs(alias, jobs) == 2
        assert stored(job, alias).lease_token == first.lease_token
        assert [each.id for each in fetch(alias, worker="w3")] == [other.pk], "nobody has got the lease of this one"


class TestWhoMay:
    def test_types(self, alias):
        make(alias)
        with pytest.raises(NotAllowed, match="'payment'"):
            fetch(alias, caller=Caller("shop", types=frozenset({"mail"})))

    def test_tenants(self, alias):
        make(alias), make(alias, tenant_id="acme")
        mine = make(alias, tenant_id="mine")
        caller = Caller("shop", tenants=frozenset({"mine"}))
        with pytest.raises(NotAllowed, match="'acme'"):
            fetch(alias, caller=caller, tenants=["mine", "acme"])
        assert [job.id for job in fetch(alias, caller=caller)] == [mine.pk]

    def test_of_no_tenant_means_without_one(self, alias):
        make(alias, tenant_id="acme")
        mine = make(alias)
        assert [job.id for job in fetch(alias, tenants=[""])] == [mine.pk]
        assert fetch(alias, tenants=[]) == []


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"type": " "}, "type"),
        ({"timeout": timedelta(0)}, "timeout"),
        ({"timeout": timedelta.max}, "timeout"),
        ({"max_jobs": 0}, "max_jobs"),
        ({"worker": "x" * 256}, "worker: expected a string of at most 255 characters, got 256"),
        ({"worker": "a\0b"}, "worker: the character U"),
        ({"type": "x" * 256}, "type: expected a string of at most 255 characters, got 256"),
        ({"type": "a\0b"}, "type: the character U"),
    ],
)
def test_a_fetch_that_makes_no_sense(values, text, alias):
    make(alias)
    with pytest.raises(InvalidJob, match=text):
        fetch(alias, **values)


@pytest.mark.parametrize(
    ("conditions", "count"),
    [
        ({"business_key": "B-1"}, 1),
        ({"process_variables": {"amount": 5, "paid": True}}, 1),
        ({"process_variables": {"amount": 7}}, 0),
        ({"process_definition_keys": ["shop", "x"]}, 1),
        ({"process_definition_keys": ["x"]}, 0),
        ({"process_definition_ids": ["shop:1"]}, 1),
        ({"process_instance_id": "p1"}, 1),
        ({"process_instance_id": "p2"}, 0),
    ],
)
def test_only_jobs_that_are_meant(conditions, count, alias):
    make(
        alias,
        variables={"amount": 5, "paid": True},
        business_key="B-1",
        process_instance_id="p1",
        process_definition_key="shop",
        process_definition_id="shop:1",
    )
    make(alias, variables={"amount": 6})
    assert len(fetch(alias, **conditions)) == count


@pytest.mark.transactional
def test_an_error_in_a_later_transaction_keeps_no_job_from_its_worker(alias, monkeypatch):
    """What earlier transactions have locked would stay locked until the deadline, and nobody would work on it."""
    siblings = [make(alias, process_instance_id="p") for _ in range(3)]
    free = make(alias)
    whole, calls = external_fetch._lock, []

    def lock(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise OperationalError(1213, "Deadlock found")
        return whole(*args)

    monkeypatch.setattr(external_fetch, "_lock", lock)
    assert [job.id for job in fetch(alias, max_jobs=3)] == [siblings[0].pk]
    assert [job.id for job in fetch(alias, max_jobs=3)] == [free.pk]
    calls[:] = [()]
    with pytest.raises(OperationalError):
        fetch(alias)
