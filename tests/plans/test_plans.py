"""The statements that every page sends use their index, whatever else is in the tables.

`JOBEXEC_TEST_ROWS=1000000 pytest tests/plans` looks at tables of a million rows; the suite makes do with fewer.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from jobexec import clock
from jobexec.models import Job, TimerJob
from jobexec.operations import next_due_date, trigger_due_timers
from jobexec.operations.acquire import candidates
from jobexec.operations.nodes.deployments import all_deployments
from tests.support.factories import acquire, make_row

# ANALYZE TABLE commits on MariaDB, so nothing here could be rolled back.
pytestmark = [pytest.mark.transactional, pytest.mark.slow]

ROWS = int(os.environ.get("JOBEXEC_TEST_ROWS", "20000"))

UUIDS = {"postgresql": "gen_random_uuid()", "mysql": "uuid()", "sqlite": "lower(hex(randomblob(16)))"}
EXPLAIN = {"postgresql": "EXPLAIN", "mysql": "EXPLAIN", "sqlite": "EXPLAIN QUERY PLAN"}
ANALYZE = {"postgresql": "ANALYZE {}", "mysql": "ANALYZE TABLE {}", "sqlite": "ANALYZE {}"}


@pytest.fixture(autouse=True)
def engines(settings: Any) -> None:
    settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}}


def fill(alias: str, table: type[Any], **columns: Any) -> None:
    """Add a row with these columns and double the table until it is large enough, inside the database."""
    connection, name = connections[alias], table._meta.db_table
    make_row(table, alias, **columns)
    copied = ", ".join(quoted_column(alias, field) for field in table._meta.fields if not field.primary_key)
    copy = f"INSERT INTO {name} (id, {copied}) SELECT {UUIDS[connection.vendor]}, {copied} FROM {name}"
    with connection.cursor() as cursor:
        rows = table.objects.using(alias).count()
        while rows < ROWS:
            cursor.execute(copy)
            rows *= 2
        cursor.execute(ANALYZE[connection.vendor].format(name))


def quoted_column(alias: str, field: Any) -> str:
    return connections[alias].ops.quote_name(field.column)


def plans(alias: str, table: type[Any], act: Any) -> list[str]:
    """How the database reads the table in the statements that ``act`` sends for it."""
    connection = connections[alias]
    with CaptureQueriesContext(connection) as captured:
        act()
    # In statements of our own the table's name is not quoted.
    reads = tuple(f"FROM {name}" for name in (quoted(alias, table), f"{table._meta.db_table} "))
    statements = [query["sql"].strip() for query in captured if any(read in query["sql"] for read in reads)]
    found = []
    with connection.cursor() as cursor:
        for sql in statements:
            if sql.startswith(("SELECT", "UPDATE")):
                cursor.execute(f"{EXPLAIN[connection.vendor]} {sql}", None)
                found.append("\n".join(str(row) for row in cursor.fetchall()))
    return found


def quoted(alias: str, table: type[Any]) -> str:
    return connections[alias].ops.quote_name(table._meta.db_table)


def test_a_page_reads_nothing_of_other_categories_and_deployments(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_row(Job, alias, category="foreign")
    fill(alias, Job, category="default", deployment_id="elsewhere:1")
    ours = [make_row(Job, alias, rank=number).pk for number in range(3)]
    got: list[Any] = []
    strategy = "auto"
    if connections[alias].vendor == "postgresql":
        # Our own statements have their parameters bound by the server; test_hot_path.py explains them.
        strategy = "optimistic"
        monkeypatch.setattr(candidates, "has_statements", lambda request: False)
    page, *_ = plans(alias, Job, lambda: got.extend(acquire(alias, strategy=strategy)))
    assert [job.id for job in got] == ours
    assert "jobexec_job_acquisition" in page, page


def test_due_timers_are_found_by_their_index(alias: str) -> None:
    far = clock.now() + timedelta(days=30)
    fill(alias, TimerJob, due_date=far.replace(microsecond=0))
    make_row(TimerJob, alias, due_date=clock.now() - timedelta(seconds=1))
    page, *_ = plans(alias, TimerJob, lambda: trigger_due_timers(alias, 10))
    assert Job.objects.using(alias).count() == 1
    assert "jobexec_timerjob_due" in page, page


def test_the_next_due_date_is_found_by_its_index(alias: str) -> None:
    far = clock.now() + timedelta(days=30)
    fill(alias, TimerJob, due_date=far.replace(microsecond=0))
    (look,) = plans(alias, TimerJob, lambda: next_due_date(alias))
    assert "jobexec_timerjob_due" in look, look


def test_the_deployments_that_jobs_name_are_found_without_reading_the_jobs(alias: str) -> None:
    fill(alias, Job, category="default", deployment_id="elsewhere:1")
    make_row(Job, alias, category="default", deployment_id="elsewhere:2")
    make_row(Job, alias, category="mail", deployment_id="elsewhere:3")
    named: list[str] = []
    looks = plans(alias, Job, lambda: named.extend(all_deployments(["default"], using=alias)))
    assert named == ["elsewhere:1", "elsewhere:2"]
    assert len(looks) == len(named) + 1
    for look in looks:
        assert "jobexec_job_acquisition" in look, look
        assert "sort" not in look.lower(), look
