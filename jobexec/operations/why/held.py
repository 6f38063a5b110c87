"""Explain why a locked job is not done: it runs, it waits in a node's queue, or its owner is gone."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.conf import get_settings
from jobexec.models import ExecutorNode, JobProgress, NodeState

from .facts import Facts, Reason, iso
from .nodes import no_node
from .suspended import covering


def reasons(facts: Facts) -> list[Reason]:
    """The reasons for a locked job."""
    holder = next((node for node in facts.nodes if node.lock_owner == facts.job.lock_owner), None)
    if holder is None:
        found = [_without_node(facts)]
    elif not facts.lives(holder):
        found = [_dead(facts, holder)]
    else:
        found = [_in_hand(facts, holder), *_draining(holder), *_stuck(holder)]
    if holder is None or not facts.lives(holder):
        found += no_node(facts)
    return [*found, *_asked_to_stop(facts), *covering(facts)]


def _since(facts: Facts) -> datetime | None:
    """When the job was acquired: its lock expires LOCK_TIME after that."""
    until = facts.job.lock_expiration_time
    return None if until is None else until - get_settings().engine(facts.using).lock_time


def _of(facts: Facts, **more: Any) -> dict[str, Any]:
    job = facts.job
    details = {"lock_owner": job.lock_owner, "since": iso(_since(facts)), "locked_until": iso(job.lock_expiration_time)}
    return {"node": facts.node_of(job.lock_owner or ""), **details, **more}


def _in_hand(facts: Facts, node: ExecutorNode) -> Reason:
    since, progress = _since(facts), _progress(facts)
    code = "running" if _runs(facts, node, since, progress) else "in_hand"
    details = _of(
        facts,
        lease_until=iso(node.lease_expiration_time),
        busy_threads=node.busy_threads,
        queued_jobs=node.queued_jobs,
        start_time=iso(facts.job.start_time),
        progress=progress,
    )
    values = {
        "node": node.label,
        "since": facts.said(since) if since else "?",
        "until": facts.said(node.lease_expiration_time),
        "busy": node.busy_threads,
        "queued": node.queued_jobs,
    }
    if code == "running":
        text = _(
            "It is running on node %(node)s, which acquired it on %(since)s. The node's lease is valid until %(until)s."
        )
    else:
        text = _(
            "Node %(node)s acquired it on %(since)s: it runs there or waits for a thread (at the last heartbeat "
            "%(busy)d threads were busy and %(queued)d jobs waited). The node's lease is valid until %(until)s."
        )
    return Reason(code, text % values, details)


def _runs(facts: Facts, node: ExecutorNode, since: datetime | None, progress: dict[str, Any] | None) -> bool:
    """Return whether it certainly runs: it has begun, reports progress, or nothing waited on the node after it came."""
    if facts.job.start_time is not None or progress is not None:
        return True
    return since is not None and node.queued_jobs == 0 and node.heartbeat_time > since


def _progress(facts: Facts) -> dict[str, Any] | None:
    row = JobProgress.objects.using(facts.using).filter(pk=facts.job.pk, attempt=facts.job.attempts + 1).first()
    return None if row is None else {"done": row.done, "total": row.total, "at": iso(row.update_time)}


def _draining(node: ExecutorNode) -> list[Reason]:
    if node.state == NodeState.PAUSED and node.queued_jobs:
        text = _("An operator has paused node %(node)s: it finishes the jobs that it holds.") % {"node": node.label}
        return [Reason("node_paused", text, {"nodes": [node.label]})]
    if node.state != NodeState.DRAINING:
        return []
    text = _("Node %(node)s is stopping: it finishes running jobs and gives back the others.") % {"node": node.label}
    return [Reason("node_draining", text, {"nodes": [node.label]})]


def _dead(facts: Facts, node: ExecutorNode) -> Reason:
    text = _(
        "Node %(node)s holds it, but the node's lease ended on %(until)s: the node has died or cannot reach the "
        "database. A living node gives the job back at its next check for dead nodes."
    ) % {"node": node.label, "until": facts.said(node.lease_expiration_time)}
    details = _of(facts, lease_until=iso(node.lease_expiration_time), last_heartbeat=iso(node.heartbeat_time))
    return Reason("node_dead", text, details)


def _without_node(facts: Facts) -> Reason:
    """The reason for an owner without a node (execute now), whose lock is valid until it expires."""
    owner, until = facts.job.lock_owner or "", facts.job.lock_expiration_time
    if until is not None and until > facts.now:
        text = _("%(owner)s, which is not a node, holds it until the lock expires on %(until)s.")
        return Reason("held_without_node", text % {"owner": owner, "until": facts.said(until)}, _of(facts))
    ended = facts.said(until) if until else "?"
    text = _(
        "Its lock expired on %(until)s, and its owner %(owner)s has no node. A living node gives the job back at its "
        "next check for dead nodes."
    )
    return Reason("lock_expired", text % {"owner": owner, "until": ended}, _of(facts))


def _asked_to_stop(facts: Facts) -> list[Reason]:
    if not facts.job.cancel_requested:
        return []
    text = _("It has been asked to stop. If it has not started, it never will; otherwise its handler decides.")
    return [Reason("cancel_requested", text)]


def _stuck(node: ExecutorNode) -> list[Reason]:
    if not node.stuck_threads:
        return []
    text = ngettext(
        "%(count)d thread of node %(node)s is stuck in a job that is past its timeout.",
        "%(count)d threads of node %(node)s are stuck in jobs that are past their timeout.",
        node.stuck_threads,
    ) % {"count": node.stuck_threads, "node": node.label}
    return [Reason("threads_stuck", text, {"node": node.label, "stuck_threads": node.stuck_threads})]
