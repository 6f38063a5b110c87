"""External jobs as they come into being: columns, keys, wake-ups, and what is refused."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

import jobexec
from jobexec import clock, signals
from jobexec.exceptions import InvalidJob
from jobexec.models import ExternalWorkerJob, JobLog, JobType, KeyBlock
from jobexec.operations.history import keys as external_keys
from jobexec.operations.notify import wake_workers
from jobexec.retry import RetryPlan

pytestmark = pytest.mark.every_database


@pytest.fixture
def ship(handle):
    return handle(lambda variables, order=0: None, name="tests.ship")


@pytest.fixture
def woken():
    heard: list[tuple[str, frozenset[str]]] = []

    def listen(using: str, types: frozenset[str]) -> None:
        heard.append((using, types))

    wake_workers.add_worker_listener(listen)
    yield heard
    wake_workers.remove_worker_listener(listen)


def stored(job: Any, alias: str) -> ExternalWorkerJob:
    return ExternalWorkerJob.objects.using(alias).get(pk=job.pk)


def test_the_row_says_what_was_asked_for(alias, ship):
    job = jobexec.external_job(
        "payment",
        variables={"amount": 5},
        headers={"region": "eu"},
        on_complete=(ship, {"order": 7}),
        retries=5,
        priority=3,
        tags=["a", "b"],
        tenant_id="acme",
        process_instance_id="p1",
        business_key="B-1",
        max_deliveries=2,
        database=alias,
    )
    row = stored(job, alias)
    assert row.job_key == job.job_key and row.job_key > 0
    assert (row.handler_type, row.type, row.retries, row.priority) == ("payment", JobType.EXTERNAL, 5, 3)
    assert (row.tenant_id, row.process_instance_id, row.job_definition_id) == ("acme", "p1", "payment")
    assert row.custom_headers == {"region": "eu"}
    configuration = row.handler_configuration
    assert configuration["variables"] == {"amount": 5}
    assert configuration["on_complete"]["handler"] == "tests.ship"
    assert configuration["on_complete"]["kwargs"] == {"order": 7}
    assert configuration["tags"] == ["a", "b"]
    assert (configuration["business_key"], configuration["max_deliveries"]) == ("B-1", 2)
    assert not row.locked and row.available_at is None
    values = {field.name: getattr(row, field.name) for field in ExternalWorkerJob._meta.concrete_fields}
    assert {name: getattr(job, name) for name in values} == values


def test_many_at_once_have_rising_keys(alias):
    jobs = jobexec.external_jobs("payment", [{"n": n} for n in range(1500)], database=alias)
    keys = [job.job_key for job in jobs]
    assert keys == sorted(set(keys))
    rows = ExternalWorkerJob.objects.using(alias).order_by("job_key")
    assert [row.handler_configuration["variables"]["n"] for row in rows] == list(range(1500))


def test_keys_are_never_given_twice(alias):
    seen = set()
    for count in (1, 1023, 5, 2000, 1):
        keys = external_keys.next_keys(alias, count)
        assert len(keys) == count and not seen & set(keys) and min(keys) > 0
        seen |= set(keys)


@pytest.mark.transactional
def test_keys_of_a_transaction_that_was_rolled_back_are_not_those_of_living_jobs(alias):
    kept = jobexec.external_job("payment", database=alias)
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=alias):
        jobexec.external_jobs("payment", [{}] * 1100, database=alias)
        raise ZeroDivisionError
    more = jobexec.external_jobs("payment", [{}] * 1100, database=alias)
    assert kept.job_key not in {job.job_key for job in more}
    assert ExternalWorkerJob.objects.using(alias).count() == 1101


@pytest.mark.databases("sqlite")
def test_blocks_that_are_used_up_are_deleted(alias):
    for _ in range(3):
        jobexec.external_job("payment", database=alias)
    assert KeyBlock.objects.using(alias).count() == 1


@pytest.mark.transactional
def test_workers_are_told_once_after_the_commit(alias, woken):
    with transaction.atomic(using=alias):
        jobexec.external_job("payment", database=alias)
        jobexec.external_job("mail", database=alias)
        jobexec.external_job("later", delay=60, database=alias)
        jobexec.external_job("soon", delay=1, database=alias)
        assert woken == []
    assert woken == [(alias, frozenset({"payment", "mail", "soon"}))], "of what comes later gateways hear in time"


@pytest.fixture
def announced():
    """Somebody listens to the signal, as a gateway does; its callbacks stand among those of the wake-ups."""
    heard: list[str] = []

    def hear(jobs: Any, **told: Any) -> None:
        heard.extend(job.handler_type for job in jobs)

    signals.job_created.connect(hear)
    yield heard
    signals.job_created.disconnect(hear)


@pytest.mark.transactional
def test_workers_are_told_once_whoever_else_waits_for_the_commit(alias, woken, announced):
    with transaction.atomic(using=alias):
        jobexec.external_job("payment", database=alias)
        jobexec.external_job("mail", database=alias)
        transaction.on_commit(lambda: None, using=alias)
        jobexec.external_job("parcel", database=alias)
    assert announced == ["payment", "mail", "parcel"]
    assert woken == [(alias, frozenset({"payment", "mail", "parcel"}))]


@pytest.mark.transactional
def test_a_transaction_knows_nothing_of_the_one_before(alias, woken, announced):
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=alias):
        jobexec.external_job("gone", database=alias)
        raise ZeroDivisionError
    for type in ("payment", "mail"):
        with transaction.atomic(using=alias):
            transaction.on_commit(lambda: None, using=alias)
            jobexec.external_job(type, database=alias)
    assert woken == [(alias, frozenset({"payment"})), (alias, frozenset({"mail"}))]


@pytest.mark.transactional
@pytest.mark.parametrize("undone", [0, 1, 2])
def test_who_listens_makes_no_notice_depend_on_another_savepoint(undone, alias, woken, announced):
    with transaction.atomic(using=alias):
        jobexec.external_job("outer", database=alias)
        for number in range(3):
            with suppress(ZeroDivisionError), transaction.atomic(using=alias):
                jobexec.external_job(f"inner{number}", database=alias)
                if number == undone:
                    raise ZeroDivisionError
            jobexec.external_job(f"after{number}", database=alias)
    told = {type for _, types in woken for type in types}
    assert told == {row.handler_type for row in ExternalWorkerJob.objects.using(alias)} == set(announced)


@pytest.mark.transactional
def test_what_a_savepoint_took_back_takes_no_other_notice_with_it(alias, woken):
    with transaction.atomic(using=alias):
        with pytest.raises(ZeroDivisionError), transaction.atomic(using=alias):
            jobexec.external_job("gone", database=alias)
            raise ZeroDivisionError
        jobexec.external_job("payment", database=alias)
    assert [types for _, types in woken] == [frozenset({"payment"})]


def test_nobody_gets_it_before_its_time(alias):
    row = stored(jobexec.external_job("payment", delay=timedelta(hours=1), database=alias), alias)
    assert row.due_date == row.available_at > clock.now(alias) + timedelta(minutes=59)


def test_the_log_knows_of_it(alias, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "HISTORY_LEVEL": "full"}
    job = jobexec.external_job("payment", database=alias)
    assert JobLog.objects.using(alias).get(job_id=job.pk).state == "created"


@pytest.mark.parametrize(
    ("given", "attempts", "plan"),
    [
        (7, 7, ""),
        ("R5/PT1M", 5, "R5/PT1M"),
        ("PT1M,PT10M", 3, "PT1M,PT10M"),
        (["PT1M", "PT10M"], 3, "PT1M,PT10M"),
        ([timedelta(minutes=1)], 2, "R2/PT1M"),
        (RetryPlan.parse("R8/PT10S*2..PT1H~0.1"), 8, "R8/PT10S*2..PT1H~0.1"),
    ],
)
def test_retries_are_a_number_or_a_plan(alias, given, attempts, plan):
    row = stored(jobexec.external_job("payment", retries=given, database=alias), alias)
    assert (row.retries, row.retry_plan) == (attempts, plan)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"variables": [1]}, "variables"),
        ({"variables": {"a": object()}}, "variables"),
        ({"retries": 0}, "retries"),
        ({"retries": True}, "retries"),
        ({"retries": "R0/PT1M"}, "retries: Invalid retry plan 'R0/PT1M'"),
        ({"retries": None}, "retries: expected a number or a retry plan that is not a function, got None"),
        ({"retries": lambda failures, error: 5}, "retries: expected .* not a function"),
        ({"retries": RetryPlan.from_callable(lambda failures, error: 5)}, "retries: expected .* not a function"),
        ({"timeout": 5}, "Unknown option 'timeout'. A worker sets the time limit when it fetches the job."),
        ({"expires": 5}, "Unknown option 'expires'. An external job waits until a worker fetches it"),
        ({"unique": "a"}, "Unknown option 'unique'. External jobs have no unique keys"),
        ({"queue_name": "a"}, "Unknown option 'queue_name'"),
        ({"priority": "high"}, "priority"),
        ({"headers": {1: 2}}, "headers"),
        ({"tags": "a"}, "tags"),
        ({"on_complete": "tests.nobody"}, "on_complete: No handler"),
        ({"on_complete": print}, "on_complete: expected a function with @job"),
        ({"on_error": {5: "tests.ship"}}, "on_error: expected error codes"),
        ({"on_error": {"a\0": "tests.ship"}}, r"on_error: the character U\+0000"),
        ({"on_error": {"\ud800": "tests.ship"}}, "on_error: expected a string that is valid Unicode"),
        ({"on_error": "tests.ship"}, "on_error: .*error_code"),
        ({"on_complete": ("tests.ship", {"variables": {}})}, "variables comes from the worker"),
        ({"on_complete": ("tests.ship", {"colour": 1})}, "on_complete: .*colour"),
        ({"max_deliveries": 0}, "max_deliveries"),
        ({"tenant_id": 5}, "tenant_id"),
        ({"process_definition_id": "x" * 300}, "process_definition_id"),
        ({"delay": 5, "run_after": timedelta(1)}, "either delay or run_after"),
        ({"deployment": "shop"}, "deployment: expected a string of the form 'name:version'"),
        ({"deployment": ""}, "deployment: expected"),
        ({"colour": "red"}, "Unknown option 'colour'"),
        ({"using": "other"}, "Unknown option 'using'. Did you mean 'database'"),
    ],
)
def test_what_is_wrong_is_named(options, text, alias, ship):
    with pytest.raises(InvalidJob, match=text):
        jobexec.external_job("payment", **options, database=alias)
    assert not ExternalWorkerJob.objects.using(alias).exists()


@pytest.mark.parametrize("type", ["", "  ", "x" * 256, 5, None])
def test_a_type_is_a_text(type, alias):
    with pytest.raises(InvalidJob, match="type: expected a string"):
        jobexec.external_job(type, database=alias)


def test_variables_may_not_be_larger_than_the_setting_says(alias, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "EXTERNAL_MAX_PAYLOAD": 1000}
    with pytest.raises(InvalidJob, match=r"job 1: expected at most 1,000 bytes .*EXTERNAL_MAX_PAYLOAD"):
        jobexec.external_jobs("payment", [{}, {"text": "x" * 1000}], database=alias)
    assert not ExternalWorkerJob.objects.using(alias).exists()
