"""What a heartbeat asks on its way, so that loops which wait long need not ask for themselves."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any, TypeAlias

from django.db.models import Exists, Value

from jobexec.models import Deployment, DeploymentRegistration, HistoryJob, Job, Schedule, TimerJob

from ..manage.suspension_sweep import due_suspensions
from ..nodes.leases import dead_nodes
from ..priority_overrides import overridden
from ..values.acquired_job import ServedJobs

#: The questions by name; those about deployments may have a number behind it.
DEAD_NODES, SUSPENSIONS, TIMERS_SOON, DEPLOYMENTS = "dead_nodes", "suspensions_soon", "timers_soon", "other_deployments"
HISTORY_SOON, OVERRIDES, SCHEDULES_SOON = "history_soon", "overriding_priorities", "schedules_soon"

_MANY = 20  # rather ask anew what to serve than so many questions whether it has changed

Questions: TypeAlias = dict[str, Any]  # Exists() or what else is true or false


def questions(using: str, owner: str, soon: datetime) -> Questions:
    """Whether there are dead nodes to recover (but for ``owner``), or timers, suspensions, history and schedules until
    ``soon``.

    And whether a definition has an overriding priority, which must be brought to new jobs.

    Yes or no: a value that cannot be read must not keep a node from renewing its lease.
    """
    return {
        DEAD_NODES: Exists(dead_nodes(using, owner)),
        SUSPENSIONS: Exists(due_suspensions(using, soon)),
        TIMERS_SOON: Exists(TimerJob.objects.using(using).filter(due_date__lte=soon)),
        HISTORY_SOON: Exists(HistoryJob.objects.using(using).filter(due_date__lte=soon)),
        OVERRIDES: Exists(overridden(using)),
        SCHEDULES_SOON: Exists(Schedule.objects.using(using).filter(enabled=True, next_time__lte=soon)),
    }


def questions_about_deployments(using: str, scope: ServedJobs, node_name: str | None) -> Questions:
    """Whether there are others than ``scope`` serves; where that would be too many questions the answer is yes.

    ``node_name`` is that of a node that is deployment aware and takes what is registered for it; None takes all.
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
    # Between one that is known and the next, along the index of acquisition. An order other than the database's would
    # ask more than is needed, but miss nothing.
    for category in scope.categories:
        rows = Job.objects.using(using).filter(category=category)
        for after, before in pairwise(("", *scope.deployments, None)):
            between = rows.filter(deployment_id__gt=after)
            yield Exists(between if before is None else between.filter(deployment_id__lt=before))
