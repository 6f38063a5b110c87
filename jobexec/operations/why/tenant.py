"""Explain that a tenant has reached its limit of concurrent jobs on the nodes."""

from __future__ import annotations

from collections import Counter

from django.db.models import Count, Q
from django.utils.translation import gettext as _

from jobexec.conf import get_settings
from jobexec.models import Job

from ..reports.held import fronts
from ..values.tenant_room import TenantRoom
from .facts import Facts, Reason


def reasons(facts: Facts) -> list[Reason]:
    """Report that no node that takes the job has room for its tenant, by this process's TENANT_CONCURRENCY."""
    tenant, concurrency = facts.job.tenant_id, get_settings().tenant_concurrency
    limit = TenantRoom(concurrency, {}).limit(tenant) if concurrency else None
    if limit is None or not facts.takers:
        return []
    found = _in_hand(facts, tenant)
    if any(count < limit for count in found):
        return []
    nodes = [{"node": node.label, "in_hand": count} for node, count in zip(facts.takers, found, strict=True)]
    shown = ", ".join(f"{each['node']}: {each['in_hand']}" for each in nodes)
    values = {"tenant": tenant, "limit": limit, "nodes": shown}
    text = _(
        "Its tenant %(tenant)s is at its limit on every node that takes it (%(nodes)s): TENANT_CONCURRENCY in this "
        "process's settings allows %(limit)d on each."
    )
    return [Reason("tenant_at_limit", text % values, {"tenant": tenant, "limit": limit, "nodes": nodes})]


def _in_hand(facts: Facts, tenant: str) -> list[int]:
    """The number of jobs of the tenant on each taker: a lower bound, as no index covers the jobs that a node holds."""
    held = {f"node{at}": Q(lock_owner=node.lock_owner, tenant_id=tenant) for at, node in enumerate(facts.takers)}
    sums = Counter(dict.fromkeys(held, 0))
    for front in fronts(facts.using):
        rows = Job.objects.using(facts.using).filter(front)
        sums.update(rows.aggregate(**{name: Count("pk", filter=each) for name, each in held.items()}))
    return [sums[name] for name in held]
