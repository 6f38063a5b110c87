"""Why an exclusive job waits: another job of its process instance is in somebody's hands."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.models import ExclusiveLock, ExternalWorkerJob

from .facts import Facts, Reason, iso, node_of


def sibling(facts: Facts) -> list[Reason]:
    """Who holds its process instance, and for which job; nothing if nobody does."""
    lock = facts.exclusive_lock
    if lock is None:
        return []
    sibling = facts.sibling(lock)
    if isinstance(sibling, ExternalWorkerJob):
        return [_outside(facts, lock, sibling)]
    details = {
        "process_instance": lock.instance,
        "lock_owner": lock.lock_owner,
        "node": node_of(lock.lock_owner),
        "since": iso(lock.lock_time),
        "job": str(sibling.pk) if sibling else None,
        "handler": sibling.handler_type if sibling else None,
    }
    values = details | {"since": facts.said(lock.lock_time)}
    if sibling is not None:
        text = _(
            "It is exclusive, and another job of its process instance %(process_instance)s is in the hands of node "
            "%(node)s since %(since)s: %(job)s, %(handler)s."
        )
        return [Reason("exclusive_sibling", text % values, details)]
    text = _(
        "It is exclusive, and node %(node)s holds its process instance %(process_instance)s since %(since)s with no "
        "other job of it in hand%(why)s."
    )
    return [Reason("exclusive_lock", text % (values | {"why": _without_job(facts, lock)}), details)]


def _outside(facts: Facts, lock: ExclusiveLock, other: ExternalWorkerJob) -> Reason:
    """A worker has the other job, or had it until its deadline: then it may still complete it."""
    details = {
        "process_instance": lock.instance,
        "lock_owner": lock.lock_owner,
        "worker": other.lock_owner,
        "since": iso(lock.lock_time),
        "job": str(other.pk),
        "handler": other.handler_type,
    }
    text = _(
        "It is exclusive, and another job of its process instance %(process_instance)s is in the hands of the worker "
        "%(worker)s since %(since)s: %(job)s, %(handler)s."
    )
    return Reason("exclusive_sibling", text % (details | {"since": facts.said(lock.lock_time)}), details)


def _without_job(facts: Facts, lock: ExclusiveLock) -> str:
    """What may hold a process instance when no job does, as far as the node's row says."""
    holder = next((node for node in facts.nodes if node.lock_owner == lock.lock_owner), None)
    if holder is None or not facts.lives(holder):
        return _(": the node is gone, and a living one clears this at its next look for dead nodes")
    if holder.stuck_threads:
        return ngettext(
            ": it has %(count)d thread that is stuck in a job past its timeout, which may be one of these",
            ": it has %(count)d threads that are stuck in jobs past their timeout, which may be of these",
            holder.stuck_threads,
        ) % {"count": holder.stuck_threads}
    return _(": an outcome is being written at this moment")
