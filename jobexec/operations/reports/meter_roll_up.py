"""Merge rows of the meter log without changing their sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from django.db.models import QuerySet

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.models import MeterLog

from ..sql.delete import delete_rows
from ..sql.locks import atomic, lock_rows
from ..sql.time_buckets import floor

#: For this long, the rows of each flush of each node are kept.
KEPT_APART = timedelta(hours=2)
#: After that, there is one row for all nodes and this period.
SLOT = timedelta(minutes=15)
#: The time of the rows for everything older than METER_TIME_TO_LIVE: before any period.
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)

#: How the names of the meters of subjects begin (:mod:`.subjects`): their totals since the beginning are not used, so
#: they are deleted when they expire.
RUNS_OF = "runs-of-"

_PAGE = 2000

Rows: TypeAlias = QuerySet[MeterLog]


def roll_up(using: str) -> int:
    """Merge old rows; return by how much the number of rows decreased.

    Rows older than two hours become one row for each meter, key and quarter of an hour, without a reporter; rows older
    than METER_TIME_TO_LIVE become one row for each meter and key. The sum over all rows of a meter never changes, and a
    row stays in its quarter of an hour until it moves to the beginning of time.

    Works in transactions of some thousand rows, each of which locks rows, inserts their sums and deletes them. If the
    process is killed on the way, the committed part is merged; several nodes take different rows.
    """
    return sum(rolling_up(using))


def rolling_up(using: str) -> Iterator[int]:
    """Like :func:`roll_up`, but yield after each transaction, so that the caller can pause in between."""
    now = clock.now(using)
    rows = MeterLog.objects.using(using)
    flushed = rows.filter(reporter__gt="", timestamp__lt=floor(now - KEPT_APART, SLOT))
    yield from _merge_all(flushed, lambda timestamp: floor(timestamp, SLOT))
    expired = floor(now - get_settings().meter_time_to_live, SLOT)
    slots = rows.filter(reporter="", timestamp__gt=BEGINNING, timestamp__lt=expired)
    yield from _merge_all(slots, lambda timestamp: BEGINNING, rows.filter(reporter="", timestamp=BEGINNING))


def _merge_all(rows: Rows, moved: Callable[[datetime], datetime], into: Rows | None = None) -> Iterator[int]:
    while page := list(rows.order_by("timestamp", "pk").values_list("pk", flat=True)[:_PAGE]):
        found, left = _merge(rows, page, moved, into)
        if found:
            yield found - left
        if not found or len(page) < _PAGE:  # another node merges these
            return


def _merge(rows: Rows, ids: list[int], moved: Callable[[datetime], datetime], into: Rows | None) -> tuple[int, int]:
    """Merge a page; return the number of rows before and after."""
    using = rows.db
    with atomic(using):
        page = _lock(using, ids)
        if not page:
            return 0, 0
        # With the rows for everything older: if another node has locked them, there are two rows until the next time.
        page += _lock(using, into.values_list("pk", flat=True)) if into is not None else []
        sums: Counter[tuple[str, str, datetime]] = Counter()
        for row in page:
            if into is not None and row.name.startswith(RUNS_OF):
                continue
            sums[row.name, row.key, moved(row.timestamp)] += row.value
        merged = [
            MeterLog(name=name, key=key, timestamp=timestamp, value=value)
            for (name, key, timestamp), value in sums.items()
        ]
        MeterLog.objects.using(using).bulk_create(merged)
        delete_rows(MeterLog.objects.using(using).filter(pk__in=[row.pk for row in page]))
    return len(page), len(merged)


def _lock(using: str, ids: Iterable[int]) -> list[MeterLog]:
    # By their ids: InnoDB locks the entry of another index before the row, and DELETE locks them in reverse order.
    rows = MeterLog.objects.using(using).filter(pk__in=list(ids)).order_by("pk")
    return list(lock_rows(rows, skip_locked=True))
