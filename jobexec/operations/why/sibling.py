"""Explain why an exclusive job waits: a node or worker holds another job of its process instance."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.models import ExclusiveLock, ExternalWorkerJob

from .facts import Facts, Reason, iso


def sibling(facts: Facts) -> list[Reason]:
    """Report the owner of its process instance's lock, and for which job; empty if it is not locked."""
    lock = facts.exclusive_lock
    if lock is None:
        return []
    sibling = facts.sibling(lock)
    if isinstance(sibling, ExternalWorkerJob):
        return [_outside(facts, lock, sibling)]
    details = {
        "process_instance": lock.instance,
        "lock_owner": lock.lock_owner,
        "node": facts.node_of(lock.lock_owner),
        "since": iso(lock.lock_time),
        "job": str(sibling.pk) if sibling else None,
        "handler": sibling.handler_type if sibling else None,
    }
    values = details | {"since": facts.said(lock.lock_time)}
    if sibling is not None:
        text = _(
            "It is exclusive, and node %(node)s has held another job of its process instance %(process_instance)s "
            "since %(since)s: %(job)s, %(handler)s."
        )
        return [Reason("exclusive_sibling", text % values, details)]
    text = _(
        "It is exclusive, and node %(node)s has held its process instance %(process_instance)s since %(since)s "
        "without holding another of its jobs%(why)s."
    )
    return [Reason("exclusive_lock", text % (values | {"why": _without_job(facts, lock)}), details)]


def _outside(facts: Facts, lock: ExclusiveLock, other: ExternalWorkerJob) -> Reason:
    """A worker holds the other job, or missed its deadline and may still complete it."""
    details = {
        "process_instance": lock.instance,
        "lock_owner": lock.lock_owner,
        "worker": other.lock_owner,
        "since": iso(lock.lock_time),
        "job": str(other.pk),
        "handler": other.handler_type,
    }
    text = _(
        "It is exclusive, and the worker %(worker)s has held another job of its process instance %(process_instance)s "
        "since %(since)s: %(job)s, %(handler)s."
    )
    return Reason("exclusive_sibling", text % (details | {"since": facts.said(lock.lock_time)}), details)


def _without_job(facts: Facts, lock: ExclusiveLock) -> str:
    """Explain why a node may hold a process instance without a job, according to the node's row."""
    holder = next((node for node in facts.nodes if node.lock_owner == lock.lock_owner), None)
    if holder is None or not facts.lives(holder):
        return _(": the node is gone, and a living node clears this at its next check for dead nodes")
    if holder.stuck_threads:
        return ngettext(
            ": it has %(count)d thread stuck in a job past its timeout, possibly of this process instance",
            ": it has %(count)d threads stuck in jobs past their timeout, possibly of this process instance",
            holder.stuck_threads,
        ) % {"count": holder.stuck_threads}
    return _(": an outcome is being written right now")
