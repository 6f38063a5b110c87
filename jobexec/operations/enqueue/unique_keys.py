"""Statements on JobKey rows, for a few hundred keys of one owner at most. The rules are in ``unique``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections
from django.db.models import Case, CharField, F, Field, QuerySet, UUIDField, Value, When
from django.db.models.functions import Cast

from jobexec import clock
from jobexec.models import HANDLER_TABLES, AbstractJob, DeadLetterJob, JobKey

from ..sql.insert import insert_missing
from ..sql.locks import lock_rows

_TABLES = {table.state: table for table in HANDLER_TABLES}


class Owner(NamedTuple):
    """The owner of keys: one handler of one tenant."""

    handler_type: str
    tenant_id: str = ""


@dataclass(frozen=True, slots=True)
class Holder:
    """A snapshot of the job that holds a key; ``table`` is None if the job is over."""

    row: int
    job_id: UUID
    expiration_time: datetime | None
    table: type[AbstractJob] | None
    locked: bool


def holders(using: str, owner: Owner, keys: Collection[str]) -> dict[str, Holder]:
    """Return the holders of these keys, without free keys. Neither locks nor waits."""
    return _look(JobKey.objects.using(using).filter(**owner._asdict(), key__in=keys))


def lock(using: str, rows: Iterable[int]) -> dict[str, Holder]:
    """Lock these rows until the transaction ends and return their holders, without rows that are gone.

    Locks in the order of the ids, as the cleanup does. The jobs are read in a statement that begins after the rows are
    locked, so it sees the commits of transactions that held the locks before.
    """
    return _look(lock_rows(JobKey.objects.using(using).filter(pk__in=list(rows)).order_by("pk")))


def insert(using: str, owner: Owner, wanted: Mapping[str, UUID], expiration_time: datetime | None) -> bool:
    """Insert a row for each key that has none; return True if all were certainly inserted.

    Waits for an open transaction that has inserted one of them: if it commits, the row is its own, and ours if it rolls
    back. Inserts in sorted order, so that two transactions with the same keys do not deadlock.
    """
    shared = {**owner._asdict(), "create_time": clock.now(using), "expiration_time": expiration_time}
    rows = [{**shared, "key": key, "job_id": wanted[key]} for key in sorted(wanted)]
    return insert_missing(using, JobKey, rows) == len(rows)


def hand_over(using: str, rows: Mapping[int, UUID], expiration_time: datetime | None) -> None:
    """Transfer these rows, which the caller has locked, to other jobs."""
    table = JobKey.objects.using(using)
    uuid: Field[UUID, UUID] = UUIDField()
    job: Any = Case(*(When(pk=row, then=Value(id, output_field=uuid)) for row, id in rows.items()))
    if connections[using].features.requires_casted_case_in_updates:
        job = Cast(job, output_field=uuid)
    values = {"job_id": job, "create_time": clock.now(using), "expiration_time": expiration_time}
    table.filter(pk__in=list(rows)).update(**values)


def take_from_dead(using: str, keys: Mapping[UUID, str]) -> set[UUID]:
    """Record on these dead letters, given with their keys, that another job takes the key; return those still dead.

    They stay locked until the transaction ends, and their revision rises: a transaction that has read one without a
    lock will not move it. Waits for transactions that are requeueing or deleting one of them.
    """
    rows = DeadLetterJob.objects.using(using)
    dead = set(lock_rows(rows.filter(pk__in=list(keys)).order_by("pk")).values_list("pk", flat=True))
    for pk in dead:
        rows.filter(pk=pk).update(lost_key=keys[pk], revision=F("revision") + 1)
    return dead


def _look(rows: QuerySet[JobKey]) -> dict[str, Holder]:
    found = list(rows.values_list("pk", "key", "job_id", "expiration_time"))
    jobs = _jobs(rows.db, {job_id for _, _, job_id, _ in found}) if found else {}
    return {
        key: Holder(pk, job_id, expiration, *jobs.get(job_id, (None, False))) for pk, key, job_id, expiration in found
    }


def _jobs(using: str, ids: Collection[UUID]) -> dict[UUID, tuple[type[AbstractJob], bool]]:
    """Return the table of each of these jobs and whether it is locked. One statement, as :func:`~.lookup.find_states`:
    a job that is being moved is found in one of the tables."""
    first, *others = (_rows_of(table, using, ids) for table in HANDLER_TABLES)
    return {pk: (_TABLES[state], owner is not None) for pk, state, owner in first.union(*others, all=True)}


def _rows_of(table: type[AbstractJob], using: str, ids: Collection[UUID]) -> QuerySet[Any, Any]:
    state: Field[str, str] = CharField()
    rows = table._base_manager.using(using).filter(pk__in=ids)
    return rows.annotate(at=Value(table.state, output_field=state), owner=F("lock_owner")).values_list(
        "pk", "at", "owner"
    )
