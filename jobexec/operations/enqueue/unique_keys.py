"""The statements on rows of JobKey, for some hundred keys of one owner at most. Who may have one is in ``unique``."""

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
    """Whose keys: those of one handler, of one tenant."""

    handler_type: str
    tenant_id: str = ""


@dataclass(frozen=True, slots=True)
class Holder:
    """The job that has a key, as one look saw it; ``table`` is None if the job is over."""

    row: int
    job_id: UUID
    expiration_time: datetime | None
    table: type[AbstractJob] | None
    locked: bool


def holders(using: str, owner: Owner, keys: Collection[str]) -> dict[str, Holder]:
    """Who has these keys. Locks nothing and waits for nobody; keys that nobody has are left out."""
    return _look(JobKey.objects.using(using).filter(**owner._asdict(), key__in=keys))


def lock(using: str, rows: Iterable[int]) -> dict[str, Holder]:
    """The same of rows that were seen, locked until the transaction ends; rows that are gone are left out.

    In the order of their ids, as the cleanup locks them. The jobs are looked for in a statement that begins when the
    rows are locked, so it sees what whoever had them before has committed.
    """
    return _look(lock_rows(JobKey.objects.using(using).filter(pk__in=list(rows)).order_by("pk")))


def insert(using: str, owner: Owner, wanted: Mapping[str, UUID], expiration_time: datetime | None) -> bool:
    """Insert a row for each key that has none; True if that were certainly all of them.

    Waits for a transaction that has inserted one of them and not ended: if it commits, the row is its, and ours if it
    rolls back. In sorted order, so that two who insert the same keys do not wait for each other.
    """
    shared = {**owner._asdict(), "create_time": clock.now(using), "expiration_time": expiration_time}
    rows = [{**shared, "key": key, "job_id": wanted[key]} for key in sorted(wanted)]
    return insert_missing(using, JobKey, rows) == len(rows)


def hand_over(using: str, rows: Mapping[int, UUID], expiration_time: datetime | None) -> None:
    """Give these rows, which the caller has locked, to other jobs."""
    table = JobKey.objects.using(using)
    uuid: Field[UUID, UUID] = UUIDField()
    job: Any = Case(*(When(pk=row, then=Value(id, output_field=uuid)) for row, id in rows.items()))
    if connections[using].features.requires_casted_case_in_updates:
        job = Cast(job, output_field=uuid)
    values = {"job_id": job, "create_time": clock.now(using), "expiration_time": expiration_time}
    table.filter(pk__in=list(rows)).update(**values)


def take_from_dead(using: str, keys: Mapping[UUID, str]) -> set[UUID]:
    """Write on these dead letters, each with its key, that another job takes it; returns those that still are any.

    They stay locked until the transaction ends, and their revision rises: who has looked at one without a lock does not
    move it. Waits for whoever is requeueing or deleting one of them.
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
    """In which table each of these jobs is, and whether it is locked. One statement, as :func:`~.lookup.find_states`:
    a job that is just moving is seen here or there."""
    first, *others = (_rows_of(table, using, ids) for table in HANDLER_TABLES)
    return {pk: (_TABLES[state], owner is not None) for pk, state, owner in first.union(*others, all=True)}


def _rows_of(table: type[AbstractJob], using: str, ids: Collection[UUID]) -> QuerySet[Any, Any]:
    state: Field[str, str] = CharField()
    rows = table._base_manager.using(using).filter(pk__in=ids)
    return rows.annotate(at=Value(table.state, output_field=state), owner=F("lock_owner")).values_list(
        "pk", "at", "owner"
    )
