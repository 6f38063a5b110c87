"""Limits for the jobs of a tenant that a node may hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .acquired_job import AcquiredJob

#: All tenants that are not named.
OTHERS = "*"


@dataclass(frozen=True, slots=True)
class TenantRoom:
    """The jobs of each tenant that a node may acquire now (Oban: ``local_limit``, by tenant).

    ``concurrency`` is the setting TENANT_CONCURRENCY; ``in_hand`` counts the jobs queued or running on the node. Jobs
    without a tenant are not limited.
    """

    concurrency: Mapping[str, int]
    in_hand: Mapping[str, int]

    def limit(self, tenant: str) -> int | None:
        """Return the maximum number of concurrent jobs of this tenant; None means no limit."""
        return self.concurrency.get(tenant, self.concurrency.get(OTHERS)) if tenant else None

    def full(self) -> list[str]:
        """Return the tenants for which no job may be acquired now."""
        limits = ((tenant, count, self.limit(tenant)) for tenant, count in self.in_hand.items())
        return sorted(tenant for tenant, count, limit in limits if limit is not None and count >= limit)

    def fitting(self, jobs: Iterable[AcquiredJob]) -> list[AcquiredJob]:
        """Return the jobs of a page that fit the limits; earlier jobs of a tenant take precedence."""
        counts, fitting = dict(self.in_hand), []
        for job in jobs:
            limit, count = self.limit(job.tenant_id), counts.get(job.tenant_id, 0)
            if limit is None or count < limit:
                counts[job.tenant_id] = count + 1
                fitting.append(job)
        return fitting
