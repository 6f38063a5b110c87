"""The activities of an instance in time, on its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from jobexec.admin.common import display
from jobexec.models import DeadLetterJob

from ..definition import Process
from ..engine.cancel import BODY
from ..engine.rows import ActivityState, State
from ..models import ActivityInstance, Execution
from ..operations.query import InstanceView
from ..picture.gantt import Span
from .common import element_shown

ROWS = 500
_DEEPEST = 4

#: What an execution does, for people.
STATES = {
    State.MOVING: gettext_lazy("is moving"),
    State.WAITING: gettext_lazy("waits"),
    State.BEFORE: gettext_lazy("waits for the job that starts it"),
    State.AFTER: gettext_lazy("waits for the job that ends it"),
    State.OUTSIDE: gettext_lazy("its job runs"),
    State.JOINED: gettext_lazy("waits for others at a join"),
    State.SCOPE: gettext_lazy("contains other elements"),
    State.FAILED: gettext_lazy("has an incident"),
    State.COMPENSABLE: gettext_lazy("is done and can be compensated"),
}
_ENDED = {
    ActivityState.COMPLETED: pgettext_lazy("an activity", "completed"),
    ActivityState.CANCELLED: pgettext_lazy("an activity", "cancelled"),
}

#: An activity: what is over, or a token at what is not.
Arrival: TypeAlias = ActivityInstance | Execution
Path: TypeAlias = tuple[tuple[datetime, int, UUID], ...]


def activities(
    view: InstanceView, process: Process | None, now: datetime, site: str
) -> tuple[list[dict[str, Any]], bool]:
    """The latest ROWS activities, finished or not, each below its scope; and whether there are more.

    A token that waits for the job that begins its activity is among them, since that job was enqueued.
    """
    open_rows = [row for row in view.executions if row.state != State.COMPENSABLE.value]
    enqueued = {job.pk: job.create_time for job in view.jobs}
    began = {row.pk: row.entered_at or (enqueued.get(row.job_id) if row.job_id else None) for row in open_rows}
    began |= {row.pk: row.start_time for row in view.activities}
    arrivals: list[Arrival] = [*view.activities, *open_rows]
    rows = sorted(arrivals, key=lambda row: (began[row.pk] or now, row.pk))[-ROWS:]
    order = {node.id: number for number, node in enumerate(process.nodes)} if process else {}
    paths = _paths(rows, order, {pk: moment or now for pk, moment in began.items()})
    rows.sort(key=lambda row: paths[row.pk])
    last = view.instance.end_time or now
    span = Span(min([view.instance.start_time, *filter(None, (began[row.pk] for row in rows))]), last)
    dead = {job.pk for job in view.jobs if isinstance(job, DeadLetterJob)}
    return [
        {
            "element": element_shown(process, row.element_id),
            "depth": min(len(paths[row.pk]) - 1, _DEEPEST),
            "started": display.NONE if (moment := began[row.pk]) is None else display.absolute(moment),
            "job": display.job_link(row.job_id, site) if row.job_id else "",
            **(_over(row, span) if isinstance(row, ActivityInstance) else _open(row, process, moment, span, now, dead)),
        }
        for row in rows
    ], len(arrivals) > len(rows)


def _over(row: ActivityInstance, span: Span) -> dict[str, Any]:
    state = ActivityState(row.state)
    return {
        "kind": _("multi-instance") if row.kind == BODY else row.kind,
        "state": _ENDED[state],
        "assignee": row.assignee,
        "took": display.duration((row.end_time - row.start_time).total_seconds()),
        "bar": span.bar(row.start_time, row.end_time, state.value),
    }


def _open(
    row: Execution, process: Process | None, began: datetime | None, span: Span, now: datetime, dead: set[UUID]
) -> dict[str, Any]:
    node = process.find(row.element_id) if process else None
    failed = row.state == State.FAILED.value or row.job_id in dead
    return {
        "kind": node.kind if node else "",
        "state": STATES[State.FAILED if failed else State(row.state)],
        "took": display.NONE if began is None else display.duration((now - began).total_seconds()),
        "bar": "" if began is None else span.bar(began, now, "failed" if failed else "running"),
    }


def _paths(rows: Sequence[Arrival], order: Mapping[str, int], began: Mapping[UUID, datetime]) -> dict[UUID, Path]:
    """The sort key of each row: after its scope, then by time, then by position in the file.

    What is over names the arrival of its scope, a token the token.
    """
    by_id = {row.pk: row for row in rows}
    by_id |= {row.activity_id: row for row in rows if isinstance(row, Execution) and row.activity_id}
    found: dict[UUID, Path] = {}

    def path(row: Arrival) -> Path:
        if row.pk not in found:
            around = by_id.get(row.parent_id) if row.parent_id else None
            before = path(around) if around is not None else ()
            found[row.pk] = (*before, (began[row.pk], order.get(row.element_id, 0), row.pk))
        return found[row.pk]

    for row in rows:
        path(row)
    return found
