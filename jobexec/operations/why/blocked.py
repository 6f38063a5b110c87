"""Explain why a blocked job does not get a permit of its resource."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.models import BlockedJob, BreakerState

from ..reports.resources import ResourceStatus, holders, resource_status
from .facts import MOST_IN_FRONT, Facts, Reason, iso


def reasons(facts: Facts) -> list[Reason]:
    """The reasons that its resource gives, and how many jobs wait in front of it."""
    name = facts.job.resource or ""
    (status,) = resource_status(facts.using, [name])
    limits = status.limits
    if limits is None:
        text = _("No entry of RESOURCES in this process's settings covers its resource %(resource)s.")
        return [Reason("resource_unknown", text % {"resource": name}, {"resource": name}), *_in_front(facts)]
    found = _breaker(facts, status)
    if limits.limit is not None and status.in_use >= limits.limit:
        found.append(_full(facts, status, limits.limit))
    if limits.rate is not None and status.until is not None and not found:
        text = _("Its resource %(resource)s allows %(rate)s jobs to start; the next one may start on %(until)s.")
        values = {"resource": name, "rate": limits.rate, "until": facts.said(status.until)}
        details = {"resource": name, "rate": str(limits.rate), "until": iso(status.until)}
        found.append(Reason("resource_rate", text % values, details))
    if not found:
        text = _("Its resource %(resource)s has a free permit. A node assigns it to the job at its next check.")
        found = [Reason("resource_soon", text % {"resource": name}, {"resource": name})]
    return [*found, *_in_front(facts)]


def _breaker(facts: Facts, status: ResourceStatus) -> list[Reason]:
    details = {"resource": status.name, "until": iso(status.until), "held": status.held, "reason": status.reason}
    values = {
        "resource": status.name,
        "until": facts.said(status.until) if status.until else _("an operator changes that"),
        "reason": status.reason,
    }
    if status.breaker == BreakerState.OPEN and status.held:
        text = _("An operator holds back the jobs of its resource %(resource)s until %(until)s.")
        return [Reason("resource_held", text % values, details)]
    if status.breaker == BreakerState.OPEN:
        text = _("The circuit breaker of its resource %(resource)s is open until %(until)s: %(reason)s")
        return [Reason("breaker_open", text % values, details)]
    if status.breaker == BreakerState.HALF_OPEN and not status.free and status.until is None:  # not its rate
        text = _("The circuit breaker of its resource %(resource)s waits for the result of trial calls.")
        return [Reason("breaker_half_open", text % values, details)]
    return []


def _full(facts: Facts, status: ResourceStatus, limit: int) -> Reason:
    jobs = holders(facts.using, status.name)
    nodes = sorted({facts.node_of(job.lock_owner) for job in jobs if job.lock_owner})
    shown = ", ".join(nodes) or _("jobs that no node has taken yet")
    text = ngettext(
        "The permit of its resource %(resource)s is held by %(holders)s.",
        "All %(limit)d permits of its resource %(resource)s are held by %(holders)s.",
        limit,
    ) % {"limit": limit, "resource": status.name, "holders": shown}
    held = [{"job": str(job.pk), "handler": job.handler_type, "lock_owner": job.lock_owner} for job in jobs]
    details = {"resource": status.name, "limit": limit, "in_use": status.in_use, "jobs": held}
    return Reason("resource_full", text, details)


def _in_front(facts: Facts) -> list[Reason]:
    job = facts.job
    rows = BlockedJob.objects.using(facts.using).filter(resource=job.resource, waits_for=None, rank__lte=job.rank)
    before = rows.exclude(rank=job.rank, id__gte=job.pk).order_by().values("pk")[: MOST_IN_FRONT + 1].count()
    if not before:
        return []
    many, count = before > MOST_IN_FRONT, min(before, MOST_IN_FRONT)
    text = ngettext(
        "%(count)s job that waits for it is ahead of this one.",
        "%(count)s jobs that wait for it are ahead of this one.",
        count,
    )
    if many:
        text = _("More than %(count)s jobs that wait for it are ahead of this one.")
    details = {"count": count, "more": many, "resource": job.resource}
    return [Reason("blocked_in_front", text % {"count": count}, details)]
