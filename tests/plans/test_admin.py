"""The lists of the admin neither count nor sort a large table, whatever is in it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin import site
from django.contrib.auth import get_user_model
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from demo_project.benchmarks.bulk import multiply
from demo_project.benchmarks.cases.upkeep.admin_pages import get, routed_to
from demo_project.benchmarks.cases.upkeep.backlog import analyze
from jobexec import clock
from jobexec.admin.jobs.story import story_of_breaker
from jobexec.models import (
    AuditLog,
    DeadLetterJob,
    ExternalWorkerJob,
    Incident,
    Job,
    JobKey,
    JobLog,
    LogState,
    Resource,
    ResultStatus,
    SuspendedJob,
    TaskResult,
    TimerJob,
)
from jobexec.operations.reports.counts import COUNT_LIMIT
from tests.support.suite.tiers import some

from .test_failures import explained

# ANALYZE TABLE commits on MariaDB, so nothing here could be rolled back.
pytestmark = [pytest.mark.transactional, pytest.mark.nightly]

ROWS = 30_000
#: A count looks at one row more than it counts; a page is found behind those before it.
MOST = COUNT_LIMIT + 1
COMMON = {"handler_type": "shop.pay", "category": "default"}
SORTED = {"mysql": "Using filesort", "sqlite": "USE TEMP B-TREE FOR ORDER BY"}
KEYS = ["key", "job_id"]
GROUP = "0123456789abcdef"


def columns_of(table: type[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of a row of the table, and what differs between the rows."""
    now = clock.now().replace(microsecond=0)
    columns: dict[Any, tuple[dict[str, Any], dict[str, Any]]] = {
        Job: ({}, {}),
        ExternalWorkerJob: ({}, {}),
        TimerJob: ({"due_date": now + timedelta(days=1)}, {"later": "due_date"}),
        SuspendedJob: ({"suspended_at": now}, {"later": "suspended_at"}),
        DeadLetterJob: ({"died_at": now, "fingerprint": GROUP}, {"later": "died_at"}),
        JobLog: (
            {"timestamp": now, "state": LogState.SUCCESSFUL, "job_id": uuid4()},
            {"later": "timestamp", "distinct": ["job_id"]},
        ),
        Incident: ({"timestamp": now, "job_id": uuid4()}, {"later": "timestamp", "distinct": ["job_id"]}),
        TaskResult: (
            {
                "id": uuid4(),
                "status": ResultStatus.SUCCESSFUL,
                "create_time": now,
                "end_time": now,
                "backend": "default",
            },
            {"later": "end_time"},
        ),
        JobKey: ({"create_time": now, "key": "first", "job_id": uuid4()}, {"later": "create_time", "distinct": KEYS}),
    }
    return columns[table]


@pytest.mark.parametrize(
    ("table", "query"),
    [
        *some(
            [
                (table, query)
                for table in (Job, TimerJob, SuspendedJob, DeadLetterJob, ExternalWorkerJob, JobLog, TaskResult, JobKey)
                for query in ("", "?p=150")
            ],
            3,
            later="nightly",
        ),
        (DeadLetterJob, f"?fingerprint={GROUP}"),
        (Incident, ""),
        (Incident, "?state=all"),
    ],
)
def test_a_list(alias: str, table: type[Any], query: str, settings: Any) -> None:
    settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}}
    columns, differing = columns_of(table)
    common = {name: value for name, value in COMMON.items() if hasattr(table, name)}
    row = table(**common, **columns)
    row.save(using=alias, force_insert=True)
    multiply(row, ROWS, **differing)
    analyze(alias, table)
    statements = sent(alias, table, query)
    assert statements
    for sql in statements:
        judge(alias, sql)


def test_the_timeline_of_a_resource(alias: str, rf: Any) -> None:
    now = clock.now().replace(microsecond=0)
    indexes = {Incident: "jobexec_incident_resource", AuditLog: "jobexec_auditlog_object_id"}
    for row in (
        Incident(timestamp=now, job_id=uuid4(), **COMMON),
        AuditLog(timestamp=now, verb="requeue", object_type="deadletterjob", object_id=str(uuid4())),
    ):
        row.save(using=alias, force_insert=True)
        multiply(row, ROWS, later="timestamp", distinct=["job_id"] if isinstance(row, Incident) else ["object_id"])
        analyze(alias, type(row))
    resource, request = Resource.objects.using(alias).create(name="pay.example"), rf.get("/")
    request.user = get_user_model()(pk=0, is_active=True, is_superuser=True)
    page: Any = site._registry[Resource]
    found = explained(alias, lambda: story_of_breaker(page, request, resource))
    for table, index in indexes.items():
        about = [plan for sql, plan in found if table._meta.db_table in sql]
        assert about and all(index in plan for plan in about), about


def sent(alias: str, table: type[Any], query: str) -> list[str]:
    """The statements about the table that its list sends."""
    address = reverse(f"admin:jobexec_{table._meta.model_name}_changelist")
    with routed_to(alias), CaptureQueriesContext(connections[alias]) as captured:
        get(address + query)
    name = connections[alias].ops.quote_name(table._meta.db_table)
    found = [each["sql"] for each in captured if f"FROM {name}" in each["sql"]]
    return [sql for sql in found if not sql.startswith("EXPLAIN")]


def judge(alias: str, sql: str) -> None:
    connection = connections[alias]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", None)
            answer = cursor.fetchone()[0]
            plan = (json.loads(answer) if isinstance(answer, str) else answer)[0]["Plan"]
            assert touched(plan) <= MOST, f"{sql[:400]}\n{plan}"
            return
        explain = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
        cursor.execute(f"{explain} {sql}", None)
        plan = str(cursor.fetchall())
    assert SORTED[connection.vendor] not in plan, f"{sql[:400]}\n{plan}"


def touched(plan: dict[str, Any]) -> float:
    """The most rows that any step of a plan has brought or thrown away."""
    own: float = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    return max([own, *(touched(step) for step in plan.get("Plans", ()))])
