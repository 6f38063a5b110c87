"""What failed jobs and due timers are moved by finds its rows by their primary keys, in tables of any size."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from jobexec import clock
from jobexec.models import Job, TimerJob
from jobexec.operations import fail_jobs, trigger_due_timers
from tests.support import forms
from tests.support.factories import a_failure, a_run, acquire, make_job, make_row

from .test_plans import EXPLAIN, fill

# ANALYZE TABLE commits on MariaDB, so nothing here could be rolled back.
pytestmark = [pytest.mark.transactional, pytest.mark.nightly]

_SCANS = {"postgresql": "Seq Scan on {}", "mysql": "'{}', 'ALL'", "sqlite": "SCAN {}"}


@pytest.fixture(autouse=True)
def engines(settings: Any) -> None:
    settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}}


@pytest.fixture(params=forms.MOVES, autouse=True)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, alias: str) -> None:
    """Both ways of moving, where there are two."""
    forms.move(request.param, alias, monkeypatch)


def explained(alias: str, act: Any) -> list[tuple[str, str]]:
    """The statements about jobs that ``act`` sends, each with the database's plan for it now."""
    connection, found = connections[alias], []
    with CaptureQueriesContext(connection) as captured:
        act()
    for query in captured:
        sql = query["sql"]
        # VALUES and the like have no plan; SQLite and MariaDB insert rows so.
        plain = sql.startswith(("SELECT", "DELETE", "UPDATE", "WITH")) or " SELECT " in sql
        if plain and "jobexec_" in sql and not sql.startswith("EXPLAIN"):
            with connection.cursor() as cursor:
                cursor.execute(f"{EXPLAIN[connection.vendor]} {sql}", None)
                found.append((sql, "\n".join(str(row) for row in cursor.fetchall())))
    return found


def no_table_is_read_as_a_whole(alias: str, statements: list[tuple[str, str]], table: Any) -> None:
    scan = _SCANS[connections[alias].vendor].format(table._meta.db_table)
    about = [(sql, plan) for sql, plan in statements if table._meta.db_table in sql]
    assert about
    for sql, plan in about:
        assert scan not in plan, f"{sql[:300]}\n{plan}"


def test_a_group_of_failures(alias: str) -> None:
    fill(alias, Job, category="default", deployment_id="elsewhere:1")
    for _ in range(20):
        make_job(alias)
    jobs = acquire(alias)
    assert len(jobs) == 20
    statements = explained(alias, lambda: fail_jobs(alias, [(job, a_failure(), a_run(alias)) for job in jobs]))
    assert TimerJob.objects.using(alias).count() == 20
    no_table_is_read_as_a_whole(alias, statements, Job)


def test_a_page_of_timers(alias: str) -> None:
    far = clock.now() + timedelta(days=30)
    fill(alias, TimerJob, due_date=far.replace(microsecond=0))
    for _ in range(20):
        make_row(TimerJob, alias, due_date=clock.now() - timedelta(seconds=1))
    statements = explained(alias, lambda: trigger_due_timers(alias, 100))
    assert Job.objects.using(alias).count() == 20
    no_table_is_read_as_a_whole(alias, statements, TimerJob)
