"""Both forms of completing an external job write the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import jobexec
from jobexec import signals
from jobexec.exceptions import JobExecError
from jobexec.models import DeadLetterJob, ExclusiveLock, ExternalWorkerJob, Job, JobLog
from jobexec.operations.external import Caller, Fetch, activate_jobs, complete_external_job, settle

pytestmark = [pytest.mark.databases("postgresql"), pytest.mark.every_database]

JOBS: list[dict[str, Any]] = [
    {},
    {"variables": {"amount": 1, "paid": False}, "priority": 4, "headers": {"a": "b"}},
    {"tenant_id": "acme", "process_instance_id": "p1", "process_definition_key": "shop", "business_key": "B"},
    {"process_instance_id": "p1", "exclusive": False, "correlation_id": "c", "retries": 9},
    {"delay": 5, "max_deliveries": 3},
    {"process_definition_id": "shop:3", "root_process_instance_id": "r", "execution_id": "e", "element_id": "charge"},
    {"deployment": "shop:7"},
]
CALLS: list[dict[str, Any]] = [
    {},
    {"variables": {"paid": True, "text": "ä"}},
    {"worker": "w1"},
    {"worker": "w2"},
    {"lease": "none"},
    {"caller": Caller("shop", tenants=frozenset({""}))},
    {"caller": Caller("mail", types=frozenset({"mail"}))},
]


@pytest.fixture
def ship(handle):
    options = {"retries": "R5/PT1M", "timeout": timedelta(seconds=9), "category": "default", "atomic": True}
    return handle(lambda variables, order: None, name="tests.ship", **options)


def ends(alias: str, options: dict[str, Any], call: dict[str, Any], frozen: Any) -> Any:
    job = jobexec.external_job("payment", database=alias, **options)
    frozen.tick(10)
    activate_jobs(alias, Fetch(type="payment", worker="w1", timeout=timedelta(minutes=1)))
    error = None
    try:
        complete_external_job(alias, job.job_key or 0, **call)
    except JobExecError as problem:
        error = type(problem), str(problem).replace(str(job.job_key), "KEY")
    found = []
    for table in (Job, ExternalWorkerJob, DeadLetterJob, JobLog):
        rows: Any = table._base_manager.using(alias).order_by("pk").values()
        for row in rows:
            drop = {"id", "job_id", "job_key"} if table is not Job else {"id"}
            times = ("create_time", "due_date", "timestamp", "lock_expiration_time", "available_at")
            since = {name: row[name] - job.create_time for name in times if row.get(name)}
            rank = {"rank": row["rank"] - job.rank} if "rank" in row else {}
            found.append({**row, **since, **rank, **dict.fromkeys(drop)})
        table._base_manager.using(alias).all().delete()
    found.append({"locks": list(ExclusiveLock.objects.using(alias).values_list("process_instance_id", flat=True))})
    ExclusiveLock.objects.using(alias).all().delete()
    return error, found


@pytest.mark.gate
@pytest.mark.parametrize("level", ["full", "none"])
@pytest.mark.parametrize("with_callback", [True, False])
@pytest.mark.parametrize("options", JOBS)
def test_both_forms_do_the_same(alias, options, with_callback, level, ship, monkeypatch, frozen, configure):
    configure(HISTORY_LEVEL=level)
    if with_callback:
        options = {**options, "on_complete": (ship, {"order": 5})}
    for call in CALLS:
        quick = ends(alias, options, call, frozen)
        with monkeypatch.context() as patch:
            patch.setattr(settle, "complete_at_once", portable_form)
            portable = ends(alias, options, call, frozen)
        assert quick == portable


def portable_form(using: str, completions: Any) -> list[bool]:
    return [False] * len(completions)


def test_it_takes_two_statements(alias, ship, django_assert_num_queries):
    job = jobexec.external_job("payment", on_complete=(ship, {"order": 5}), database=alias)
    with django_assert_num_queries(2, using=alias):
        complete_external_job(alias, job.job_key or 0)


def test_whoever_listens_is_given_the_row_by_both(alias, ship, monkeypatch, django_capture_on_commit_callbacks):
    told = []

    def receive(sender: Any, jobs: Any, **_: Any) -> None:
        told.append((sender, jobs))

    signals.job_completed.connect(receive)
    try:
        for quick in (True, False):
            if not quick:
                monkeypatch.setattr(settle, "complete_at_once", portable_form)
            jobexec.external_job(
                "payment", variables={"a": 1}, headers={"x": 2}, on_complete=ship_with(5), database=alias
            )
            stored = ExternalWorkerJob.objects.using(alias).get()
            with django_capture_on_commit_callbacks(using=alias, execute=True):
                complete_external_job(alias, stored.job_key or 0, worker=stored.lock_owner)
            ((sender, (row,)),) = told
            assert sender is type(row) is ExternalWorkerJob
            columns = [field.attname for field in ExternalWorkerJob._meta.concrete_fields]
            assert [getattr(row, name) for name in columns] == [getattr(stored, name) for name in columns]
            told.clear()
    finally:
        signals.job_completed.disconnect(receive)


def ship_with(order: int) -> Any:
    return "tests.ship", {"order": order}


def test_the_broker_is_told_by_both(alias, ship, monkeypatch):
    from jobexec.operations.external import complete_statement
    from jobexec.operations.rows import routing

    for module in (complete_statement, routing):
        announced: list[Any] = []
        monkeypatch.setattr(module, "announce_ids", lambda using, ids, seen=announced: seen.extend(ids))
        if module is routing:
            monkeypatch.setattr(settle, "complete_at_once", portable_form)
        job = jobexec.external_job("payment", on_complete=ship_with(5), database=alias)
        complete_external_job(alias, job.job_key or 0)
        assert announced == [job.pk]


def test_what_has_changed_since_it_was_seen_is_left_to_the_portable_form(alias, monkeypatch):
    from jobexec.operations.external import complete_statement as statement

    job = jobexec.external_job("payment", database=alias)
    write: Any = statement._write

    def late(using: str, ends: Any) -> Any:
        activate_jobs(alias, Fetch(type="payment", worker="w2", timeout=timedelta(minutes=1)))
        return write(using, ends)

    monkeypatch.setattr(statement, "_write", late)
    complete_external_job(alias, job.job_key or 0)
    assert not ExternalWorkerJob.objects.using(alias).exists()
    assert JobLog.objects.using(alias).get(state="successful").node == "w2"
