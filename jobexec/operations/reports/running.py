"""The jobs that nodes have in hand now: those that run, and the few that wait for a thread there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from heapq import nsmallest
from typing import Any
from uuid import UUID

from django.db.models import Q

from jobexec.conf import get_settings
from jobexec.models import Job

from ..nodes.names import names_of
from .held import fronts


@dataclass(frozen=True, slots=True)
class JobInHand:
    """A job that a node holds. ``since``: when the node acquired it; None if unknown."""

    id: UUID
    handler_type: str
    tenant_id: str
    node: str
    since: datetime | None
    attempt: int


def jobs_in_hand(using: str, limit: int, tenants: Collection[str] | None = None) -> list[JobInHand]:
    """The jobs that have been in hand longest.

    No index has the locks: of a large table, those are found that are at the front of it (:func:`~.held.fronts`).
    """
    held = Job.objects.using(using).filter(
        Q() if tenants is None else Q(tenant_id__in=tenants), lock_owner__isnull=False
    )
    rows = held.values_list("pk", "handler_type", "tenant_id", "lock_owner", "lock_expiration_time", "attempts")
    found: list[Any] = []
    for front in fronts(using):
        some = rows.filter(front)
        # A large table is read in the order of the index, or the planner could read all of it.
        found += some.order_by("rank", "id") if front else some.order_by("lock_expiration_time", "pk")[:limit]
    found = nsmallest(limit, found, key=lambda row: (row[4] is None, row[4], row[0]))
    names = names_of(using, (row[3] for row in found))
    lock_time = get_settings().engine(using).lock_time
    return [
        # A lock expires LOCK_TIME after the acquisition.
        JobInHand(id, handler, tenant, names[owner], until and until - lock_time, attempts + 1)
        for id, handler, tenant, owner, until, attempts in found
    ]
