"""Derive current problems from an overview."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import DEFAULT_DB_ALIAS
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.models import BreakerState, NodeState

from .overview import NodeStatus, Overview
from .values.humanize import duration

LATE = timedelta(minutes=1)
"""A job that has been due for longer than this is a problem."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that needs attention. ``code`` is for programs, ``text`` (translated) for people."""

    code: str
    text: str


def problems(seen: Overview) -> list[Problem]:
    """All problems, worst first; empty if there are none. Parts missing from the overview are not judged."""
    return [*_of_the_cluster(seen), *_of_jobs(seen), *_of_nodes(seen)]


def start_command(using: str) -> str:
    """The command that starts an executor for this engine."""
    engine = "" if using == DEFAULT_DB_ALIAS else f" --engine {using}"
    return f"python manage.py runjobexecutor{engine}"


def _of_the_cluster(seen: Overview) -> Iterator[Problem]:
    if seen.nodes is None or any(node.taking for node in seen.nodes):
        return
    if any(node.lease_good for node in seen.nodes):
        yield Problem("no_node", _("Every executor is stopping: no new jobs are started."))
        return
    text = _("No executor is running, so no job runs. Start one: %(command)s")
    yield Problem("no_node", text % {"command": start_command(seen.using)})


def _of_jobs(seen: Overview) -> Iterator[Problem]:
    if seen.oldest_due is not None and seen.now - seen.oldest_due > LATE:
        text = _("The oldest due job has been waiting for %(time)s.")
        yield Problem("late", text % {"time": _since(seen, seen.oldest_due)})
    for each in seen.unserved or []:
        text = _("Jobs of type %(type)s have waited for %(time)s, and no worker asks for them.")
        yield Problem("no_worker", text % {"type": each.type, "time": _since(seen, each.waiting_since)})
    for resource in seen.resources or []:
        if resource.limits is None and resource.waiting:
            text = _("Jobs wait for the resource %(resource)s, which no entry of RESOURCES covers.")
            yield Problem("resource_unknown", text % {"resource": resource.name})
        elif resource.breaker == BreakerState.OPEN and not resource.held:
            text = _("The circuit breaker of %(resource)s is open: %(reason)s")
            yield Problem("breaker", text % {"resource": resource.name, "reason": resource.reason})
    if seen.loud_incidents:
        text = ngettext("%(count)s incident is open.", "%(count)s incidents are open.", int(seen.loud_incidents))
        yield Problem("incidents", text % {"count": str(seen.loud_incidents)})


def _since(seen: Overview, moment: datetime) -> str:
    return duration((seen.now - moment).total_seconds())


def _of_nodes(seen: Overview) -> Iterator[Problem]:
    for node in seen.nodes or []:
        if not node.lease_good:
            yield Problem("lease", _about_lease(node))
        elif node.state == NodeState.PAUSED:
            yield Problem("paused", _("%(node)s is paused: it takes no jobs.") % {"node": node.label})
        if node.stuck_threads:
            text = ngettext(
                "%(count)d thread of %(node)s is stuck: its job is still running after its timeout.",
                "%(count)d threads of %(node)s are stuck: their jobs are still running after their timeouts.",
                node.stuck_threads,
            )
            yield Problem("stuck", text % {"count": node.stuck_threads, "node": node.label})


def _about_lease(node: NodeStatus) -> str:
    values = {"node": node.label, "time": duration(abs(node.lease_left.total_seconds()))}
    if node.lease_left > timedelta(0):
        return _("%(node)s was declared dead; its jobs are being recovered.") % values
    if node.state == NodeState.DEAD:
        return _("%(node)s is dead: its lease expired %(time)s ago. Its jobs are being recovered.") % values
    return _("The lease of %(node)s expired %(time)s ago: the node does not respond.") % values
