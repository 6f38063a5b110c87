"""What it takes to find the siblings of a process instance does not grow with the other jobs of their category.

Counted in rows that the database reads, also where the plans of a loop are kept, which avoid sorts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

from jobexec.models import ExclusiveLock, Job
from jobexec.operations.acquire import candidates
from jobexec.operations.acquire.follow_ups import committed
from jobexec.operations.rows.exclusive import lock_instances, unlock_instances
from jobexec.operations.sql.dialect import keep_plans
from jobexec.operations.values.acquired_job import ServedJobs, columns, from_row
from tests.support.factories import acquire, make_row

from .test_foreign_rows import OURS, counted
from .test_plans import engines, fill, plans

pytestmark = [pytest.mark.transactional, pytest.mark.slow]

__all__ = ["engines"]


@pytest.fixture(autouse=True)
def new_connection(alias: str) -> Iterator[None]:
    """Whose settings, and plans, no other test has."""
    connections[alias].close()
    yield
    connections[alias].close()


def siblings(alias: str, ranks: range, **columns: Any) -> list[Any]:
    return [make_row(Job, alias, process_instance_id="p", exclusive=True, rank=rank, **columns) for rank in ranks]


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("scope", [{}, OURS], ids=["a category", "several"])
@pytest.mark.parametrize("form", ["statement", "portable"])
def test_a_page_with_siblings_reads_few_other_jobs(
    alias: str, form: str, scope: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "portable":
        monkeypatch.setattr(candidates, "has_statements", lambda request: False)
    fill(alias, Job, category="default", rank=99)
    ours = siblings(alias, range(6))
    keep_plans(alias)
    with counted(alias) as read:
        jobs = acquire(alias, limit=5, strategy="skip_locked", **scope)
    assert [job.id for job in jobs] == [row.pk for row in ours[:5]]
    assert sum(read) < 100, read


@pytest.mark.databases("sqlite")
def test_siblings_are_found_by_their_index(alias: str) -> None:
    fill(alias, Job, category="default", rank=99)
    siblings(alias, range(6))
    found = plans(alias, Job, lambda: acquire(alias, limit=5))
    assert sum("jobexec_job_instance" in plan for plan in found) == 2, found


@pytest.mark.databases("postgresql", "mariadb")
def test_whether_a_follow_up_would_overtake_a_sibling_is_seen_without_reading_other_jobs(alias: str) -> None:
    fill(alias, Job, category="default", rank=-99)
    siblings(alias, range(2))
    (row,) = siblings(alias, range(5, 6), lock_owner="one")
    values = Job.objects.using(alias).filter(pk=row.pk).values_list(*columns()).get()
    kept = from_row(values, alias, "one")
    keep_plans(alias)
    with counted(alias) as read:
        run, behind = committed(alias, "one", [kept], {kept.share: ServedJobs()})
    assert (run, [job.id for job in behind]) == ([], [row.pk])
    assert sum(read) < 100, read


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("table", [ExclusiveLock, Job])
def test_a_process_instance_is_freed_without_reading_the_others(alias: str, table: type[Any]) -> None:
    """Neither the other locks of its owner, nor the exclusive jobs of other instances."""
    fill(alias, Job, exclusive=True, process_instance_id="other", lock_owner="one")
    keep_plans(alias)
    for round in range(2):  # the plan is made for the first
        if round:
            lock_instances(alias, "one", [f"i{number}" for number in range(1_000)])
        lock_instances(alias, "one", ["p"])
        with counted(alias, table) as read:
            unlock_instances(alias, "one", ["p"])
        assert not ExclusiveLock.objects.using(alias).filter(process_instance_id="p").exists()
        assert sum(read) < 100, read
