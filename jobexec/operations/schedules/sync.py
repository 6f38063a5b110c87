"""What the code declares becomes rows: when an executor starts, and again as long as it lives."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from jobexec import clock
from jobexec.models import WITHDRAWN, ExecutorNode, NodeState, Schedule
from jobexec.recurrence.cycle import with_start

from ..notify.wake import wake_on_commit
from ..sql.errors import one_line
from ..sql.locks import atomic, lock_rows
from .manage import next_time

logger = logging.getLogger("jobexec.schedules")

#: What somebody may have written there must not keep a node from starting.
_UNREAD = ("handler_configuration", "options")


#: How often an executor says again what its code declares, and after which time without a word nobody declares it.
EVERY = timedelta(minutes=1)
FORGOTTEN = 3 * EVERY


class Declared(NamedTuple):
    """A schedule as the code says it; its name is that of its handler."""

    handler_type: str
    expression: str
    timezone: str
    misfire: str

    @property
    def text(self) -> str:
        """All of it in one text: another text is another declaration."""
        return f"{self.expression}\n{self.timezone}\n{self.misfire}"


def sync_schedules(
    using: str, declared: Iterable[Declared], handlers: Collection[str], lock_owner: str | None = None
) -> bool:
    """Insert and change the schedules that are declared, and withdraw those that no longer are.

    A row whose ``declared`` says what the code says is left alone, whatever a person has made of it. Else it gets
    expression, time zone and misfire policy from the code, and goes on from now; whether it is enabled stays.

    Withdrawn is what was declared once and whose handler is one of ``handlers``, those of this process, and declares
    none now: it stays as it is but has no next time. But not while a node of another release declares it: each says so
    once in :data:`EVERY`, and only where nobody has for :data:`FORGOTTEN`, or no node lives but that of ``lock_owner``,
    is it withdrawn. When the code declares the same again, it goes on with all that a person has changed.

    A schedule that a person has made under the same name for the same handler becomes the code's; one for another
    handler stays, and the log says so.

    Any number of nodes may do this at the same moment. Returns whether it is to be done again as long as the node
    lives: it declares some, or others do that it may have to withdraw.
    """
    wanted = {each.handler_type: each for each in declared}
    rows = {row.name: row for row in _rows(using, wanted)}
    new = [each for name, each in sorted(wanted.items()) if name not in rows]
    changed = [row.pk for name, row in rows.items() if name in wanted and row.declared != wanted[name].text]
    others = [row for name, row in rows.items() if name not in wanted and row.handler_type in handlers]
    others = [row for row in others if not row.withdrawn]
    gone = _forgotten(using, others, lock_owner)
    again = bool(wanted) or len(gone) < len(others)
    if new or changed or gone:
        _write(using, wanted, new, changed, gone)
    # Last: whoever starts holds these rows until he has started, and must not wait for others then.
    _say(using, [row for name, row in rows.items() if name in wanted])
    return again


def _write(
    using: str, wanted: Mapping[str, Declared], new: list[Declared], changed: list[int], gone: list[Schedule]
) -> None:
    with atomic(using):
        if new:
            _insert(using, new)
        # One order, so that nodes that start together wait for each other and never in a circle.
        ids = [*changed, *(row.pk for row in gone)]
        for row in lock_rows(Schedule.objects.using(using).filter(pk__in=ids).order_by("pk").defer(*_UNREAD)):
            if row.name in wanted:
                _change(using, row, wanted[row.name])
            elif row.declared and not row.withdrawn and not _declared_meanwhile(row, gone):
                _withdraw(using, row)
        wake_on_commit(using, schedules=True)


def _rows(using: str, names: Collection[str]) -> Iterable[Schedule]:
    table = Schedule.objects.using(using)
    found = table.exclude(declared="")
    if names:
        found = found | table.filter(name__in=sorted(names))
    return found.only("name", "handler_type", "declared", "declared_time")


def _before(row: Schedule, moment: datetime) -> bool:
    return row.declared_time is None or row.declared_time < moment


def _forgotten(using: str, rows: list[Schedule], lock_owner: str | None) -> list[Schedule]:
    """Those of the rows that no other node declares."""
    moment = clock.now(using) - FORGOTTEN
    if all(_before(row, moment) for row in rows):
        return rows
    others = ExecutorNode.objects.using(using).exclude(state=NodeState.DEAD).exclude(lock_owner=lock_owner or "")
    return [row for row in rows if _before(row, moment)] if others.exists() else rows


def _say(using: str, rows: Iterable[Schedule]) -> None:
    """Write that the rows are declared, if nobody has for a while. What somebody has in hand can wait."""
    now = clock.now(using)
    stale = [row.pk for row in rows if _before(row, now - EVERY)]
    if stale:
        table = Schedule.objects.using(using)
        with atomic(using):
            free = lock_rows(table.filter(pk__in=stale).order_by("pk"), skip_locked=True).values_list("pk", flat=True)
            table.filter(pk__in=list(free)).update(declared_time=now)


def _insert(using: str, new: Iterable[Declared]) -> None:
    now = clock.now(using)
    rows = [
        Schedule(
            name=each.handler_type,
            handler_type=each.handler_type,
            handler_configuration={"args": [], "kwargs": {}},
            expression=each.expression,
            timezone=each.timezone,
            misfire=each.misfire,
            declared=each.text,
            declared_time=now,
            create_time=now,
        )
        for each in new
    ]
    for row in rows:
        row.next_time = next_time(row, now)
    # Another node may be doing the same.
    Schedule.objects.using(using).bulk_create(rows, ignore_conflicts=True)


def _declared_meanwhile(row: Schedule, seen: Iterable[Schedule]) -> bool:
    return any(row.pk == each.pk and row.declared_time != each.declared_time for each in seen)


def _withdraw(using: str, row: Schedule) -> None:
    row.declared, row.next_time = f"{WITHDRAWN}{row.declared}", None
    row.save(using=using, update_fields=["declared", "next_time"])
    logger.info("The schedule %s on %s fires no more: the code no longer declares it", row.name, using)


def _change(using: str, row: Schedule, declared: Declared) -> None:
    if row.declared == declared.text:
        return  # another node was first
    if row.declared == f"{WITHDRAWN}{declared.text}":
        row.declared = declared.text
        row.next_time = next_time(row, clock.now(using))
        row.save(using=using, update_fields=["declared", "next_time"])
        logger.info("The schedule %s on %s goes on: the code declares it again", row.name, using)
        return
    if row.handler_type != declared.handler_type:
        text = "The schedule %s on %s is of the handler %s, so the one that the code declares is not written"
        logger.warning(text, one_line(row.name), using, one_line(row.handler_type))
        return
    now = clock.now(using)
    row.expression = with_start(declared.expression, now)
    row.timezone, row.misfire, row.declared = declared.timezone, declared.misfire, declared.text
    row.next_time = next_time(row, now)
    row.save(using=using, update_fields=["expression", "timezone", "misfire", "declared", "next_time"])
    logger.info("The schedule %s on %s is changed as the code declares it: %s", row.name, using, declared.expression)
