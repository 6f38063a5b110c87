"""Deliver messages to the jobs that wait for them, and end waits; called by a loop, in transactions of its own.

Neither an enqueue nor a publication takes a lock, and two that are open at the same time do not see each other. So each
side is examined once more after its commit: for a message the jobs that wait, and for a job that has begun to wait the
messages that are kept. Whichever examination comes later sees both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from django.db import OperationalError, transaction
from django.db.models import F, OuterRef, Q, Subquery

from jobexec import clock
from jobexec.models import AbstractJob, BlockedJob, Job, Message, SuspendedJob, TimerJob

from ..notify.broker import announce_ids
from ..notify.wake import wake_for_resources, wake_on_commit
from ..rows import move_statement
from ..rows.bury_unreadable import UNREADABLE, bury_unreadable
from ..rows.move import move_all
from ..rows.suspension_cover import Suspensions, covered_rows
from ..sql.delete import delete_rows
from ..sql.locks import atomic, lock_rows
from ..values.messages import as_text
from ..values.ranking import rank

logger = logging.getLogger("jobexec.messages")

#: A message reaches jobs that were created before it, and, as clocks differ, a little later. Otherwise jobs that wait
#: for the same message again and again would keep its delivery going for ever.
_LATER = timedelta(minutes=1)
#: When to examine a message again if other transactions hold the rows of jobs that wait for it.
_AGAIN = timedelta(milliseconds=100)

#: The columns that decide where a job goes.
_COLUMNS = ("pk", "suspend_requested", "resource", "due_date", "priority")
_Found: TypeAlias = tuple[UUID, bool, str | None, datetime | None, int]
_NO_WAIT = {"waits_for": None, "waits_for_key": None, "waits_until": None}
#: The tables in which jobs wait for messages.
WAITING = (BlockedJob, SuspendedJob)

#: Called with the database and each message that no job waits for any more, in the transaction that ends its delivery.
_followers: list[Callable[[str, Message], None]] = []


def follow_deliveries(follow: Callable[[str, Message], None]) -> None:
    """Let another app deliver each message that has been published, after the jobs; a second call is ignored."""
    if follow not in _followers:
        _followers.append(follow)


class Delivery(NamedTuple):
    """The result of a round.

    ``received`` jobs got a message, the waits of ``ended`` jobs ended without one, and there may be ``more`` to do.
    """

    received: int = 0
    ended: int = 0
    more: bool = False


def deliver(using: str, limit: int) -> Delivery:
    """Deliver one due message to up to ``limit`` jobs, and look at up to ``limit`` jobs that wait.

    Several nodes may do this at once: each skips rows that another handles. Rows that cannot be read become dead
    letters.
    """
    try:
        return _deliver(using, limit)
    except UNREADABLE:
        if not sum(bury_unreadable(using, table) for table in WAITING):
            raise
        return Delivery(more=True)


def _deliver(using: str, limit: int) -> Delivery:
    received, more = _deliver_one(using, limit)
    looked = _look(using, limit)
    return Delivery(received + looked.received, looked.ended, more or looked.more)


def next_delivery(using: str) -> datetime | None:
    """Return when there is something to do next; None if nothing is known."""
    messages = Message.objects.using(using).filter(delivery_time__isnull=False).order_by("delivery_time")
    jobs = BlockedJob.objects.using(using).filter(next_look__isnull=False).order_by("next_look")
    dates = [
        *messages.values_list("delivery_time", flat=True)[:1],
        *jobs.values_list("next_look", flat=True)[:1],
    ]
    return min((date for date in dates if date is not None), default=None)


def waiting_for(table: type[AbstractJob], using: str, tenant_id: str, name: str, key: str) -> Any:
    """The rows of a table that wait for a message."""
    rows = table._base_manager.using(using)
    return rows.filter(waits_for_key=key, waits_for=name, tenant_id=tenant_id)


def _deliver_one(using: str, limit: int) -> tuple[int, bool]:
    """Deliver a page of the first due message; returns the number of jobs, and whether there may be more to do."""
    with atomic(using):
        now = clock.now(using)
        due = Message.objects.using(using).filter(delivery_time__lte=now).order_by("delivery_time", "id")
        message = lock_rows(due, skip_locked=True).first()
        if message is None:
            return 0, False
        count = 0
        for table in WAITING:
            rows = lock_rows(_reached(table, using, message).order_by("id"), skip_locked=True)
            page = list(rows.values_list(*_COLUMNS)[: limit - count])
            count += go_on(using, table, page, as_text(message))
        left = _waits(using, message)
        if not left:
            _follow(using, message)
        _note(using, message, count, left, now)
        return count, True


def _follow(using: str, message: Message) -> None:
    for follow in _followers:
        try:
            with transaction.atomic(using=using):
                follow(using, message)
        except OperationalError:  # of the moment: the delivery is repeated
            raise
        except Exception:  # otherwise no later message would be delivered
            logger.exception("Message %s is delivered to jobs, but not by %r", message.pk, follow)


def _reached(table: type[AbstractJob], using: str, message: Message) -> Any:
    rows = waiting_for(table, using, message.tenant_id, message.name, message.key)
    return rows.filter(create_time__lte=message.create_time + _LATER)


def _waits(using: str, message: Message) -> bool:
    """Whether a job still waits for the message.

    Takes no lock: rows that other transactions hold were skipped, and may have been examined before the message came.
    One statement, which sees a row that is being moved in exactly one of the tables.
    """
    blocked, suspended = (_reached(table, using, message).order_by().values("pk") for table in WAITING)
    return bool(blocked.union(suspended, all=True)[:1])


def _note(using: str, message: Message, count: int, left: bool, now: datetime) -> None:
    row = Message.objects.using(using).filter(pk=message.pk)
    if left:
        row.update(delivered=F("delivered") + count, delivery_time=now if count else now + _AGAIN)
    elif message.expiration_time is None:
        delete_rows(row)
    else:
        row.update(delivered=F("delivered") + count, delivery_time=None)


def _look(using: str, limit: int) -> Delivery:
    """Look at jobs that have begun to wait, or whose wait ends: release those with a message or without time left.

    A suspended job is looked at when it is activated.
    """
    with atomic(using):
        now = clock.now(using)
        due = BlockedJob.objects.using(using).filter(next_look__lte=now).order_by("next_look")
        page = list(lock_rows(due, skip_locked=True).values_list(*_COLUMNS, "waits_until")[:limit])
        if not page:
            return Delivery()
        over = {row[0] for row in page if row[5] is not None and row[5] <= now}
        theirs = _messages_of(using, [row[0] for row in page if row[0] not in over])
        theirs |= _messages_of(using, over, or_coming=True)
        groups: dict[int | None, list[_Found]] = {}
        stay: list[UUID] = []
        for row in page:
            number = theirs[row[0]]
            if number is None and row[0] not in over:
                stay.append(row[0])
            else:
                groups.setdefault(number, []).append(row[:5])
        if stay:
            BlockedJob.objects.using(using).filter(pk__in=stay).update(next_look=F("waits_until"))
        ended = go_on(using, BlockedJob, groups.pop(None, []), None)
        received = 0
        for number, message in Message.objects.using(using).in_bulk(list(filter(None, groups))).items():
            received += go_on(using, BlockedJob, groups[number], as_text(message))
            _count(using, number, len(groups[number]))
        return Delivery(received, ended, len(page) == limit)


def receive_kept(using: str, rows: Iterable[AbstractJob]) -> None:
    """Give locked jobs that are about to be suspended the messages that were kept when they began to wait.

    Only for those that no round has looked at: none does while they are suspended. Also changes ``rows``.
    """
    now = clock.now(using)
    waiting = (row for row in rows if isinstance(row, BlockedJob) and row.waits_for is not None)
    unseen = {row.pk: row for row in waiting if row.next_look is not None and row.next_look <= now}
    theirs = {pk: number for pk, number in _messages_of(using, unseen).items() if number is not None}
    messages = Message.objects.using(using).in_bulk(set(theirs.values()))
    for number, message in messages.items():
        ids = [pk for pk, first in theirs.items() if first == number]
        changes: dict[str, Any] = {**_NO_WAIT, "message": as_text(message)}
        BlockedJob.objects.using(using).filter(pk__in=ids).update(**changes)
        for pk in ids:
            for column, value in changes.items():
                setattr(unseen[pk], column, value)
        _count(using, number, len(ids))


def _count(using: str, number: int, jobs: int) -> None:
    """Count jobs that have received a message; not if it is locked, as a transaction may publish it again."""
    row = Message.objects.using(using).filter(pk=number)
    if lock_rows(row, skip_locked=True).first():
        row.update(delivered=F("delivered") + jobs)


def _messages_of(using: str, ids: Collection[UUID], *, or_coming: bool = False) -> dict[UUID, int | None]:
    """The number of the first message for each of these jobs, which the caller has locked.

    That is one that was kept when the job began to wait, however long ago that was: ``next_look`` is that moment, or
    the end of its wait. ``or_coming``: or one that is still to be delivered to it.
    """
    if not ids:
        return {}
    found = Q(expiration_time__gt=OuterRef("next_look"))
    if or_coming:
        found |= Q(delivery_time__isnull=False, create_time__gte=OuterRef("create_time") - _LATER)
    theirs = {"tenant_id": OuterRef("tenant_id"), "name": OuterRef("waits_for"), "key": OuterRef("waits_for_key")}
    first = Message.objects.using(using).filter(found, **theirs).order_by("id").values("id")[:1]
    rows = BlockedJob.objects.using(using).filter(pk__in=ids).order_by()
    return dict(rows.annotate(first=Subquery(first)).values_list("pk", "first"))


def go_on(using: str, source: type[AbstractJob], found: Sequence[_Found], message: str | None) -> int:
    """End the wait of jobs whose rows the caller has locked, with a message or without one; return their number.

    Suspended jobs stay suspended. The others wait for their date or their resource, or may run: ranked as of now, so
    that they do not overtake jobs that came while they waited.
    """
    if not found:
        return 0
    changes: dict[str, Any] = {**_NO_WAIT, "message": message}
    ids = [pk for pk, *_ in found]
    if source is SuspendedJob:
        return int(SuspendedJob._base_manager.using(using).filter(pk__in=ids).update(**changes))
    maybe_covered = any(requested for _, requested, *_ in found) or bool(Suspensions.of(using, ids))
    if maybe_covered:
        rows = list(source._base_manager.using(using).filter(pk__in=ids))
        covered = covered_rows(using, rows)
        move_all(covered, SuspendedJob, suspended_at=clock.now(using), **changes)
        held = {row.pk for row in covered}
        found = [each for each in found if each[0] not in held]
    now = clock.now(using)
    later = [each for each in found if each[3] is not None and each[3] > now]
    rest = [each for each in found if each[3] is None or each[3] <= now]
    _move(using, source, TimerJob, [pk for pk, *_ in later], changes)
    _move(using, source, Job, [pk for pk, _, resource, *_ in rest if resource is None], changes)
    _stay(using, [each for each in rest if each[2] is not None], changes, now)
    return len(ids)


def _move(
    using: str, source: type[AbstractJob], to: type[AbstractJob], ids: Collection[UUID], changes: dict[str, Any]
) -> None:
    if not ids:
        return
    if move_statement.is_possible(using):
        move_statement.transfer(using, source, to, ids, changes)
    else:
        move_all(list(source._base_manager.using(using).filter(pk__in=ids)), to, **changes)
    wake_on_commit(using, timers=to is TimerJob)
    if to is Job:
        announce_ids(using, ids)


def _stay(using: str, found: Sequence[_Found], changes: dict[str, Any], now: datetime) -> None:
    """These jobs are already in the table where they wait for their resource."""
    ranks: dict[int, list[UUID]] = {}
    for pk, _, _, due_date, priority in found:
        ranks.setdefault(rank(using, due_date or now, priority), []).append(pk)
    for place, ids in ranks.items():
        rows = BlockedJob.objects.using(using).filter(pk__in=ids)
        rows.update(**changes, next_look=None, rank=place, revision=F("revision") + 1)
    wake_for_resources(using, {resource for _, _, resource, *_ in found})
