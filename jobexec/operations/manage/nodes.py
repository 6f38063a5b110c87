"""Operators' control of running executors: pause, resume and drain them."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Q
from django.utils.translation import gettext_noop

from jobexec import clock
from jobexec.models import ExecutorNode, NodeState
from jobexec.models.executor_node import ExecutorNodes

from ..audit import audited, note_rows
from ..sql.locks import atomic, lock_rows
from ..targets.for_each import OperationResult, database_of


@audited
def pause_nodes(names: Sequence[str | UUID], *, using: str | None = None) -> OperationResult:
    """Let the living nodes with these names or ids take no more jobs until they are resumed.

    They finish the jobs that they have, and go on with other work: timers, schedules, recovery. A node obeys at its
    next heartbeat; a restarted node takes jobs again. The result contains their names, and ``skipped`` those of the
    others. A name stands for all nodes that have it.
    """
    return _request(names, NodeState.PAUSED, using)


@audited
def resume_nodes(names: Sequence[str | UUID], *, using: str | None = None) -> OperationResult:
    """Let paused nodes take jobs again; has no effect on nodes that drain."""
    return _request(names, NodeState.ACTIVE, using)


@audited
def drain_nodes(names: Sequence[str | UUID], *, using: str | None = None) -> OperationResult:
    """Let the processes of these nodes end as after SIGTERM. A process manager may start them again."""
    return _request(names, NodeState.DRAINING, using)


def _request(names: Sequence[str | UUID], state: NodeState, using: str | None) -> OperationResult:
    alias, result = database_of(None, using), OperationResult()
    with atomic(alias):
        rows = list(lock_rows(_named(names, living_nodes(alias)).told_apart().order_by("id")))
        for row in rows:
            if row.requested_state != NodeState.DRAINING:
                row.requested_state = state
                row.save(using=alias, update_fields=["requested_state"])
        changed = [row for row in rows if row.requested_state == state]
        note_rows(alias, ExecutorNode, [row.pk for row in changed], [row.label for row in changed])
    result.changed = sorted(row.label for row in changed)
    missing = set(names) - {name for row in rows for name in (row.name, row.pk)}
    strangers = sorted(name for name in missing if isinstance(name, str))
    result.skipped = dict.fromkeys(strangers, gettext_noop("no living node has this name"))
    ids = {id: str(id) for id in missing if isinstance(id, UUID)}
    gone = ExecutorNode.objects.using(alias).told_apart().filter(pk__in=ids)
    ids |= {row.pk: row.label for row in gone}
    result.skipped |= dict.fromkeys(sorted(ids.values()), gettext_noop("it is not alive"))
    result.skipped |= {row.label: gettext_noop("it is draining") for row in rows if row not in changed}
    return result


def living_nodes(using: str) -> ExecutorNodes:
    """The nodes that operators can control."""
    nodes = ExecutorNode.objects.using(using).exclude(state=NodeState.DEAD)
    return nodes.filter(lease_expiration_time__gt=clock.now(using))


def _named(names: Sequence[str | UUID], nodes: ExecutorNodes) -> ExecutorNodes:
    ids = [name for name in names if isinstance(name, UUID)]
    return nodes.filter(Q(name__in=[name for name in names if isinstance(name, str)]) | Q(pk__in=ids))
