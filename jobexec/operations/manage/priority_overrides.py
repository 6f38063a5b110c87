"""Overriding priorities: apply the priority that an operator set for a definition to its existing and new jobs.

Enqueueing does not query the definition. So jobs are created with the priority of their code, and nodes apply the
override soon afterwards: a priority only matters to waiting jobs.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from jobexec.identifiers import least_uuid7
from jobexec.models import JOB_TABLES, AbstractJob, JobDefinition

from ..sql.locks import atomic, ids_sort_by_time, lock_rows
from ..values.ranking import reranked
from .adjust import set_priority

#: The tolerance for the time between a job's id and its commit, and for the clock of the process that creates it.
OVERLAP = timedelta(minutes=2)

_PAGE = 500


def overridden(using: str) -> QuerySet[JobDefinition]:
    """The definitions that have an overriding priority."""
    rows = JobDefinition.objects.using(using)
    return rows.filter(overriding_priority__isnull=False, overriding_since__isnull=False)


def apply_overrides(using: str, seen: datetime | None = None) -> int | None:
    """Apply overriding priorities to jobs created since the override; return how many were changed.

    ``seen`` is when the last call began; only jobs created since then, plus :data:`OVERLAP`, are examined. Returns None
    if there is no override. Every node does this; jobs that another node has changed need no change. Rows that are
    locked wait for the next call.
    """
    definitions = list(overridden(using).order_by("pk"))
    if not definitions:
        return None
    meant, priorities, moments = Q(pk__in=[]), dict[str, int | None](), list[datetime]()
    for definition in definitions:
        since = definition.overriding_since
        assert since is not None
        meant |= _not_yet(definition) & Q(create_time__gte=since)
        priorities[definition.pk] = definition.overriding_priority
        moments.append(since)
    oldest = min(moments)
    recent = _created_since(using, max(oldest, seen or oldest) - OVERLAP)
    return sum(_walk(table, using, recent & meant, priorities)[0] for table in JOB_TABLES)


def apply_to_all(using: str, definition: JobDefinition) -> int:
    """Apply a definition's overriding priority to all its jobs, in pages; return how many were changed.

    Waits for locked rows one by one. Runs twice, for jobs that moved from one table to another meanwhile: a move keeps
    the old priority.
    """
    count, priority = 0, definition.overriding_priority
    assert priority is not None
    for _ in range(2):
        for table in JOB_TABLES:
            changed, held = _walk(table, using, _not_yet(definition), {definition.pk: priority})
            count += changed + len(set_priority(held, priority, using=using).changed)
    return count


def _not_yet(definition: JobDefinition) -> Q:
    return Q(job_definition_id=definition.pk) & ~Q(priority=definition.overriding_priority)


def _created_since(using: str, moment: datetime) -> Q:
    # By primary key: ids are in the order of their creation.
    return Q(pk__gte=least_uuid7(moment)) if ids_sort_by_time(using) else Q()


def _walk(
    table: type[AbstractJob], using: str, condition: Q, priorities: dict[str, int | None]
) -> tuple[int, list[UUID]]:
    """Change the rows that meet the condition, in pages by primary key, one transaction each; skip locked rows.

    Return how many were changed, and the ids of the skipped rows.
    """
    rows, count, held = table._base_manager.using(using).filter(condition).order_by("pk"), 0, list[UUID]()
    last: UUID | None = None
    while True:
        page = list((rows.filter(pk__gt=last) if last else rows).values_list("pk", flat=True)[:_PAGE])
        if not page:
            return count, held
        changed = _change(rows, page, priorities)
        count += len(changed)
        held += [pk for pk in page if pk not in changed]
        last = page[-1]


def _change(rows: QuerySet[Any], page: list[UUID], priorities: dict[str, int | None]) -> Collection[UUID]:
    """Does not increment ``revision``: a running job's outcome still counts; its next attempt has the new priority."""
    using = rows.db
    with atomic(using):
        locked = rows.filter(pk__in=page).only("pk", "job_definition_id", "priority", "rank")
        found = list(lock_rows(locked, skip_locked=True))
        for row in found:
            priority = priorities[row.job_definition_id] or 0
            # Adjust the rank instead of computing it from the dates, as set_priority() does.
            row.rank, row.priority = reranked(using, row.rank, priority - row.priority), priority
        rows.model._base_manager.using(using).bulk_update(found, ["priority", "rank"])
    return {row.pk for row in found}
