"""One lease per node: a job's lock is good as long as its owner's lease, however long the job runs."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from jobexec import clock, signals
from jobexec.exceptions import NodeRefused
from jobexec.identifiers import uuid7
from jobexec.models import ExecutorNode, NodeState

from .announce import announce
from .locking import atomic, database_time, is_single_writer, lock_rows


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """What a node tells about itself in its row."""

    name: str
    threads: int = 0
    queue_size: int = 0
    categories: Sequence[str] = field(default_factory=tuple)
    deployment_aware: bool = False


def synchronise_clock(using: str) -> datetime:
    """Read the database's time and set :mod:`jobexec.clock` by it; returns it.

    Behind by the way back from the database, and never ahead: a process that is paused on the way there, however long,
    must not take living nodes for dead because it counts half of its pause. The skew of this node's clock does not
    matter.
    """
    time = database_time(using)
    if time is not None:
        clock.synchronise(using, time, clock.monotonic())
    return clock.now(using)


def register_node(using: str, profile: NodeProfile, lease_time: timedelta) -> ExecutorNode:
    """Insert the row of a node that starts, with a lock owner that no other boot has; returns it.

    Nodes of one name stay apart by the boot's id in the lock owner (a host name alone would hide the orphans of an
    earlier boot). Raises :class:`~jobexec.exceptions.NodeRefused` where one node is all that the database bears
    (SQLite) and another one lives.
    """
    now = synchronise_clock(using)
    boot = uuid7()
    with atomic(using):
        if is_single_writer(using):
            _refuse_second_node(using, now)
        return ExecutorNode.objects.using(using).create(
            id=boot,
            name=profile.name,
            lock_owner=f"{profile.name}:{boot}",
            hostname=socket.gethostname(),
            pid=os.getpid(),
            start_time=now,
            heartbeat_time=now,
            lease_expiration_time=now + lease_time,
            threads=profile.threads,
            queue_size=profile.queue_size,
            categories=list(profile.categories),
            deployment_aware=profile.deployment_aware,
        )


def _refuse_second_node(using: str, now: datetime) -> None:
    others = ExecutorNode.objects.using(using).exclude(state=NodeState.DEAD).filter(lease_expiration_time__gt=now)
    for other in others:
        if is_gone_from_this_host(other):
            continue
        until = other.lease_expiration_time.isoformat(timespec="seconds")
        raise NodeRefused(
            f"{using!r} is SQLite, which one executor at a time may serve, and node {other.name!r} "
            f"(process {other.pid} on {other.hostname}) holds it at least until {until}. Stop it, or wait."
        )


def is_gone_from_this_host(node: ExecutorNode) -> bool:
    """Whether the node's process ran on this host and no longer does: then nobody needs to wait for its lease."""
    if node.hostname != socket.gethostname() or node.pid == os.getpid():
        return False
    try:
        os.kill(node.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def live_namesakes(using: str, node: ExecutorNode) -> int:
    """How many other living nodes have this node's name; they share its registrations, not its locks."""
    others = ExecutorNode.objects.using(using).filter(name=node.name).exclude(pk=node.pk).exclude(state=NodeState.DEAD)
    return others.filter(lease_expiration_time__gt=clock.now(using)).count()


def renew_lease(using: str, node: ExecutorNode, lease_time: timedelta, **load: Any) -> bool:
    """Heartbeat: extend the lease if nobody has declared the node dead; False if somebody has.

    Compare-and-set on the node's row, which is also what declares a node dead: of the two, one wins. ``load`` are
    further columns (``busy_threads``, ``queued_jobs``, ``state``, ``deployments``). A lease that has run out but was
    not taken is good again: nobody has touched its jobs.
    """
    now = synchronise_clock(using)
    row = ExecutorNode.objects.using(using).filter(pk=node.pk).exclude(state=NodeState.DEAD)
    return bool(row.update(heartbeat_time=now, lease_expiration_time=now + lease_time, **load))


def declare_dead(using: str, *, but: str = "") -> list[ExecutorNode]:
    """Mark the nodes whose lease has run out as dead and return all dead ones, those of earlier rounds too.

    ``but`` is the lock owner of the node that asks: who can ask is alive, and if nobody else has minded that its
    lease ran out (a database that was away or busy, a process that was paused), its next heartbeat makes it good.
    """
    now = clock.now(using)
    expired = ExecutorNode.objects.using(using).exclude(state=NodeState.DEAD).filter(lease_expiration_time__lt=now)
    expired = expired.exclude(lock_owner=but)
    for node in expired:
        # Compare and set: a heartbeat that came in between has moved the lease, and this finds no row.
        seen = ExecutorNode.objects.using(using).filter(pk=node.pk, lease_expiration_time=node.lease_expiration_time)
        if seen.exclude(state=NodeState.DEAD).update(state=NodeState.DEAD):
            announce(signals.node_lost, using, ExecutorNode, node=node)
    return list(ExecutorNode.objects.using(using).filter(state=NodeState.DEAD))


def remove_node(using: str, node: ExecutorNode) -> None:
    """Delete the node's row: the last step of an orderly stop and of a recovery."""
    with atomic(using):
        for row in lock_rows(ExecutorNode.objects.using(using).filter(pk=node.pk)):
            row.delete(using=using)
