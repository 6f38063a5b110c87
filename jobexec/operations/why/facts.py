"""The rows that affect a job; each query is lazy, runs once, and is bounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db.models import Model, Q

from jobexec.models import (
    AbstractJob,
    DeploymentRegistration,
    ExclusiveLock,
    ExecutorNode,
    ExternalWorkerJob,
    Job,
    JobDefinition,
    NodeState,
    Suspension,
    SuspensionScope,
)
from jobexec.models.suspension import columns_of, value_of

from ..nodes.names import name_in
from ..rows.routing import job_of_instance
from ..sql.serial_key import of_instances
from ..values.humanize import both

#: Columns that no reason needs: they may be large, and broken values in them must not prevent an explanation.
HEAVY = ("handler_configuration", "custom_headers", "exception_stack")
#: The limit for counting the jobs in front.
MOST_IN_FRONT = 1000
_MOST_NODES = 1000
_MOST_DEPLOYMENTS = 100


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason: a ``code`` for programs, a ``text`` with the facts for people, and the same facts for JSON.

    If it repeats rows of a ``table`` other than the one that it explains, users who may not view that table get
    ``plain`` instead.
    """

    code: str
    text: str
    details: dict[str, Any] = field(default_factory=dict)
    table: type[Model] | None = None
    plain: str = ""

    def told(self, sees: Callable[[type[Model]], bool]) -> str:
        """The text for a user who may view these tables; '' if there is nothing to say."""
        return self.text if self.table is None or sees(self.table) else self.plain


def iso(moment: datetime | None) -> str | None:
    """The time in ISO 8601, for the details of a reason."""
    return None if moment is None else moment.isoformat()


class Facts:
    """The row of a job, and the related rows of other tables. ``now`` is the database's time."""

    def __init__(self, job: AbstractJob, using: str, now: datetime) -> None:
        self.job = job
        self.using = using
        self.now = now

    def said(self, moment: datetime) -> str:
        """The time in words, and the distance from now."""
        return both(moment, self.now)

    def lives(self, node: ExecutorNode) -> bool:
        """Return whether the node's lease is valid."""
        return node.state != NodeState.DEAD and node.lease_expiration_time > self.now

    @cached_property
    def nodes(self) -> list[ExecutorNode]:
        """All nodes, including dead nodes."""
        return list(ExecutorNode.objects.using(self.using).told_apart().order_by("name", "start_time")[:_MOST_NODES])

    def node_of(self, lock_owner: str) -> str:
        """The name of the node with this lock owner."""
        return next((node.label for node in self.nodes if node.lock_owner == lock_owner), name_in(lock_owner))

    @cached_property
    def living(self) -> list[ExecutorNode]:
        """The nodes with a valid lease."""
        return [node for node in self.nodes if self.lives(node)]

    @cached_property
    def taking(self) -> list[ExecutorNode]:
        """The living nodes that take new jobs."""
        return [node for node in self.living if node.state == NodeState.ACTIVE]

    @cached_property
    def takers(self) -> list[ExecutorNode]:
        """The nodes that take new jobs, serve the job's category and accept its deployment."""
        return [node for node in self.taking if self.serves(node) and self.accepts(node)]

    def serves(self, node: ExecutorNode) -> bool:
        return self.job.category in node.categories

    def accepts(self, node: ExecutorNode) -> bool:
        """Return whether the node takes jobs of the job's deployment; without deployment awareness it takes all."""
        if not (node.deployment_aware and self.job.deployment_id):
            return True
        registration = self.registrations.get(node.name)
        return registration is not None and registration.registered

    @cached_property
    def registrations(self) -> dict[str, DeploymentRegistration]:
        """The registrations of the job's deployment for the living nodes, by node name."""
        rows = DeploymentRegistration.objects.using(self.using).filter(deployment_id=self.job.deployment_id)
        named = rows.filter(node_name__in={node.name for node in self.living})
        return {row.node_name: row for row in named}

    @cached_property
    def suspensions(self) -> list[Suspension]:
        """The suspensions that cover this job, in force or planned."""
        meant = Q(pk__in=[])
        for scope in SuspensionScope.values:
            if getattr(self.job, columns_of(scope)[-1]):
                meant |= Q(scope=scope, value=value_of(scope, self.job))
        rows = Suspension.objects.using(self.using).filter(meant, live=True).order_by("pk")
        return [row for row in rows if not row.over(self.now) and (row.since is None or self._created_since(row.since))]

    def _created_since(self, moment: datetime) -> bool:
        return self.job.create_time >= moment

    @cached_property
    def exclusive_lock(self) -> ExclusiveLock | None:
        """The lock on the job's process instance, if the job is subject to it."""
        if not self.job.serial_key:
            return None
        return ExclusiveLock.objects.using(self.using).filter(pk=self.job.serial_key).first()

    def sibling(self, lock: ExclusiveLock) -> AbstractJob | None:
        """The first of the other jobs for which the process instance is locked."""
        outside = job_of_instance(lock.lock_owner)
        if outside is not None:
            return ExternalWorkerJob.objects.using(self.using).filter(pk=outside).defer(*HEAVY).first()
        held = Job.objects.using(self.using).filter(lock_owner=lock.lock_owner).exclude(pk=self.job.pk)
        siblings = of_instances(held, [lock.process_instance_id])
        return siblings.defer(*HEAVY).order_by("rank", "id").first()

    @cached_property
    def handler_known(self) -> bool:
        """Whether any node has ever registered the job's handler."""
        return JobDefinition.objects.using(self.using).filter(handler_type=self.job.handler_type).exists()

    @cached_property
    def in_front(self) -> int:
        """The number of free jobs in its category that are acquired before it, at most :data:`MOST_IN_FRONT` + 1."""
        deployments = sorted({name for node in self.takers for name in node.deployments})[:_MOST_DEPLOYMENTS]
        served = {"", self.job.deployment_id, *deployments}
        jobs = Job.objects.using(self.using).filter(category=self.job.category, deployment_id__in=served)
        before = jobs.filter(lock_owner=None, rank__lte=self.job.rank)
        before = before.exclude(rank=self.job.rank, id__gte=self.job.pk)
        return before.order_by().values("pk")[: MOST_IN_FRONT + 1].count()
