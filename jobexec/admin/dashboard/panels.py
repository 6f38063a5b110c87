"""The lists of the dashboard for the template: plain rows with links."""

from __future__ import annotations

from typing import Any

from django.utils.formats import number_format
from django.utils.translation import gettext as _

from jobexec.models import (
    Batch,
    DeadLetterJob,
    ExecutorNode,
    ExternalWorker,
    FailureGroup,
    Incident,
    Job,
    Resource,
    Schedule,
    Suspension,
    TimerJob,
)
from jobexec.operations.overview import NodeStatus, Overview
from jobexec.operations.problems import problems, start_command
from jobexec.operations.schedules.words import in_words
from jobexec.operations.values.humanize import handler_name

from ..common import display, node_columns
from ..common.page_links import incident_groups_url, running_url, subject_url
from ..history.failure_group import standing_badge
from .visible_tables import VisibleTables

_LEADS_TO: dict[str, tuple[type[Any], dict[str, str]]] = {
    "no_node": (ExecutorNode, {}),
    "lease": (ExecutorNode, {}),
    "paused": (ExecutorNode, {}),
    "stuck": (ExecutorNode, {}),
    "late": (Job, {"lock": "free"}),
    "no_worker": (ExternalWorker, {}),
    "breaker": (Resource, {}),
    "resource_unknown": (Resource, {}),
    "incidents": (Incident, {}),
}


def wrong(seen: Overview, visible: VisibleTables) -> list[dict[str, Any]]:
    """Current problems, each with a link to the list to look at; incidents with links to their groups of failures."""
    found = []
    for problem in problems(seen):
        table, query = _LEADS_TO[problem.code]
        url, causes = visible.list(table, **query), []
        if problem.code == "incidents":
            url, causes = url and (incident_groups_url(visible.site) or url), _causes(seen, visible)
        found.append({"text": problem.text, "url": url, "groups": causes})
    return found


def _causes(seen: Overview, visible: VisibleTables) -> list[dict[str, Any]]:
    """One line for each of the groups with the most open incidents, however many these are."""
    if not visible.may(DeadLetterJob):
        return []
    text = _("%(group)s (dead letters: %(count)s, in the last hour: %(lately)s)")
    return [
        {"text": text % {"group": each.group, "count": each.dead_letters, "lately": each.lately}, "url": url}
        for each in seen.troubling_groups or []
        if (url := visible.page(FailureGroup, each.group.pk))
    ]


def nodes(seen: Overview, visible: VisibleTables) -> dict[str, Any] | None:
    """The executors, and the command to start one if there are none."""
    if seen.nodes is None:
        return None
    rows = [_node(node, seen, visible) for node in seen.nodes]
    running = running_url(visible.site) if visible.list(ExecutorNode) else ""
    command = start_command(seen.using)
    return {"rows": rows, "url": visible.list(ExecutorNode), "running_url": running, "command": command}


def _node(node: NodeStatus, seen: Overview, visible: VisibleTables) -> dict[str, Any]:
    return {
        "name": node.label,
        "url": visible.page(ExecutorNode, node.id),
        "state": node_columns.state_badge(node.state),
        "heartbeat": display.relative(node.heartbeat_time, seen.now),
        "lease": node_columns.lease_badge(node.lease_left),
        "busy": display.load(node.busy_threads, node.threads),
        "stuck": node_columns.stuck_badge(node.stuck_threads),
        "queued": display.load(node.queued_jobs, node.queue_size),
    }


def failures(seen: Overview, visible: VisibleTables) -> dict[str, Any] | None:
    """The groups of failures of the period, each with the number of its dead letters."""
    if seen.failure_groups is None:
        return None
    rows = [
        {
            "title": str(found.group),
            "handler": display.handler(found.group.handler_type),
            "message": display.shortened(found.group.message, 100),
            "url": visible.page(FailureGroup, found.group.pk),
            "badge": standing_badge(found.group, seen.now) if found.group.quiet(seen.now) else "",
            "assigned_to": found.group.assigned_to,
            "count": number_format(found.group.count, force_grouping=True),
            "last": display.relative(found.group.last_time, seen.now),
            "first": display.relative(found.group.first_time, seen.now),
            "dead_letters": found.dead_letters if visible.may(DeadLetterJob) else None,
            "dead_letters_url": visible.list(DeadLetterJob, fingerprint=found.group.fingerprint),
        }
        for found in seen.failure_groups
    ]
    return {"rows": rows, "url": visible.list(FailureGroup)}


def split_legend(legend: list[dict[str, Any]], by: str, visible: VisibleTables) -> list[dict[str, Any]]:
    """The names of the split chart with links to their pages; a node's is in the list of nodes."""
    for each in legend:
        if each["several"] or not visible.linked:
            each["url"] = ""
        elif by == "node":
            each["url"] = visible.list(ExecutorNode, q=each["name"])
        else:
            each["url"] = subject_url(visible.site, by, each["name"])
    return legend


def timers(seen: Overview, visible: VisibleTables) -> dict[str, Any] | None:
    """The next timers: a line for each handler, which leads to its timers, or to the only one."""
    if seen.timers is None:
        return None
    rows = []
    for each in seen.timers:
        alone = each.count == 1 and not each.count.capped
        url = visible.page(TimerJob, each.id) if alone else visible.list(TimerJob, handler=each.handler_type)
        retries = _("waiting for a retry") if alone else _("%(count)s wait for a retry") % {"count": each.retries}
        rows.append(
            {
                "handler": display.handler(handler_name(each.handler_type)),
                "url": url,
                "count": each.count,
                "due": display.relative(each.due_date, seen.now),
                "retries": retries if each.retries else "",
            }
        )
    return {"rows": rows, "url": visible.list(TimerJob)}


def schedules(seen: Overview, visible: VisibleTables) -> dict[str, Any] | None:
    """The next schedules; None also if there are none, because not every project has schedules."""
    if not seen.schedules:
        return None
    rows = [
        {
            "name": schedule.name,
            "url": visible.page(Schedule, schedule.id),
            "when": in_words(schedule.expression) or schedule.expression,
            "next": display.relative(schedule.next_time, seen.now),
        }
        for schedule in seen.schedules
    ]
    return {"rows": rows, "url": visible.list(Schedule)}


def suspensions(seen: Overview, visible: VisibleTables) -> dict[str, Any] | None:
    """Suspensions that are in force or planned."""
    if seen.suspensions is None or seen.planned is None:
        return None
    rows = [
        {
            "scope": suspension.get_scope_display(),
            "value": suspension.value,
            "url": visible.page(Suspension, suspension.pk),
            "state": display.badge("off", _("in force")) if in_force else display.badge("wait", _("planned")),
            "from": display.relative(suspension.suspend_time or suspension.create_time, seen.now),
            "until": display.relative(suspension.activate_time, seen.now),
        }
        for in_force, found in ((True, seen.suspensions), (False, seen.planned))
        for suspension in found
    ]
    return {"rows": rows, "url": visible.list(Suspension)}


def batches(seen: Overview, visible: VisibleTables) -> dict[str, Any] | None:
    """Unfinished batches with their progress."""
    if seen.batches is None:
        return None
    rows = [
        {
            "type": running.batch.name or running.batch.type.replace("_", " "),
            "state": display.badge("work", running.batch.get_state_display()),
            "url": visible.page(Batch, running.batch.pk),
            "progress": display.load(running.progress.total - running.progress.open, running.progress.total),
            "failed": running.progress.failed_jobs,
            "user": running.batch.create_user,
            "age": display.age(running.batch.create_time, seen.now),
        }
        for running in seen.batches
    ]
    return {"rows": rows, "url": visible.list(Batch)}
