"""Questions that a heartbeat asks along with its update, so that loops with long waits need no queries of their own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any, TypeAlias

from django.db.models import BooleanField, Exists, ExpressionWrapper, Q, Value

from jobexec.models import (
    BlockedJob,
    Deployment,
    DeploymentRegistration,
    HistoryJob,
    Job,
    Message,
    NodeState,
    Schedule,
    TimerJob,
)

from ..manage.priority_overrides import overridden
from ..manage.suspension_sweep import due_suspensions
from ..nodes.leases import dead_nodes
from ..values.acquired_job import ServedJobs

#: The names of the questions; those about deployments may have a number appended.
DEAD_NODES, SUSPENSIONS, TIMERS_SOON, DEPLOYMENTS = "dead_nodes", "suspensions_soon", "timers_soon", "other_deployments"
HISTORY_SOON, OVERRIDES, SCHEDULES_SOON = "history_soon", "overriding_priorities", "schedules_soon"
BLOCKED_JOBS, MESSAGES_SOON = "blocked_jobs", "messages_soon"

#: What an operator wants of the node, in its own row.
PAUSED, TO_DRAIN = "is_paused", "is_to_drain"

_MANY = 20  # with more questions than this, simply read again which deployments to serve

Questions: TypeAlias = dict[str, Any]  # Exists() or another boolean expression

REQUESTS: Questions = {
    name: ExpressionWrapper(Q(requested_state=state), BooleanField())
    for name, state in ((PAUSED, NodeState.PAUSED), (TO_DRAIN, NodeState.DRAINING))
}


def questions(using: str, owner: str, soon: datetime) -> Questions:
    """Ask whether there are dead nodes to recover (except ``owner``), and timers, suspensions, history and schedules
    due until ``soon``.

    Also asks whether a definition has an overriding priority, which must be applied to new jobs, whether jobs wait for
    a resource, and whether a message is to be delivered, or a job that waits for one to be looked at.

    The answers are booleans: an unreadable value must not keep a node from renewing its lease.
    """
    blocked, messages = BlockedJob.objects.using(using), Message.objects.using(using)
    return {
        DEAD_NODES: Exists(dead_nodes(using, owner)),
        SUSPENSIONS: Exists(due_suspensions(using, soon)),
        TIMERS_SOON: Exists(TimerJob.objects.using(using).filter(due_date__lte=soon)),
        HISTORY_SOON: Exists(HistoryJob.objects.using(using).filter(due_date__lte=soon)),
        OVERRIDES: Exists(overridden(using)),
        BLOCKED_JOBS: Exists(blocked.filter(resource__isnull=False)),
        MESSAGES_SOON: Exists(blocked.filter(next_look__lte=soon)) | Exists(messages.filter(delivery_time__lte=soon)),
        SCHEDULES_SOON: Exists(Schedule.objects.using(using).filter(enabled=True, next_time__lte=soon)),
    }


def questions_about_deployments(using: str, scope: ServedJobs, node_name: str | None) -> Questions:
    """Ask whether there are deployments other than ``scope`` serves; if this needs too many questions, answer yes.

    ``node_name`` is the name of a deployment-aware node, which takes only registered deployments; None takes all.
    """
    if (len(scope.deployments) + 1) * len(scope.categories) > _MANY:
        return {DEPLOYMENTS: Value(True)}
    asked = _of_all(using, scope) if node_name is None else _of_registered(using, scope, node_name)
    return {f"{DEPLOYMENTS}_{number}": question for number, question in enumerate(asked)}


def _of_registered(using: str, scope: ServedJobs, node_name: str) -> Iterator[Any]:
    rows = DeploymentRegistration.objects.using(using).filter(node_name=node_name, registered=True)
    yield Exists(rows.exclude(deployment_id__in=scope.deployments))
    for name in scope.deployments:
        yield ~Exists(rows.filter(deployment_id=name))


def _of_all(using: str, scope: ServedJobs) -> Iterator[Any]:
    yield Exists(Deployment.objects.using(using).exclude(id__in=scope.deployments))
    # Between one known deployment and the next, along the acquisition index. If the database sorts differently, this
    # asks more than necessary but misses nothing.
    for category in scope.categories:
        rows = Job.objects.using(using).filter(category=category)
        for after, before in pairwise(("", *scope.deployments, None)):
            between = rows.filter(deployment_id__gt=after)
            yield Exists(between if before is None else between.filter(deployment_id__lt=before))
