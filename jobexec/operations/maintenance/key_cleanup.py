"""Delete expired unique keys whose job is over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from django.db.models import Q, QuerySet

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.models import JobKey

from ..sql.delete import delete_rows
from ..sql.locks import atomic, lock_rows
from ..targets.lookup import find_states

Keys: TypeAlias = QuerySet[JobKey]


def freeing_keys(using: str) -> Iterator[int]:
    """Delete these keys, one page per transaction; yield the numbers. Keys in use are read but never locked."""
    rows = JobKey.objects.using(using).order_by("pk")
    reached, now, size = 0, clock.now(using), get_settings().history_cleanup_batch_size
    while page := list(rows.filter(pk__gt=reached).values_list("pk", "job_id", "expiration_time")[:size]):
        reached = page[-1][0]
        left = {pk: job_id for pk, job_id, expiration in page if expiration is None or expiration <= now}
        over = _over(using, left)
        if over and (deleted := _delete(using, rows.filter(_is_up(now), pk__in=over))):
            yield deleted


def _delete(using: str, rows: Keys) -> int:
    """Delete those of these rows whose jobs are over; rows that are just being taken over are skipped.

    The jobs are looked up again, in a statement that begins after the rows are locked. A transaction that takes over a
    key locks its row first and has inserted its job when it releases the row: so the job of a row that we have locked
    is visible if it exists, and the row keeps its job until we are done. A single statement that deletes where no job
    exists would look for the job as of its own beginning, and delete a key that was transferred while it waited.
    """
    with atomic(using):
        locked = dict(lock_rows(rows, skip_locked=True).values_list("pk", "job_id"))
        return delete_rows(JobKey.objects.using(using).filter(pk__in=_over(using, locked)))


def _over(using: str, rows: dict[int, UUID]) -> list[int]:
    """Return the rows whose jobs are in no table."""
    states = find_states(rows.values(), using) if rows else {}
    return [pk for pk, job_id in rows.items() if job_id not in states]


def _is_up(now: datetime) -> Q:
    # Checked again under the lock: a transaction that took over the key may have set another time.
    return Q(expiration_time=None) | Q(expiration_time__lte=now)
