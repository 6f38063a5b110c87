"""What a page of acquisition reads does not grow with the backlog of other deployments and other categories.

Counted in rows and pages that the database reads, not in time. `JOBEXEC_TEST_ROWS` changes how many there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from jobexec.models import Job
from jobexec.operations import release_jobs
from jobexec.operations.acquire import candidates
from jobexec.operations.acquire import statement as one_statement
from tests.support.factories import acquire, make_row

from .test_plans import ANALYZE, ROWS, UUIDS, quoted, quoted_column

# ANALYZE TABLE commits on MariaDB, so nothing here could be rolled back.
pytestmark = [pytest.mark.transactional, pytest.mark.slow, pytest.mark.databases("postgresql", "mariadb")]

FEW = 2_000

OURS: dict[str, Any] = {"categories": ("default", "mail"), "deployments": ("shop:2",)}
FOREIGN = [
    *[("default", f"elsewhere:{number}") for number in range(4)],
    *[("default", "shop:1"), ("mail", "shop:3"), ("bulk", ""), ("bulk", "shop:2"), ("aaa", ""), ("zzz", "")],
]


@pytest.fixture(autouse=True)
def engines(settings: Any) -> None:
    settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}, "CATEGORIES": ["default", "mail"]}


def backlog(alias: str, rows: int) -> None:
    """Foreign rows, all of them before ours in rank, by one statement for each pair of category and deployment."""
    connection, name = connections[alias], Job._meta.db_table
    own = {"id", "category", "deployment_id"}
    copied = ", ".join(quoted_column(alias, field) for field in Job._meta.fields if field.name not in own)
    digits = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
    numbers = ", ".join(f"({digits}) AS d{place}" for place in range(5))
    number = " + ".join(f"{10**place} * d{place}.d" for place in range(5))
    template = make_row(Job, alias, category="template", rank=-(10**9))
    with connection.cursor() as cursor:
        for category, deployment in FOREIGN:
            cursor.execute(
                f"INSERT INTO {name} (id, category, deployment_id, {copied})"
                f" SELECT {UUIDS[connection.vendor]}, %s, %s, {copied} FROM {name}, {numbers}"
                f" WHERE category = 'template' AND {number} < {rows // len(FOREIGN)}",
                [category, deployment],
            )
        template.delete()
        if connection.vendor == "postgresql":
            cursor.execute(f"VACUUM {name}")  # sets the hint bits, which the first reader would otherwise do
        cursor.execute(ANALYZE[connection.vendor].format(name))


def our_jobs(alias: str) -> list[Any]:
    """Jobs that this node takes, in the order of their ranks."""
    pairs = [("default", ""), ("mail", ""), ("default", "shop:2"), ("mail", "shop:2")]
    return [
        make_row(Job, alias, category=category, deployment_id=deployment, rank=number).pk
        for number, (category, deployment) in enumerate(pairs * 3)
    ]


@pytest.mark.parametrize("strategy", ["skip_locked", "optimistic"])
def test_a_page_reads_as_much_as_without_them(alias: str, strategy: str) -> None:
    reads = []
    for rows in (FEW, ROWS - FEW):
        backlog(alias, rows)
        expected = our_jobs(alias)
        with counted(alias) as read:
            jobs = acquire(alias, strategy=strategy, **OURS)
        assert [job.id for job in jobs] == expected
        with counted(alias) as read_by_empty_page:
            assert acquire(alias, "two", strategy=strategy, **OURS) == []
        reads.append((sum(read), sum(read_by_empty_page)))
        Job.objects.using(alias).filter(pk__in=expected).delete()
    assert Job.objects.using(alias).count() == ROWS
    (few, few_empty), (many, many_empty) = reads
    assert 0 < few < 500
    assert many <= few + 50, (few, many)
    assert many_empty <= few_empty + 50, (few_empty, many_empty)


@contextmanager
def counted(alias: str, table: type[Any] = Job) -> Iterator[list[int]]:
    """Adds to the list how many rows of the table the statements inside read; on MariaDB index entries of any table."""
    found: list[int] = []
    with transaction.atomic(alias):
        before = rows_read(alias, table)
        yield found
        found.append(rows_read(alias, table) - before)


def rows_read(alias: str, table: type[Any]) -> int:
    statement = {
        "postgresql": "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables"
        f" WHERE relname = '{table._meta.db_table}'",
        "mysql": "SELECT sum(variable_value) FROM information_schema.session_status"
        " WHERE variable_name LIKE 'Handler\\_read\\_%'",
    }[connections[alias].vendor]
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, None)
        return int(cursor.fetchone()[0])


@pytest.mark.databases("postgresql")
def test_the_plans_touch_few_pages_and_throw_no_row_away(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the portable form; the one statement of the other form is explained with the hot path."""
    monkeypatch.setattr(one_statement, "returns_rows", lambda using: False)
    monkeypatch.setattr(candidates, "has_statements", lambda request: False)
    backlog(alias, ROWS)
    expected = our_jobs(alias)
    with CaptureQueriesContext(connections[alias]) as captured:
        jobs = acquire(alias, strategy="skip_locked", **OURS)
    assert [job.id for job in jobs] == expected
    release_jobs(alias, jobs)
    pages = [sql for sql in (query["sql"] for query in captured) if "SKIP LOCKED" in sql and quoted(alias, Job) in sql]
    assert len(pages) == 4, "one for each category and deployment"
    for sql in pages:
        plan = explained(alias, sql)
        assert plan["Actual Rows"] == 3
        nodes = list(flat(plan))
        assert {node["Index Name"] for node in nodes if node.get("Relation Name") == Job._meta.db_table} == {
            "jobexec_job_acquisition"
        }
        assert sum(node.get("Rows Removed by Filter", 0) for node in nodes) == 0
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 50


def explained(alias: str, sql: str) -> dict[str, Any]:
    with transaction.atomic(alias), connections[alias].cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", None)
        (found,) = cursor.fetchone()
    return dict((json.loads(found) if isinstance(found, str) else found)[0]["Plan"])


def flat(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A node of a plan and all below it."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from flat(child)
