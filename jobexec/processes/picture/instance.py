"""The overlay of one instance."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from jobexec.models import DeadLetterJob

from ..definition import Kind, Process
from ..definition.flow import Flow
from ..engine.cancel import BODY
from ..engine.rows import NOT_WAITING, ActivityState
from ..operations.query import InstanceView
from .overlay import Overlay, standing

_JOINS = (Kind.PARALLEL_GATEWAY, Kind.INCLUSIVE_GATEWAY)


def overlay(view: InstanceView, process: Process | None) -> Overlay:
    """The active elements of an instance, and the flows that it took."""
    waiting = Counter(row.element_id for row in view.executions if row.state not in NOT_WAITING)
    incidents = Counter(job.failed_activity_id for job in view.jobs if isinstance(job, DeadLetterJob))
    over = [row for row in view.activities if row.state == ActivityState.COMPLETED.value and row.kind != BODY]
    done = Counter(row.element_id for row in over)
    elements = {id: standing(waiting[id], incidents[id], done[id]) for id in {*waiting, *incidents, *done}}
    return Overlay(elements, _taken(view, process) if process else frozenset())


def _taken(view: InstanceView, process: Process) -> frozenset[str]:
    """The flows that tokens took.

    No row says it, but one step ends an activity and begins the next at the same moment. Where a job or other tokens
    come between, what follows is later.
    """
    ends: dict[str, set[datetime]] = {}
    begins: dict[str, set[datetime]] = {}
    for row in view.activities:
        begins.setdefault(row.element_id, set()).add(row.start_time)
        if row.state == ActivityState.COMPLETED.value:
            ends.setdefault(row.element_id, set()).add(row.end_time)
    for token in view.executions:
        if token.entered_at is not None:
            begins.setdefault(token.element_id, set()).add(token.entered_at)
    standing_after = {token.flow_id for token in view.executions if token.flow_id}
    return frozenset(
        flow.id
        for flow in process.flows
        if flow.id in standing_after
        or _was_taken(process, flow, ends.get(flow.source, set()), begins.get(flow.target, set()))
    )


def _was_taken(process: Process, flow: Flow, ends: set[datetime], begins: set[datetime]) -> bool:
    if not ends or not begins:
        return False
    source, target = process.node(flow.source), process.node(flow.target)
    joins = target.kind in _JOINS and len(process.incoming(target.id)) > 1
    if target.jobs.before or source.jobs.after or joins:
        return min(ends) <= max(begins)
    return not ends.isdisjoint(begins)
