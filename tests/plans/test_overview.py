"""The overview reads no large table as a whole, whatever is in it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

from jobexec import clock
from jobexec.identifiers import uuid7
from jobexec.models import BlockedJob, DeadLetterJob, FailureGroup, Incident, Job, TimerJob
from jobexec.operations.overview import overview
from tests.support.factories import make_row

from .test_failures import explained
from .test_plans import fill as fill_at_random

# ANALYZE TABLE commits on MariaDB, so nothing here could be rolled back.
pytestmark = [pytest.mark.transactional, pytest.mark.nightly]

#: How each database says that it goes through a table without an index.
_SCANS = {"postgresql": "Seq Scan on {}", "mysql": "'{}', 'ALL'", "sqlite": "SCAN {}')"}


@pytest.fixture(autouse=True)
def engines(settings: Any) -> None:
    settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}}


def fill(alias: str, table: Any, **columns: Any) -> None:
    """Rows that lie in the order of their ids, as those do whose ids were made one after the other.

    Where they lie at random, PostgreSQL may rightly take a table of this size as a whole and sort it.
    """
    fill_at_random(alias, table, **columns)
    if connections[alias].vendor == "postgresql":
        with connections[alias].cursor() as cursor:
            cursor.execute(f"CLUSTER {table._meta.db_table} USING {table._meta.db_table}_pkey")
            cursor.execute(f"ANALYZE {table._meta.db_table}")


def statements(alias: str, table: Any, *parts: str, **options: Any) -> list[tuple[str, str]]:
    found = [
        (sql, plan)
        for sql, plan in explained(alias, lambda: overview(alias, parts=parts, **options))
        if f"{table._meta.db_table}" in sql
    ]
    assert found
    return found


def no_scan(alias: str, table: Any, found: list[tuple[str, str]]) -> None:
    scan = _SCANS[connections[alias].vendor].format(table._meta.db_table)
    for sql, plan in found:
        assert scan not in plan, f"{sql[:300]}\n{plan}"


@pytest.mark.parametrize("tenants", [None, ["acme"]], ids=["all", "tenants"])
@pytest.mark.parametrize("table", [Job, TimerJob, DeadLetterJob])
def test_counts_end_along_the_primary_key(alias: str, table: Any, tenants: Any) -> None:
    due = {"due_date": clock.now() + timedelta(days=30)} if table is TimerJob else {}
    fill(alias, table, **due)
    no_scan(alias, table, statements(alias, table, "counts", tenants=tenants))
    counts = overview(alias, parts=["counts"], tenants=tenants).counts
    assert counts is not None
    number = {Job: counts.free, TimerJob: counts.timers, DeadLetterJob: counts.dead_letters}[table]
    assert (int(number), number.capped) == (10_000 if tenants is None else 0, True)


@pytest.mark.parametrize("tenants", [None, ["acme"]], ids=["all", "tenants"])
def test_the_next_timers_come_by_their_index(alias: str, tenants: Any) -> None:
    fill(alias, TimerJob, due_date=(clock.now() + timedelta(days=30)).replace(microsecond=0))
    for sql, plan in statements(alias, TimerJob, "timers", tenants=tenants):
        assert "jobexec_timerjob_due" in plan, f"{sql[:300]}\n{plan}"


def test_open_incidents_are_found_among_those_that_are_over(alias: str) -> None:
    now = clock.now().replace(microsecond=0)
    over = {"state": "resolved", "timestamp": now, "job_id": uuid7(), "category": "default"}
    fill(alias, Incident, **over)
    for sql, plan in statements(alias, Incident, "incidents"):
        assert "jobexec_incident_state" in plan, f"{sql[:300]}\n{plan}"


def test_the_dead_letters_of_a_group_are_found_by_their_fingerprint(alias: str) -> None:
    for digit in "012345678":
        make_row(DeadLetterJob, alias, fingerprint=digit * 32)
    fill(alias, DeadLetterJob, fingerprint="9" * 32)
    now = clock.now()
    FailureGroup.objects.using(alias).create(
        fingerprint="f" * 32, handler_type="tests.pay", first_time=now, last_time=now, count=1
    )
    for sql, plan in statements(alias, DeadLetterJob, "failure_groups"):
        assert "jobexec_deadletterjob_alike" in plan, f"{sql[:300]}\n{plan}"


@pytest.mark.every_database
def test_resources_for_which_jobs_wait_are_found_among_jobs_that_wait_for_messages(alias: str, settings: Any) -> None:
    settings.JOBEXEC = {**settings.JOBEXEC, "RESOURCES": {"customer:*": {"limit": 2}}}
    fill(alias, BlockedJob, waits_for="approved", waits_for_key="4711")
    for number in range(5):
        make_row(BlockedJob, alias, resource=f"customer:{number}")
    no_scan(alias, BlockedJob, statements(alias, BlockedJob, "resources"))
    found = overview(alias, parts=["resources"]).resources
    assert found is not None
    assert [(each.name, int(each.waiting)) for each in found] == [(f"customer:{number}", 1) for number in range(5)]


@pytest.mark.every_database
def test_without_resources_jobs_that_wait_for_messages_are_not_read(alias: str) -> None:
    fill(alias, BlockedJob, waits_for="approved", waits_for_key="4711")
    no_scan(alias, BlockedJob, statements(alias, BlockedJob, "resources"))
