"""Explain which nodes take a job, and why the others do not."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from jobexec.conf import EngineSettings, get_settings
from jobexec.models import AcquisitionLock, ExecutorNode, NodeState

from ..nodes.cluster_lock import ACQUIRE_JOBS
from .facts import Facts, Reason, iso


def reasons(facts: Facts) -> list[Reason]:
    """The reasons why no node takes the job, as far as known; empty if a node does."""
    found = no_node(facts) or _draining(facts)
    if not found:
        found = [*_category(facts), *_deployment(facts), *_acquisition_lock(facts)]
    return [*found, *_handler(facts), *_priority(facts)]


def no_node(facts: Facts) -> list[Reason]:
    """Report that no node is alive."""
    if facts.living:
        return []
    gone = [{"node": node.label, "lease_until": iso(node.lease_expiration_time)} for node in facts.nodes]
    if not gone:
        return [Reason("no_node", _("No executor node is alive: the table of nodes is empty."), {"nodes": gone})]
    last = max(facts.nodes, key=lambda node: node.lease_expiration_time)
    text = _("No executor node is alive. The last lease, of node %(node)s, ended on %(until)s.")
    values = {"node": last.label, "until": facts.said(last.lease_expiration_time)}
    return [Reason("no_node", text % values, {"nodes": gone})]


def _draining(facts: Facts) -> list[Reason]:
    if facts.taking:
        return []
    names = _names(facts.living)
    if any(node.state == NodeState.PAUSED for node in facts.living):
        text = _("Every living node is paused by an operator or stopping, and takes no new jobs: %(nodes)s.")
        return [Reason("nodes_paused", text % {"nodes": ", ".join(names)}, {"nodes": names})]
    text = _("Every living node is stopping and takes no new jobs: %(nodes)s.") % {"nodes": ", ".join(names)}
    return [Reason("nodes_draining", text, {"nodes": names})]


def _category(facts: Facts) -> list[Reason]:
    if any(facts.serves(node) for node in facts.taking):
        return []
    served = {node.label: sorted(map(str, node.categories)) for node in facts.taking}
    text = _("No living node serves its category %(category)s; they serve %(served)s.") % {
        "category": facts.job.category,
        "served": "; ".join(f"{name}: {', '.join(categories)}" for name, categories in sorted(served.items())),
    }
    return [Reason("category_not_served", text, {"category": facts.job.category, "served": served})]


def _deployment(facts: Facts) -> list[Reason]:
    # Only nodes that serve its category, if there are any: the others would not help.
    nodes = [node for node in facts.taking if facts.serves(node)] or facts.taking
    if any(facts.accepts(node) for node in nodes):
        return []
    refusing = [_refusal(facts, node) for node in nodes]
    words = {
        "unregistered": _("%(node)s (unregistered by an operator)"),
        "not registered": _("%(node)s (never registered)"),
    }
    text = _("Its deployment %(deployment)s is registered on no living node: %(nodes)s.") % {
        "deployment": facts.job.deployment_id,
        "nodes": ", ".join(words[each["refusal"]] % {"node": each["node"]} for each in refusing),
    }
    return [Reason("deployment_not_registered", text, {"deployment": facts.job.deployment_id, "nodes": refusing})]


def _refusal(facts: Facts, node: ExecutorNode) -> dict[str, Any]:
    registration = facts.registrations.get(node.name)
    if registration is None:
        return {"node": node.label, "refusal": "not registered", "since": None}
    return {"node": node.label, "refusal": "unregistered", "since": iso(registration.changed_at)}


def _handler(facts: Facts) -> list[Reason]:
    # If a node has already found that out, _unknown_since() reports it.
    if facts.job.unknown_since is not None or facts.handler_known:
        return []
    handler = facts.job.handler_type
    text = _("No node has ever registered its handler %(handler)s.") % {"handler": handler}
    return [Reason("handler_unknown", text, {"handler": handler})]


def _priority(facts: Facts) -> list[Reason]:
    """Check the settings of this process: a node's row does not contain the priorities that it takes."""
    acquirers, category = get_settings().engine(facts.using).acquirers, facts.job.category
    acquirers = tuple(each for each in acquirers if each.serves(category))
    if any(each.takes(facts.job.priority) for each in acquirers):
        return []
    return [_out_of_range(each, facts.job.priority) for each in acquirers]


def _out_of_range(acquirer: EngineSettings, priority: int) -> Reason:
    least, most = acquirer.priority_range
    details: dict[str, Any] = {"priority": priority, "least": least, "most": most}
    values = {"least": "…" if least is None else least, "most": "…" if most is None else most, "priority": priority}
    text = _(
        "According to PRIORITY_RANGE in this process's settings, nodes take priorities from %(least)s to %(most)s, "
        "and the job has %(priority)d. Nodes may have other settings."
    )
    if acquirer.name:
        details["acquisition"] = values["acquisition"] = acquirer.name
        text = _(
            "According to PRIORITY_RANGE in this process's settings, the acquisition %(acquisition)s takes priorities "
            "from %(least)s to %(most)s, and the job has %(priority)d. Nodes may have other settings."
        )
    return Reason("priority_out_of_range", text % values, details)


def _acquisition_lock(facts: Facts) -> list[Reason]:
    """With the strategy ``global_lock``: report that a dead node holds the global lock."""
    engine = get_settings().engine(facts.using)
    if engine.acquisition != "global_lock":
        return []
    lock = AcquisitionLock.objects.using(facts.using).filter(pk=ACQUIRE_JOBS).first()
    owner, until = (None, None) if lock is None else (lock.lock_owner, lock.lock_expiration_time)
    held = owner is not None and until is not None and until > facts.now
    if not held or any(node.lock_owner == owner for node in facts.living):
        return []
    assert until is not None
    text = _("No node acquires jobs: %(owner)s, which is not alive, holds the global lock until %(until)s.")
    values = {"owner": owner, "until": facts.said(until)}
    return [Reason("acquisition_locked", text % values, {"lock_owner": owner, "until": iso(until)})]


def busy(facts: Facts) -> list[Reason]:
    """Report that each node that takes the job had waiting jobs and no free thread at its last heartbeat."""
    nodes = facts.takers
    if not nodes or not all(node.queued_jobs and node.busy_threads >= node.threads for node in nodes):
        return []
    loads = [
        {
            "node": node.label,
            "busy_threads": node.busy_threads,
            "threads": node.threads,
            "queued_jobs": node.queued_jobs,
        }
        for node in nodes
    ]
    words = _("%(node)s (%(busy_threads)d of %(threads)d threads, %(queued_jobs)d jobs queued)")
    text = _("Every node that takes it was busy at its last heartbeat: %(nodes)s.")
    return [Reason("nodes_busy", text % {"nodes": ", ".join(words % load for load in loads)}, {"nodes": loads})]


def _names(nodes: list[ExecutorNode]) -> list[str]:
    return sorted(node.label for node in nodes)
