"""What a fetch of external jobs reads does not grow with what is locked, waits behind it, or is of other types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections, transaction

from jobexec import clock
from jobexec.models import ExternalWorkerJob
from jobexec.operations.external import Fetch, activate_jobs, fetch_statement
from tests.support.factories import make_row

from .test_plans import ANALYZE, ROWS, UUIDS, plans, quoted_column

# ANALYZE TABLE commits on MariaDB, so nothing here could be rolled back.
pytestmark = [pytest.mark.transactional, pytest.mark.slow]

FETCH = Fetch(type="payment", worker="w", timeout=timedelta(minutes=1), max_jobs=5)


@pytest.fixture(autouse=True)
def engines(settings: Any) -> None:
    settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}}


def crowd(alias: str) -> None:
    """As many rows as the tests have of each kind, all of them before ours in rank; inside the database."""
    connection, name = connections[alias], ExternalWorkerJob._meta.db_table
    later = clock.now(alias) + timedelta(days=1)
    held = {"lock_owner": "other", "lock_expiration_time": later, "available_at": later}
    kinds: list[dict[str, Any]] = [held, {"available_at": later}, {"handler_type": "mail"}, {}]
    own = {"id", "job_key", "rank"}
    copied = ", ".join(quoted_column(alias, f) for f in ExternalWorkerJob._meta.fields if f.name not in own)
    digits = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
    numbers = ", ".join(f"({digits}) AS d{place}" for place in range(4))
    number = " + ".join(f"{10**place} * d{place}.d" for place in range(4))
    rank = quoted_column(alias, ExternalWorkerJob._meta.get_field("rank"))
    with connection.cursor() as cursor:
        for place, kind in enumerate(kinds, start=1):
            ours = not kind  # the backlog stands behind the five that are fetched
            start = 10**9 if ours else -(10**9)
            row = make_row(
                ExternalWorkerJob, alias, **{"handler_type": "payment", "job_key": place * 10**6, "rank": start} | kind
            )
            cursor.execute(
                f"INSERT INTO {name} (id, job_key, {rank}, {copied})"
                f" SELECT {UUIDS[connection.vendor]}, job_key + 1 + {number}, {rank} + 1 + {number}, {copied}"
                f" FROM {name}, {numbers} WHERE job_key = {row.job_key} AND {number} < {ROWS // 4}"
            )
        if connection.vendor == "postgresql":
            cursor.execute(f"VACUUM {name}")
        cursor.execute(ANALYZE[connection.vendor].format(name))


def first_five(alias: str) -> list[Any]:
    return [make_row(ExternalWorkerJob, alias, handler_type="payment", job_key=n, rank=n).pk for n in range(1, 6)]


@contextmanager
def counted(alias: str) -> Iterator[list[int]]:
    found: list[int] = []
    with transaction.atomic(alias):
        before = rows_read(alias)
        yield found
        found.append(rows_read(alias) - before)


def rows_read(alias: str) -> int:
    statement = {
        "postgresql": "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables"
        f" WHERE relname = '{ExternalWorkerJob._meta.db_table}'",
        "mysql": "SELECT sum(variable_value) FROM information_schema.session_status"
        " WHERE variable_name LIKE 'Handler\\_read\\_%'",
    }[connections[alias].vendor]
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, None)
        return int(cursor.fetchone()[0])


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("form", ["any", "portable"])
def test_a_fetch_reads_what_it_brings(alias: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if form == "portable":
        monkeypatch.setattr(fetch_statement, "is_possible", lambda using, fetch: False)
    crowd(alias)
    expected = first_five(alias)
    with counted(alias) as read:
        jobs = activate_jobs(alias, FETCH)
    assert [job.id for job in jobs] == expected
    assert 0 < read[0] < 200, read


@pytest.mark.databases("sqlite")
def test_the_plan_follows_the_index(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_statement, "is_possible", lambda using, fetch: False)
    crowd(alias)
    first_five(alias)
    for plan in plans(alias, ExternalWorkerJob, lambda: activate_jobs(alias, FETCH)):
        assert "SCAN jobexec_externalworkerjob" not in plan, plan
        assert "TEMP B-TREE" not in plan, plan
