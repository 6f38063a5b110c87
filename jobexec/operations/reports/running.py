"""The jobs that nodes have in hand now: those that run, and the few that wait for a thread there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from jobexec.conf import get_settings
from jobexec.models import Job

from ..nodes.names import names_of
from .counts import COUNT_LIMIT


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
    """The jobs that have been in hand longest, among the oldest by primary key: no index has the locks.

    Three statements, of which none reads more than :data:`COUNT_LIMIT` rows.
    """
    jobs = Job.objects.using(using)
    ours = Q() if tenants is None else Q(tenant_id__in=tenants)
    last = list(jobs.order_by("pk").values_list("pk", flat=True)[COUNT_LIMIT : COUNT_LIMIT + 1])
    held = jobs.filter(ours, lock_owner__isnull=False, **({"pk__lt": last[0]} if last else {}))
    columns = ("pk", "handler_type", "tenant_id", "lock_owner", "lock_expiration_time", "attempts")
    found = list(held.order_by("lock_expiration_time", "pk").values_list(*columns)[:limit])
    names = names_of(using, (row[3] for row in found))
    lock_time = get_settings().engine(using).lock_time
    return [
        # A lock expires LOCK_TIME after the acquisition.
        JobInHand(id, handler, tenant, names[owner], until and until - lock_time, attempts + 1)
        for id, handler, tenant, owner, until, attempts in found
    ]
