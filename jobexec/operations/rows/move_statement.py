"""Moves inside the database: rows go from table to table without being loaded and sent back.

This is the fast form of :func:`~jobexec.operations.rows.move.move_all`, which defines what a move means and is used on
MySQL and by callers that need the rows. The caller must have locked the rows and know that they are unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from jobexec import clock
from jobexec.models import SHARED_COLUMNS, AbstractJob, BlockedJob, DeadLetterJob, ExternalWorkerJob

from ..history.incidents import copy_incidents, resolve_incidents
from ..history.task_attempts import mark_ready
from ..sql import insert_select
from ..sql.delete import delete_rows
from ..sql.dialect import dialect
from ..sql.insert_select import Sql, insert_from
from ..values.ranking import rank, rank_sql
from .fencing import UNLOCKED
from .move import is_ranked
from .routing import (
    COMES_BACK,
    LEASE,
    available_at,
    available_at_sql,
    free_instances,
    keep_lease,
    lease_kept,
    next_look_sql,
)


def is_possible(using: str) -> bool:
    """Whether this database supports the statements of :mod:`~jobexec.operations.sql.insert_select`."""
    return insert_select.is_possible(using)


def transfer(
    using: str,
    source: type[AbstractJob],
    to: type[AbstractJob],
    ids: Collection[UUID],
    changes: Mapping[str, Any] | None = None,
    each: Mapping[UUID, Mapping[str, Any]] | None = None,
) -> None:
    """Move these rows, which the caller has locked, in two statements, with the same changes as :func:`move_all`.

    ``changes`` are columns of all rows, ``each`` has further ones by id, the same columns for every row. A third
    statement opens or resolves incidents where necessary. The caller counts children of batches that become dead
    letters or no longer are (:func:`~jobexec.operations.rows.tallies.count_move`): it knows the rows.
    """
    if not ids:
        return
    columns: dict[str, Any] = {name: Sql(f"source.{name}") for name in SHARED_COLUMNS}
    columns |= {**UNLOCKED, "revision": Sql("source.revision + 1"), **(changes or {})}
    columns |= _columns_of(using, to, changes or {})
    if is_ranked(source, to, changes or {}):
        now = clock.now(using)
        due = (changes["due_date"] or now) if changes and "due_date" in changes else None  # of all rows
        in_sql = rank_sql(using, due or now, own=due is None)
        if in_sql is None:
            each = _ranked(using, source, ids, each or {}, due)
        else:
            columns["rank"] = Sql(*in_sql)
    insert_from(using, source, to, ids, columns, each)
    if source is ExternalWorkerJob and to in COMES_BACK:
        _take_leases_along(using, to, ids)
    delete_rows(source._base_manager.using(using).filter(dialect(using).with_ids(ids)))
    _after(using, source, to, ids)


def _after(using: str, source: type[AbstractJob], to: type[AbstractJob], ids: Collection[UUID]) -> None:
    if to is ExternalWorkerJob:
        _keep_leases(using, ids)
    if source is ExternalWorkerJob:
        free_instances(using, ids)
    if to is DeadLetterJob:
        copy_incidents(using, ids)
    elif source is DeadLetterJob:
        resolve_incidents(using, ids)
        mark_ready(using, ids)


def _columns_of(using: str, to: type[AbstractJob], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that only this table has."""
    if to is BlockedJob:
        return {"next_look": next_look_sql(using)}
    if to is not ExternalWorkerJob:
        return {}
    own = "due_date" not in changes
    return {
        "lease_token": "",
        "available_at": available_at_sql(using) if own else available_at(using, changes["due_date"]),
    }


def _take_leases_along(using: str, to: type[AbstractJob], ids: Collection[UUID]) -> None:
    """Those of these jobs that were leased keep their demand for a lease in the other table: there are few."""
    leased = ExternalWorkerJob.objects.using(using).filter(pk__in=ids).exclude(lease_token="")
    tokens = dict(leased.values_list("pk", "lease_token"))
    there = to._base_manager.using(using)
    for pk, configuration in there.filter(pk__in=tokens).values_list("pk", "handler_configuration"):
        there.filter(pk=pk).update(handler_configuration=keep_lease(configuration, tokens[pk]))


def _keep_leases(using: str, ids: Collection[UUID]) -> None:
    """Those of these jobs that only workers with a lease may have again still are such jobs: there are few."""
    jobs = ExternalWorkerJob.objects.using(using).filter(pk__in=ids)
    leased = jobs.filter(**{"handler_configuration__has_key": LEASE})
    for pk, configuration in leased.values_list("pk", "handler_configuration"):
        jobs.filter(pk=pk).update(**lease_kept(configuration))


def _ranked(
    using: str,
    source: type[AbstractJob],
    ids: Collection[UUID],
    each: Mapping[UUID, Mapping[str, Any]],
    due: datetime | None,
) -> dict[UUID, Mapping[str, Any]]:
    now = clock.now(using)
    rows = source._base_manager.using(using).filter(pk__in=ids).values_list("pk", "due_date", "priority")
    return {pk: {**each.get(pk, {}), "rank": rank(using, due or own or now, priority)} for pk, own, priority in rows}
