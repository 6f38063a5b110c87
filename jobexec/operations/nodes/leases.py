"""One lease per node: a job's lock is good as long as its owner's lease, however long the job runs."""

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

#: By so much the time of a lease may be wrong; and if the statement takes as long, it is sent again.
_CLOCK_ERROR = timedelta(seconds=0.1)

_BEAT = """WITH beat AS ({beat} RETURNING 1)
SELECT clock_timestamp(), EXISTS (SELECT 1 FROM beat), look.* FROM ({question}) AS look"""


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """What a node tells about itself in its row."""

    name: str
    threads: int = 0
    queue_size: int = 0
    categories: Sequence[str] = field(default_factory=tuple)
    deployment_aware: bool = False
    deployment: str = ""


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
            deployment=profile.deployment,
        )


def _refuse_second_node(using: str, now: datetime) -> None:
    others = ExecutorNode.objects.using(using).exclude(state=NodeState.DEAD).filter(lease_expiration_time__gt=now)
    for other in others:
        if is_gone_from_this_host(other):
            continue
        until = other.lease_expiration_time.isoformat(timespec="seconds")
        raise NodeRefused(
            f"{using!r} is SQLite, which one executor at a time may serve, and node {other.name!r} "
            f"(process {other.pid} on {other.hostname}) holds it at least until {until}. Stop that node or wait."
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


@dataclass(frozen=True, slots=True)
class Renewal:
    """A lease that is good again.

    ``answers`` are the questions that went with it and were answered by yes, and ``step`` is how far the time of the
    database was from where it was expected.
    """

    answers: frozenset[str] = frozenset()
    step: timedelta = field(default=timedelta(0), compare=False)


def renew_lease(
    using: str, node: ExecutorNode, lease_time: timedelta, *, questions: Mapping[str, Any] | None = None, **load: Any
) -> Renewal | None:
    """Heartbeat: extend the lease if nobody has declared the node dead; None if somebody has.

    Compare-and-set on the node's row, which is also what declares a node dead: of the two, one wins. ``load`` are
    further columns (``busy_threads``, ``queued_jobs``, ``state``, ``deployments``). A lease that has run out but was
    not taken is good again: nobody has touched its jobs. ``questions`` are asked on the way (:mod:`~.look`).
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
    """Where the time of a database would be if it had gone on as it did before."""

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
    """The same in one round trip where UPDATE can stand in a WITH, and with the time of the last heartbeat.

    Done again if that turns out to be wrong: the machine was suspended, or somebody has set the database's clock.
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
    """Mark the nodes whose lease has run out as dead and return all dead ones, those of earlier rounds too.

    ``but`` is the lock owner of the node that asks: who can ask is alive, and if nobody else has minded that its
    lease ran out (a database that was away or busy, a process that was paused), its next heartbeat makes it good.

    A lease may look expired although it is not: somebody has set the database's clock back since this process read it,
    and the other's heartbeat came after that. So the time is read again before anybody is declared dead.
    """
    expired = list(_expired(using, but))
    if expired:
        now = time_of(using)
        for node in expired:
            if node.lease_expiration_time < now:
                declare_one_dead(using, node)
    return declared_dead(using)


def declared_dead(using: str) -> list[ExecutorNode]:
    """The nodes that somebody has declared dead and nobody has recovered to the end."""
    return list(ExecutorNode.objects.using(using).filter(state=NodeState.DEAD))


def declare_one_dead(using: str, node: ExecutorNode) -> bool:
    """Mark a node as dead whose lease was seen to have run out; whether it is dead then."""
    # Compare and set: a heartbeat that came in between has moved the lease, and this finds no row.
    seen = ExecutorNode.objects.using(using).filter(pk=node.pk, lease_expiration_time=node.lease_expiration_time)
    if not seen.exclude(state=NodeState.DEAD).update(state=NodeState.DEAD):
        return not ExecutorNode.objects.using(using).filter(pk=node.pk).exclude(state=NodeState.DEAD).exists()
    announce(signals.node_lost, using, ExecutorNode, node=node)
    return True


def dead_nodes(using: str, but: str = "") -> QuerySet[ExecutorNode]:
    """The nodes that :func:`declare_dead` would return."""
    return ExecutorNode.objects.using(using).filter(state=NodeState.DEAD) | _expired(using, but)


def _expired(using: str, but: str) -> QuerySet[ExecutorNode]:
    late = ExecutorNode.objects.using(using).filter(lease_expiration_time__lt=clock.now(using))
    return late.exclude(state=NodeState.DEAD).exclude(lock_owner=but)


def remove_node(using: str, node: ExecutorNode) -> None:
    """Delete the node's row: the last step of an orderly stop and of a recovery."""
    with atomic(using):
        for row in lock_rows(ExecutorNode.objects.using(using).filter(pk=node.pk)):
            row.delete(using=using)
