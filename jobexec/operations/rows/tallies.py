"""Count the children of batches as they are added and end, in the transaction that adds or ends them.

Each transaction appends one row for each batch, so no two wait for each other. The monitor of the batch adds the rows
up. Jobs without a batch cost nothing here.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from jobexec.conf import get_settings
from jobexec.models import BATCH_HANDLERS, AbstractJob, Batch, BatchState, BatchTally, DeadLetterJob, Job, TimerJob
from jobexec.models.batch import JOBS

from ..notify.wake import wake_on_commit
from ..sql.on_commit import Once, after_commit
from ..values.acquired_job import AcquiredJob
from ..values.batch_figures import Figures, holding
from ..values.ranking import rank

logger = logging.getLogger("jobexec.batches")

MONITOR = BATCH_HANDLERS[2]
_OWN = frozenset(BATCH_HANDLERS)
#: If a batch has this number of rows, its monitor is woken to add them up: each look reads them all.
MANY = 200
_COLUMNS = ("added", "completed", "failed", "cancelled")


def batches_of(jobs: Iterable[AbstractJob | AcquiredJob]) -> Counter[UUID]:
    """How many children of each batch are among these jobs."""
    return Counter([job.batch_id for job in jobs if job.batch_id is not None and job.handler_type not in _OWN])


def count(using: str, sizes: Mapping[UUID, int], **factors: int) -> None:
    """Count jobs of batches, in the caller's transaction: each size times the factor of each column."""
    if not sizes:
        return
    BatchTally.objects.using(using).bulk_create(
        [
            BatchTally(batch_id=id, **{column: size * factor for column, factor in factors.items()})
            for id, size in sizes.items()
        ]
    )
    look_on_commit(using, sizes)


def count_move(using: str, rows: Iterable[AbstractJob], source: type[AbstractJob], to: type[AbstractJob]) -> None:
    """Count rows that moved between two tables: children that became dead letters, or no longer are."""
    if (source is DeadLetterJob) != (to is DeadLetterJob):
        count(using, batches_of(rows), failed=1 if to is DeadLetterJob else -1)


def count_removal(using: str, rows: Collection[AbstractJob]) -> None:
    """Count deleted rows of one table as cancelled."""
    dead = any(isinstance(row, DeadLetterJob) for row in rows)
    count(using, batches_of(rows), cancelled=1, **({"failed": -1} if dead else {}))


#: Counts, in a statement of PostgreSQL, the rows that ``gone`` has deleted as completed.
COUNTED = f"""counted AS (
    INSERT INTO {BatchTally._meta.db_table} (batch_id, added, completed, failed, cancelled)
    SELECT batch_id, 0, count(*), 0, 0 FROM gone
    WHERE batch_id IS NOT NULL AND handler_type NOT IN ({", ".join(f"'{name}'" for name in BATCH_HANDLERS)})
    GROUP BY batch_id)"""

#: How many children may end at the same time, in transactions that do not see each other, without a look at the batch
#: after one of them: 500 in a group of outcomes of each of 40 nodes. Beyond it only the monitor's date is certain.
UNSEEN = 20_000
#: The fewest open children of the batches in ``batches``, as such a statement sees them; 0 if a look is due anyway.
OPEN = f"""(
    SELECT min(CASE WHEN recent.rows >= {MANY} OR jsonb_exists(b.arguments, 'when') THEN 0
      ELSE b.total - b.changed - b.failed - b.skipped + recent.open END)
    FROM {Batch._meta.db_table} b CROSS JOIN LATERAL (
      SELECT count(*) AS rows, coalesce(sum(added - completed - failed - cancelled), 0) AS open
      FROM {BatchTally._meta.db_table} t WHERE t.batch_id = b.id) recent
    WHERE b.id = ANY(%(batches)s::uuid[]))"""


def look_after(using: str, batches: Collection[UUID], open: int | None) -> None:
    """Look at these batches after the commit, unless so many children are open that others will end after these.

    Under load each statement costs a millisecond, because its thread has to wait for its turn. Of all transactions
    that end children, one has the latest view. If it does not look, more than :data:`UNSEEN` children are open in that
    view, and transactions that began before it would have to end them all.
    """
    if open is not None and open <= UNSEEN:
        look_on_commit(using, batches)


def look_on_commit(using: str, batches: Iterable[UUID]) -> None:
    """After the commit, look whether these batches are over, and wake the monitors of those that need it.

    Transactions that end at the same time do not see each other, but the last to commit sees them all. If the process
    is killed in between, the monitor runs at its own due date.
    """
    connection = connections[using]
    pending = _once.waiting(connection)
    if pending is None:
        pending = _Look(connection)
        pending.batches.update(batches)
        after_commit(connection, pending)
    else:
        pending.batches.update(batches)


class _Look:
    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.using, self.batches = connection.alias, set[UUID]()

    def __call__(self) -> None:
        try:
            look(self.using, self.batches)
        except Exception:  # what is committed stays, and the monitor looks at its own time
            logger.warning("Batches could not be checked on %s", self.using, exc_info=True)


_once = Once(_Look)


class State(NamedTuple):
    """A batch of jobs as one statement sees it."""

    id: UUID
    state: str
    arguments: dict[str, Any]
    figures: Figures
    #: The number of rows that are not added up yet.
    rows: int


def look(using: str, batches: Collection[UUID]) -> None:
    """Wake the monitor of each of these batches that is over, or has something else to do."""
    hurry(using, [each.id for each in states(using, batches) if _needs_monitor(each)])


def _needs_monitor(batch: State) -> bool:
    if batch.rows >= MANY:
        return True
    if batch.state == BatchState.RUNNING and not batch.figures.open:
        return True
    if batch.state not in (BatchState.OPEN, BatchState.RUNNING):
        return batch.state == BatchState.CANCELLED and not batch.figures.open
    return bool(holding(batch.arguments, batch.figures, sealed=batch.state == BatchState.RUNNING))


def states(using: str, batches: Collection[UUID]) -> list[State]:
    """Read these batches of jobs, their figures up to this moment, in one statement and without locks."""
    if not batches:
        return []
    connection = connections[using]
    identify = Batch._meta.pk.get_db_prep_value
    with connection.cursor() as cursor:
        cursor.execute(_statement(len(batches)), [identify(id, connection) for id in batches])
        rows = cursor.fetchall()
    return [
        State(
            id if isinstance(id, UUID) else UUID(id),
            state,
            json.loads(arguments) if isinstance(arguments, str | bytes) else arguments,
            Figures(*map(int, figures)),
            count,
        )
        for id, state, arguments, count, *figures in rows
    ]


@lru_cache(maxsize=64)
def _statement(count: int) -> str:
    batch, tally = Batch._meta.db_table, BatchTally._meta.db_table
    stored = ("total", "changed", "failed", "skipped")
    sums = ", ".join(f"b.{column} + coalesce(sum(t.{name}), 0)" for column, name in zip(stored, _COLUMNS, strict=True))
    # Grouped by the key, on which the other columns depend; MySQL knows this since 5.7, MariaDB need not.
    return f"""
        SELECT b.id, b.state, b.arguments, count(t.id), {sums}
        FROM {batch} b LEFT JOIN {tally} t ON t.batch_id = b.id
        WHERE b.id IN ({", ".join(["%s"] * count)}) AND b.type = '{JOBS}' GROUP BY b.id"""


def hurry_all(using: str) -> None:
    """Make the monitors of all unfinished batches of jobs look: a process may have died before it did."""
    hurry(using, _going(using))


def look_at_all(using: str) -> None:
    """:func:`look` at all unfinished batches of jobs: where no commit does, in the transaction of a test."""
    look(using, _going(using))


def _going(using: str) -> list[UUID]:
    going = Batch.objects.using(using).filter(type=JOBS, state__in=(BatchState.OPEN, BatchState.RUNNING))
    return list(going.values_list("pk", flat=True))


def hurry(using: str, batches: Collection[UUID]) -> None:
    """Make the sleeping monitors of these batches run now. One that is being retried keeps its date.

    A monitor comes before the children, of which a million may wait: it is as old as its batch.
    """
    if not batches:
        return
    found = Batch.objects.using(using).filter(pk__in=batches)
    for batch in found.only("create_time"):
        own: dict[str, Any] = {"process_instance_id": batch.process_instance_id, "handler_type": MONITOR, "attempts": 0}
        if TimerJob.objects.using(using).filter(**own).update(due_date=batch.create_time):
            wake_on_commit(using, timers=True)
            continue
        first = rank(using, batch.create_time, get_settings().batch_priority)
        Job.objects.using(using).filter(**own, lock_owner=None, rank__gt=first).update(rank=first)
