"""Save the schedules that the code declares, when an executor starts and regularly while it runs."""

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

#: Not loaded: invalid values in these columns must not prevent a node from starting.
_UNREAD = ("handler_configuration", "options")


#: How often an executor confirms its declarations, and after which time without confirmation they count as gone.
EVERY = timedelta(minutes=1)
FORGOTTEN = 3 * EVERY


class Declared(NamedTuple):
    """A schedule as the code declares it; its name is that of its handler."""

    handler_type: str
    expression: str
    timezone: str
    misfire: str

    @property
    def text(self) -> str:
        """The whole declaration as one text, for comparison."""
        return f"{self.expression}\n{self.timezone}\n{self.misfire}"


def sync_schedules(
    using: str, declared: Iterable[Declared], handlers: Collection[str], lock_owner: str | None = None
) -> bool:
    """Insert and change declared schedules, and withdraw those that are no longer declared.

    A row whose ``declared`` equals the code's declaration is left unchanged, whatever an operator has changed in it.
    Otherwise it gets expression, time zone and misfire policy from the code, and continues from now; ``enabled`` stays.

    A schedule is withdrawn if it was declared once, but its handler, one of this process's ``handlers``, no longer
    declares it: it stays as it is but has no next time. This does not happen while a node of another release declares
    it: each node confirms its declarations once in :data:`EVERY`, and a schedule is withdrawn only if no node has
    confirmed it for :data:`FORGOTTEN`, or no node but that of ``lock_owner`` is alive. When the code declares the same
    again, the schedule continues with all changes by operators.

    A schedule that an operator created with the same name for the same handler becomes the code's; a schedule for
    another handler stays, which is logged.

    Any number of nodes may do this at the same time. Returns whether the node must repeat it while it lives: it
    declares schedules, or other nodes declare some that it may have to withdraw.
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
    # Last: a starting node holds these rows until it has started, and must not wait for others meanwhile.
    _say(using, [row for name, row in rows.items() if name in wanted])
    return again


def _write(
    using: str, wanted: Mapping[str, Declared], new: list[Declared], changed: list[int], gone: list[Schedule]
) -> None:
    with atomic(using):
        if new:
            _insert(using, new)
        # In a fixed order, so that nodes that start at the same time cannot deadlock.
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
    """The rows that no other node declares."""
    moment = clock.now(using) - FORGOTTEN
    if all(_before(row, moment) for row in rows):
        return rows
    others = ExecutorNode.objects.using(using).exclude(state=NodeState.DEAD).exclude(lock_owner=lock_owner or "")
    return [row for row in rows if _before(row, moment)] if others.exists() else rows


def _say(using: str, rows: Iterable[Schedule]) -> None:
    """Confirm that the rows are declared, if that is due. Rows that another transaction has locked can wait."""
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
    # Another node may be inserting the same rows.
    Schedule.objects.using(using).bulk_create(rows, ignore_conflicts=True)


def _declared_meanwhile(row: Schedule, seen: Iterable[Schedule]) -> bool:
    return any(row.pk == each.pk and row.declared_time != each.declared_time for each in seen)


def _withdraw(using: str, row: Schedule) -> None:
    row.declared, row.next_time = f"{WITHDRAWN}{row.declared}", None
    row.save(using=using, update_fields=["declared", "next_time"])
    logger.info("The schedule %s on %s no longer fires: the code no longer declares it", row.name, using)


def _change(using: str, row: Schedule, declared: Declared) -> None:
    if row.declared == declared.text:
        return  # another node was first
    if row.declared == f"{WITHDRAWN}{declared.text}":
        row.declared = declared.text
        row.next_time = next_time(row, clock.now(using))
        row.save(using=using, update_fields=["declared", "next_time"])
        logger.info("The schedule %s on %s continues: the code declares it again", row.name, using)
        return
    if row.handler_type != declared.handler_type:
        text = "The schedule %s on %s belongs to the handler %s, so the schedule that the code declares is not saved"
        logger.warning(text, one_line(row.name), using, one_line(row.handler_type))
        return
    now = clock.now(using)
    row.expression = with_start(declared.expression, now)
    row.timezone, row.misfire, row.declared = declared.timezone, declared.misfire, declared.text
    row.next_time = next_time(row, now)
    row.save(using=using, update_fields=["expression", "timezone", "misfire", "declared", "next_time"])
    logger.info("The schedule %s on %s was changed to what the code declares: %s", row.name, using, declared.expression)
