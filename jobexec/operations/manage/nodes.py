"""Operators' control of running executors: pause, resume and drain them."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext_noop

from jobexec import clock
from jobexec.models import ExecutorNode, NodeState

from ..audit import audited, note_rows
from ..sql.locks import atomic, lock_rows
from ..targets.for_each import OperationResult, database_of


@audited
def pause_nodes(names: Sequence[str], *, using: str | None = None) -> OperationResult:
    """Let the living nodes with these names take no more jobs until they are resumed.

    They finish the jobs that they have, and go on with other work: timers, schedules, recovery. A node follows at its
    next heartbeat, and forgets it when it is restarted. The result has their names; ``skipped`` has the others.
    """
    return _request(names, NodeState.PAUSED, using)


@audited
def resume_nodes(names: Sequence[str], *, using: str | None = None) -> OperationResult:
    """Let paused nodes take jobs again; has no effect on nodes that drain."""
    return _request(names, NodeState.ACTIVE, using)


@audited
def drain_nodes(names: Sequence[str], *, using: str | None = None) -> OperationResult:
    """Let the processes of these nodes end as after SIGTERM. A process manager may start them again."""
    return _request(names, NodeState.DRAINING, using)


def _request(names: Sequence[str], state: NodeState, using: str | None) -> OperationResult:
    alias, result = database_of(None, using), OperationResult()
    with atomic(alias):
        living = ExecutorNode.objects.using(alias).filter(name__in=names, lease_expiration_time__gt=clock.now(alias))
        rows = list(lock_rows(living.exclude(state=NodeState.DEAD).order_by("id")))
        for row in rows:
            if row.requested_state != NodeState.DRAINING:
                row.requested_state = state
                row.save(using=alias, update_fields=["requested_state"])
        changed = [row for row in rows if row.requested_state == state]
        note_rows(alias, ExecutorNode, [row.pk for row in changed], [row.name for row in changed])
    result.changed = sorted({row.name for row in changed})
    missing = set(names) - {row.name for row in rows}
    result.skipped = dict.fromkeys(sorted(missing), gettext_noop("no living node has this name"))
    result.skipped |= {row.name: gettext_noop("it is draining") for row in rows if row not in changed}
    return result
