"""JobQuery: every condition, what it refuses, and jobs of all tables in one order."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from jobexec.exceptions import InvalidQuery
from jobexec.models import JOB_TABLES, DeadLetterJob, ExternalWorkerJob, Job, SuspendedJob, TimerJob
from jobexec.operations.query.job_query import STATES, JobQuery
from jobexec.operations.query.search import ORDERS, walk
from jobexec.operations.query.stored_filter import describe, resolve
from tests.support.factories import make_row

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
BATCH, MESSAGE_ID = uuid4(), uuid4()
ALL = {"message", "running", "timer", "retry", "suspended", "dead", "free", "fetched", "missed"}
KEY = 2**51 + 7


@pytest.fixture
def jobs(alias):
    """One job of each kind, by id."""
    order = {
        "process_instance_id": "order-1",
        "root_process_instance_id": "root-1",
        "execution_id": "e-1",
        "process_definition_id": "order:3",
        "process_definition_key": "order",
        "job_definition_id": "orders.ship",
        "deployment_id": "shop:1",
        "correlation_id": "c-1",
        "category": "mail",
        "tenant_id": "acme",
        "create_time": NOW - DAY,
        "priority": 50,
        "batch_id": BATCH,
    }
    failed = {"exception_message": "ValueError: 100% no", "exception_stack": "Traceback", "failed_activity_id": "pay"}
    lock = {"lock_owner": "berlin:1", "lock_expiration_time": NOW + timedelta(minutes=5), "suspend_requested": True}
    wait = {"waits_for": "paid", "waits_for_key": "4711"}
    rows = {
        "message": make_row(Job, alias, id=MESSAGE_ID, handler_type="orders.ship", **order),
        "running": make_row(Job, alias, tenant_id="other", **lock),
        "timer": make_row(TimerJob, alias, type="timer", due_date=NOW + DAY),
        "retry": make_row(TimerJob, alias, due_date=NOW + 2 * DAY, attempts=1, retries=2, **failed),
        "suspended": make_row(SuspendedJob, alias, due_date=NOW + 3 * DAY, priority=-1, **wait),
        "dead": make_row(DeadLetterJob, alias, retries=0, attempts=3, fingerprint="f-1", **failed),
    }
    outside = {"type": "external worker", "handler_type": "payment"}
    held = {"lock_owner": "java-1", "lock_expiration_time": NOW + DAY}
    over = {"lock_owner": "java-2", "lock_expiration_time": NOW - DAY}
    rows |= {
        "free": make_row(ExternalWorkerJob, alias, job_key=KEY, **outside),
        "fetched": make_row(ExternalWorkerJob, alias, job_key=KEY + 1, **held, **outside),
        "missed": make_row(ExternalWorkerJob, alias, job_key=KEY + 2, **over, **outside),
    }
    return {row.pk: name for name, row in rows.items()}


CASES = [
    ({}, ALL),
    ({"ids": [MESSAGE_ID, uuid4()]}, {"message"}),
    ({"ids": [str(MESSAGE_ID)]}, {"message"}),
    ({"ids": []}, set()),
    ({"states": ["executable"]}, {"message", "running"}),
    ({"states": ["timer", "dead_letter"]}, {"timer", "retry", "dead"}),
    ({"type": "timer"}, {"timer"}),
    ({"handler": "orders.ship"}, {"message"}),
    ({"handler": "orders.*"}, {"message"}),
    ({"handler": "orders"}, set()),
    ({"handler": "Orders.*"}, set()),
    ({"job_definition_id": "orders.ship"}, {"message"}),
    ({"category": "mail"}, {"message"}),
    ({"category": "ma*"}, {"message"}),
    ({"category": "Ma*"}, set()),
    ({"process_instance_id": "order-1"}, {"message"}),
    ({"process_instance_id": "Order-1"}, set()),
    ({"root_process_instance_id": "root-1"}, {"message"}),
    ({"execution_id": "e-1"}, {"message"}),
    ({"process_definition_id": "order:3"}, {"message"}),
    ({"process_definition_key": "order"}, {"message"}),
    ({"deployment_id": "shop:1"}, {"message"}),
    ({"tenant_ids": ["acme", "nobody"]}, {"message"}),
    ({"without_tenant": True}, ALL - {"message", "running"}),
    ({"without_tenant": False}, {"message", "running"}),
    ({"tenant_ids": ["acme"], "without_tenant": True}, ALL - {"running"}),
    ({"tenant_ids": ["acme"], "without_tenant": False}, {"message"}),
    ({"priority_min": 50}, {"message"}),
    ({"priority_max": -1}, {"suspended"}),
    ({"priority_min": 60, "priority_max": 40}, set()),
    ({"due_before": NOW + 2 * DAY}, {"timer"}),
    ({"due_after": NOW + 2 * DAY}, {"suspended"}),
    ({"created_before": NOW - DAY}, {"message"}),
    ({"created_after": NOW - DAY}, ALL - {"message"}),
    ({"retries_left": True}, ALL - {"dead"}),
    ({"retries_left": False}, {"dead"}),
    ({"attempted": True}, {"retry", "dead"}),
    ({"attempted": False, "states": ["timer"]}, {"timer"}),
    ({"with_exception": True}, {"retry", "dead"}),
    ({"with_exception": False}, ALL - {"retry", "dead"}),
    ({"exception_contains": "100% n"}, {"retry", "dead"}),
    ({"exception_contains": "1_0"}, set()),
    ({"exception_contains": "100% N"}, set()),
    ({"exception_contains": "valueerror"}, set()),
    ({"fingerprint": "f-1"}, {"dead"}),
    ({"fingerprint": "f-1", "states": ["timer"]}, set()),
    ({"failed_activity_id": "pay"}, {"retry", "dead"}),
    ({"locked": True}, {"running", "fetched"}),
    ({"locked": False}, ALL - {"running", "fetched"}),
    ({"worker": "java-1"}, {"fetched"}),
    ({"worker": "java-2"}, {"missed"}),
    ({"worker": "berlin:1"}, set()),
    ({"job_key": KEY}, {"free"}),
    ({"job_key": KEY, "states": ["suspended"]}, set()),
    ({"states": ["external_worker"]}, {"free", "fetched", "missed"}),
    ({"type": "external worker", "handler": "pay*"}, {"free", "fetched", "missed"}),
    ({"text": str(KEY + 1)}, {"fetched"}),
    ({"lock_owner": "berlin:1"}, {"running"}),
    ({"node": "berlin"}, {"running"}),
    ({"node": "ber"}, set()),
    ({"node": "Berlin"}, set()),
    ({"suspended": True}, {"suspended", "running"}),
    ({"suspended": False}, ALL - {"suspended", "running"}),
    ({"batch_id": BATCH}, {"message"}),
    ({"batch_id": str(BATCH)}, {"message"}),
    ({"correlation_id": "c-1"}, {"message"}),
    ({"waits_for": "paid"}, {"suspended"}),
    ({"waits_for": "pai"}, set()),
    ({"waits_for_key": "4711"}, {"suspended"}),
    ({"waits_for": "paid", "waits_for_key": "4712"}, set()),
    ({"text": "order-1"}, {"message"}),
    ({"text": "c-1"}, {"message"}),
    ({"text": str(MESSAGE_ID)}, {"message"}),
    ({"text": "orders"}, {"message"}),
    ({"text": "ship"}, set()),
    ({"handler": "orders.ship", "priority_min": 51}, set()),
]


def test_every_condition_has_a_case():
    assert {name for conditions, _ in CASES for name in conditions} == {each.name for each in fields(JobQuery)}


@pytest.mark.parametrize(("conditions", "expected"), CASES, ids=lambda value: ",".join(sorted(value)) or "all")
def test_what_it_finds(alias, jobs, conditions, expected):
    query = JobQuery(**conditions)
    assert {jobs[row.pk] for row in query.find(alias)} == expected
    querysets = [query.queryset(table, alias) for table in JOB_TABLES]
    assert {jobs[pk] for rows in querysets for pk in rows.values_list("pk", flat=True)} == expected
    assert {jobs[row.pk] for row in walk(querysets)} == expected
    # A batch keeps the selection as JSON.
    described = [resolve(describe(query.queryset(table, alias)), alias) for table in query.tables]
    assert {jobs[pk] for rows in described for pk in rows.values_list("pk", flat=True)} == expected


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"ids": ["no id"]}, "ids: expected a UUID, got 'no id'"),
        ({"ids": str(MESSAGE_ID)}, "ids: expected a list, got"),
        ({"ids": [5]}, "ids: expected a UUID, got 5"),
        ({"states": ["running"]}, f"states: expected one of {', '.join(STATES)}, got 'running'"),
        ({"job_key": 0}, "job_key: expected a whole number from 1 to"),
        ({"job_key": "7"}, "job_key: expected a whole number from 1 to"),
        ({"states": []}, "states: expected at least 1"),
        ({"type": "mail"}, "type: expected one of message, timer, history, external worker, got 'mail'"),
        ({"handler": ""}, "handler: expected a string that is not empty, got ''"),
        ({"tenant_ids": "acme"}, "tenant_ids: expected a list, got 'acme'"),
        ({"tenant_ids": [""]}, "tenant_ids: expected a string that is not empty"),
        ({"without_tenant": 1}, "without_tenant: expected True or False, got 1"),
        ({"priority_min": "5"}, "priority_min: expected a number from"),
        ({"priority_max": True}, "priority_max: expected a number from"),
        ({"due_before": datetime(2026, 1, 1)}, "due_before: expected a datetime with a time zone"),
        ({"created_after": "yesterday"}, "created_after: expected an aware datetime, got 'yesterday'"),
        ({"locked": "yes"}, "locked: expected True or False, got 'yes'"),
        ({"batch_id": 7}, "batch_id: expected a UUID, got 7"),
        ({"handler": "a\udcff"}, "handler: expected a string that is valid Unicode"),
        ({"tenant_ids": ["a\0"]}, "tenant_ids: the character U+0000"),
    ],
)
def test_what_it_refuses(conditions, message):
    with pytest.raises(InvalidQuery) as refused:
        JobQuery(**conditions)
    assert message in str(refused.value)


class TestOrder:
    def test_by_age_over_all_tables(self, alias):
        rows = [make_row(table, alias) for table in (*JOB_TABLES, *JOB_TABLES)]
        ids = [row.pk for row in rows]
        assert [row.pk for row in JobQuery().find(alias)] == ids
        assert [row.pk for row in JobQuery().find(alias, order="-id", limit=3)] == ids[:-4:-1]
        assert [row.pk for row in JobQuery().find(alias, limit=3)] == ids[:3]
        assert [type(row) for row in JobQuery().find(alias, limit=len(JOB_TABLES))] == list(JOB_TABLES)
        assert JobQuery().find(alias, limit=0) == []

    @pytest.mark.parametrize("order", ORDERS)
    def test_every_order_both_ways(self, alias, jobs, order):
        found = JobQuery().find(alias, order=order)
        assert len(found) == len(jobs)
        values = [getattr(row, order) for row in found if getattr(row, order) is not None]
        assert values == sorted(values)
        down = JobQuery().find(alias, order=f"-{order}")
        assert [getattr(row, order) for row in down if getattr(row, order) is not None] == values[::-1]

    def test_what_has_no_value_comes_last(self, alias, jobs):
        for order, first in (("due_date", "timer"), ("-due_date", "suspended")):
            found = [jobs[row.pk] for row in JobQuery().find(alias, order=order)]
            assert (found[0], set(found[3:])) == (first, ALL - {"timer", "retry", "suspended"})
            assert [jobs[row.pk] for row in JobQuery().find(alias, order=order, limit=1)] == [first]

    def test_the_first_of_several_tables_are_found_however_young(self, alias):
        for number, table in enumerate((Job, TimerJob) * 3):
            make_row(table, alias, priority=number, handler_type="aBÄb€_"[number], due_date=NOW)
        assert [row.priority for row in JobQuery().find(alias, order="-priority", limit=3)] == [5, 4, 3]
        found = [row.handler_type for row in JobQuery().find(alias, order="handler_type", limit=4)]
        assert found == ["B", "_", "a", "b"], "as Python sorts them, whatever the collation"

    def test_what_it_refuses(self, alias):
        with pytest.raises(InvalidQuery, match=r"order: expected one of id, due_date, .*; got 'revision'"):
            JobQuery().find(alias, order="revision")
        for limit in (-1, True, "5"):
            with pytest.raises(InvalidQuery, match="limit: expected a number of at least 0"):
                JobQuery().find(alias, limit=limit)

    def test_a_statement_for_each_table_that_matters(self, alias, jobs):
        with CaptureQueriesContext(connections[alias]) as queries:
            JobQuery(states=["timer"]).find(alias, defer=["handler_configuration"])
        assert len(queries) == 1
        assert "handler_configuration" not in queries[0]["sql"]


class TestWalk:
    def test_reads_in_pages_in_the_order_of_age(self, alias, monkeypatch):
        monkeypatch.setattr("jobexec.operations.query.search._PAGE", 2)
        rows = [make_row(table, alias) for table in (Job, TimerJob, Job, TimerJob, Job, Job)]
        found = walk([JobQuery().queryset(table, alias) for table in JOB_TABLES])
        assert [row.pk for row in found] == [row.pk for row in rows]


def test_what_was_asked_for():
    query = JobQuery(ids=[str(MESSAGE_ID), MESSAGE_ID], states=["timer"], locked=False)
    assert query.given == {"ids": (MESSAGE_ID,), "states": ("timer",), "locked": False}
    assert isinstance(query.ids[0], UUID)
    assert query.tables == [TimerJob] and set(STATES.values()) == set(JOB_TABLES)
