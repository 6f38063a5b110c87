"""One lease per node: a job's lock is valid as long as its owner's lease, however long the job runs."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from django.db import connections
from django.db.models import QuerySet
from django.db.models.sql import UpdateQuery

from jobexec import clock, signals
from jobexec.exceptions import NodeRefused
from jobexec.identifiers import uuid7
from jobexec.models import ExecutorNode, NodeState

from ..notify.signals import announce
from ..sql.dialect import dialect
from ..sql.locks import atomic, is_single_writer, lock_rows
from ..sql.server_time import synchronise_clock, time_of

Answer: TypeAlias = tuple[Any, ...]
Answers: TypeAlias = QuerySet[ExecutorNode, Answer]
Rows: TypeAlias = QuerySet[ExecutorNode]

#: The tolerated error of a lease's time; a statement that takes longer is sent again.
_CLOCK_ERROR = timedelta(seconds=0.1)

_BEAT = """WITH beat AS ({beat} RETURNING 1)
SELECT clock_timestamp(), EXISTS (SELECT 1 FROM beat), look.* FROM ({question}) AS look"""


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """The columns of a node's row that describe the node."""

    name: str
    threads: int = 0
    queue_size: int = 0
    categories: Sequence[str] = field(default_factory=tuple)
    deployment_aware: bool = False
    deployment: str = ""


def register_node(using: str, profile: NodeProfile, lease_time: timedelta) -> ExecutorNode:
    """Insert and return the row of a starting node, with a lock owner that is unique to this boot.

    The boot's id in the lock owner distinguishes nodes of the same name (a host name alone would hide the orphaned jobs
    of an earlier boot). Raises :class:`~jobexec.exceptions.NodeRefused` where the database supports only one node
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
            deployment=profile.deployment,
        )


def _refuse_second_node(using: str, now: datetime) -> None:
    others = ExecutorNode.objects.using(using).exclude(state=NodeState.DEAD).filter(lease_expiration_time__gt=now)
    for other in others:
        if is_gone_from_this_host(other):
            continue
        until = other.lease_expiration_time.isoformat(timespec="seconds")
        raise NodeRefused(
            f"{using!r} is on {connections[using].display_name}, which only one executor at a time may serve, "
            f"and node {other.name!r} (process {other.pid} on {other.hostname}) holds it at least until {until}. "
            "Stop that node or wait."
        )


def is_gone_from_this_host(node: ExecutorNode) -> bool:
    """Whether the node's process ran on this host and has ended, so that waiting for its lease is not necessary."""
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
    """Count the other living nodes with this node's name; they share its registrations, not its locks.

    One whose process was killed on this host, and has now been started again, is none, although its lease goes on.
    """
    others = ExecutorNode.objects.using(using).filter(name=node.name).exclude(pk=node.pk).exclude(state=NodeState.DEAD)
    living = others.filter(lease_expiration_time__gt=clock.now(using))
    return sum(not is_gone_from_this_host(other) for other in living)


@dataclass(frozen=True, slots=True)
class Renewal:
    """A renewed lease.

    ``answers`` are the questions sent with the renewal that were answered with yes, and ``step`` is the difference
    between the database's time and the expected time.
    """

    answers: frozenset[str] = frozenset()
    step: timedelta = field(default=timedelta(0), compare=False)


def renew_lease(
    using: str, node: ExecutorNode, lease_time: timedelta, *, questions: Mapping[str, Any] | None = None, **load: Any
) -> Renewal | None:
    """Heartbeat: extend the lease; returns None if the node has been declared dead.

    This is a compare-and-set on the node's row, as is declaring a node dead: of the two, one wins. ``load`` are further
    columns (``busy_threads``, ``queued_jobs``, ``state``, ``deployments``). A lease that has expired without the node
    being declared dead becomes valid again, as its jobs are untouched. ``questions`` are queried along with it
    (:mod:`~jobexec.operations.maintenance.heartbeat_probes`).
    """
    row, names = ExecutorNode.objects.using(using).filter(pk=node.pk), tuple(questions or ())
    asked: Answers = row.annotate(**questions or {}).values_list("pk", *names)
    renew = _renew_in_one_statement if dialect(using).writes_in_with else _renew
    expected = _Expected(using)
    answers = renew(using, row.exclude(state=NodeState.DEAD), asked, lease_time, load)
    if answers is None:
        return None
    return Renewal(frozenset(name for name, yes in zip(names, answers[1:], strict=True) if yes), expected.missed_by())


class _Expected:
    """The time that a database would have if it had advanced steadily."""

    def __init__(self, using: str) -> None:
        self._using, self._now, self._at = using, clock.now(using), clock.monotonic()

    def missed_by(self) -> timedelta:
        passed = timedelta(seconds=clock.monotonic() - self._at)
        return abs(clock.now(self._using) - self._now - passed)


def _renew(using: str, row: Rows, asked: Answers, lease_time: timedelta, load: dict[str, Any]) -> Answer | None:
    now = synchronise_clock(using)
    if not row.update(heartbeat_time=now, lease_expiration_time=now + lease_time, **load):
        return None
    return asked.first()


def _renew_in_one_statement(
    using: str, row: Rows, asked: Answers, lease_time: timedelta, load: dict[str, Any]
) -> Answer | None:
    """Renew in one round trip where WITH may contain UPDATE, with the time derived from the last heartbeat.

    Repeated if that time turns out to be wrong: the machine was suspended, or the database's clock was set.
    """
    question, parameters = asked.query.get_compiler(using).as_sql()
    for _ in range(2):
        now = clock.now(using)
        update: Any = row.query.chain(UpdateQuery)
        update.add_update_values({"heartbeat_time": now, "lease_expiration_time": now + lease_time, **load})
        beat, values = update.get_compiler(using).as_sql()
        with connections[using].cursor() as cursor:
            cursor.execute(_BEAT.format(beat=beat, question=question), (*values, *parameters))
            found = cursor.fetchone()
        if found is None or not found[1]:
            return None
        clock.synchronise(using, found[0], clock.monotonic())
        if abs(clock.now(using) - now) < _CLOCK_ERROR:
            break
    answers: Answer = found[2:]
    return answers


def declare_dead(using: str, *, but: str = "") -> list[ExecutorNode]:
    """Mark nodes whose lease has expired as dead and return all dead nodes, including those of earlier rounds.

    ``but`` is the lock owner of the calling node, which is alive: if its own lease has expired (the database was
    unavailable or busy, the process was paused) and no other node has declared it dead, its next heartbeat renews it.

    A lease may look expired although it is not: the database's clock was set back after this process had read it, and
    the other node's heartbeat came after that. So the time is read again before any node is declared dead.
    """
    expired = list(_expired(using, but))
    if expired:
        now = time_of(using)
        for node in expired:
            if node.lease_expiration_time < now:
                declare_one_dead(using, node)
    return declared_dead(using)


def declared_dead(using: str) -> list[ExecutorNode]:
    """Return the nodes that have been declared dead and whose recovery is not complete."""
    return list(ExecutorNode.objects.using(using).filter(state=NodeState.DEAD))


def declare_one_dead(using: str, node: ExecutorNode) -> bool:
    """Mark a node whose lease was seen expired as dead; return whether it is dead afterwards."""
    # Compare and set: a heartbeat in between has extended the lease, and this finds no row.
    seen = ExecutorNode.objects.using(using).filter(pk=node.pk, lease_expiration_time=node.lease_expiration_time)
    if not seen.exclude(state=NodeState.DEAD).update(state=NodeState.DEAD):
        return not ExecutorNode.objects.using(using).filter(pk=node.pk).exclude(state=NodeState.DEAD).exists()
    announce(signals.node_lost, using, ExecutorNode, node=node)
    return True


def dead_nodes(using: str, but: str = "") -> QuerySet[ExecutorNode]:
    """Return the nodes that :func:`declare_dead` would return."""
    return ExecutorNode.objects.using(using).filter(state=NodeState.DEAD) | _expired(using, but)


def _expired(using: str, but: str) -> QuerySet[ExecutorNode]:
    late = ExecutorNode.objects.using(using).filter(lease_expiration_time__lt=clock.now(using))
    return late.exclude(state=NodeState.DEAD).exclude(lock_owner=but)


def remove_node(using: str, node: ExecutorNode) -> None:
    """Delete the node's row: the last step of a graceful shutdown and of a recovery."""
    with atomic(using):
        for row in lock_rows(ExecutorNode.objects.using(using).filter(pk=node.pk)):
            row.delete(using=using)
