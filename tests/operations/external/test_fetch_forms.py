"""Both forms of fetching write and return the same, whatever there is."""

from __future__ import annotations

import random
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

import jobexec
from jobexec import clock
from jobexec.models import DeadLetterJob, ExclusiveLock, ExternalWorkerJob, SuspendedJob
from jobexec.operations import activate, suspend
from jobexec.operations.external import fetch_statement
from jobexec.operations.external.fetch import activate_jobs
from jobexec.operations.external.types import Caller, Fetch

pytestmark = [pytest.mark.databases("sqlite", "postgresql"), pytest.mark.every_database]

MINUTE = timedelta(minutes=1)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"priority": 3, "headers": {"a": "b"}, "tags": ["x"]},
    {"tenant_id": "acme", "element_id": "pay", "business_key": "B"},
    {"process_instance_id": "p1", "exclusive": False},
    {"delay": 30},
    {"delay": 90, "priority": 9},
]


def rows(alias: str) -> list[dict[str, Any]]:
    tables = (ExternalWorkerJob, DeadLetterJob, SuspendedJob)
    return [dict(row) for table in tables for row in table.objects.using(alias).order_by("job_key").values()]


def outcome(alias: str, seed: int, disturb: Any, portable: bool, monkeypatch: Any) -> Any:
    """What the same story ends with; jobs are told by their numbers."""
    with clock.FrozenClock(datetime(2026, 3, 1, 12, tzinfo=UTC)) as frozen:
        return story(alias, seed, disturb, portable, monkeypatch, frozen)


def story(alias: str, seed: int, disturb: Any, portable: bool, monkeypatch: Any, frozen: Any) -> Any:
    if portable:
        monkeypatch.setattr(fetch_statement, "is_possible", lambda using, fetch: False)
    chance = random.Random(seed)
    made = [
        jobexec.external_job("payment", variables={"n": n}, database=alias, **chance.choice(OPTIONS)) for n in range(9)
    ]
    disturb(alias, made)
    said = []
    for step in range(5):
        caller = Caller("c", tenants=frozenset({"", "acme"})) if chance.random() < 0.3 else Caller()
        fetch = Fetch(
            type="payment",
            worker=f"w{step}",
            timeout=MINUTE,
            max_jobs=chance.choice([1, 3, 20]),
            variables=chance.choice([None, ["n"], []]),
            caller=caller,
        )
        said.append([asdict(job) for job in activate_jobs(alias, fetch)])
        frozen.tick(timedelta(seconds=chance.choice([1, 31, 61])))
    monkeypatch.undo()
    places = {job.pk: number for number, job in enumerate(made)}
    keys = {job.job_key: number for number, job in enumerate(made)}
    for job in [job for page in said for job in page]:
        job["id"], job["key"] = places[job["id"]], keys[job["key"]]
    ends = [row | {"id": places[row["id"]], "job_key": keys[row["job_key"]]} for row in rows(alias)]
    for table in (ExternalWorkerJob, DeadLetterJob, SuspendedJob, ExclusiveLock):
        table.objects.using(alias).all().delete()
    return said, ends


def nothing(alias: str, made: list[Any]) -> None:
    pass


def cancelled(alias: str, made: list[Any]) -> None:
    ExternalWorkerJob.objects.using(alias).filter(pk=made[2].pk).update(cancel_requested=True)


def local(alias: str, made: list[Any]) -> None:
    table = ExternalWorkerJob.objects.using(alias)
    table.filter(pk=made[1].pk).update(handler_configuration={"variables": {"n": 1}, "local": {"n": 2}})


def exclusive(alias: str, made: list[Any]) -> None:
    some = [made[0].pk, made[3].pk]
    ExternalWorkerJob.objects.using(alias).filter(pk__in=some).update(process_instance_id="p9", exclusive=True)


def suspended(alias: str, made: list[Any]) -> None:
    suspend(process_instance_id="p1", using=alias)


@pytest.mark.parametrize("disturb", [nothing, cancelled, local, exclusive, suspended])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_both_forms_do_the_same(alias, seed, disturb, monkeypatch):
    one = outcome(alias, seed, disturb, True, monkeypatch)
    activate(process_instance_id="p1", using=alias)
    other = outcome(alias, seed, disturb, False, monkeypatch)
    assert any(one[0]), "somebody got something"
    assert one == other


def test_a_plain_page_is_one_statement(alias, django_assert_num_queries, settings):
    jobexec.external_jobs("payment", [{}] * 3, database=alias)
    with django_assert_num_queries(3, using=alias):  # with the savepoint of the test's transaction
        assert len(activate_jobs(alias, Fetch(type="payment", worker="w", timeout=MINUTE, max_jobs=10))) == 3


def test_a_worker_without_jobs_costs_two_statements(alias: str) -> None:
    fetch = Fetch(type="payment", worker="w", timeout=MINUTE)
    jobexec.external_job("invoice", database=alias)
    with CaptureQueriesContext(connections[alias]) as captured:
        assert activate_jobs(alias, fetch) == []
    statements = [query["sql"].split()[0] for query in captured]
    assert [word for word in statements if word in ("WITH", "SELECT", "UPDATE")] == ["WITH", "SELECT"]


@pytest.mark.parametrize("delay", [0, 30])
def test_it_sees_what_others_have_just_locked(alias: str, delay: int) -> None:
    """The portable form looks then, which skips it, and tells whether there may be more."""
    jobexec.external_job("payment", database=alias, delay=delay)
    jobexec.external_job("payment", database=alias, tenant_id="acme")
    fetch = Fetch(type="payment", worker="w", timeout=MINUTE)
    see = partial(fetch_statement.any_available, alias, fetch)
    assert see(["acme"], leased=False)
    assert see([""], leased=True) is (delay == 0)
    assert not see(["other"], leased=False)
    with clock.FrozenClock(clock.now(alias) + MINUTE):
        assert see([""], leased=False)
