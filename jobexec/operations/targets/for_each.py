"""What an operation is told to work on: a row, ids, or a queryset; and what it tells back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID

from django.db import connections, router
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from jobexec.exceptions import JobExecError
from jobexec.models import AbstractJob, Job

from .. import audit
from ..sql.errors import is_conflict
from ..sql.locks import lock_rows
from ..sql.server_time import keep_time
from .lookup import find_states

Target: TypeAlias = AbstractJob | UUID | str | Iterable[AbstractJob | UUID | str] | QuerySet[Any]
Verb: TypeAlias = Callable[[Any], str | None]
#: What a verb does to many rows of one table at once: (using, table, ids), returns the ids of those that it has done.
Bulk: TypeAlias = Callable[[str, type[AbstractJob], list[UUID]], Iterable[UUID]]
_PAGE = 200
_FEWEST = 2  # rows that are worth doing at once

logger = logging.getLogger("jobexec.operations")

CHANGED_MEANWHILE = gettext_noop("it changed meanwhile")


@dataclass(slots=True)
class OperationResult:
    """What an operation did: the ids that it changed, and those it left alone with the reason."""

    changed: list[Any] = field(default_factory=list)
    skipped: dict[Any, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.changed)


def database_of(target: Target | None, using: str | None) -> str:
    """The engine that an operation works on: ``using`` if given, else where its rows or its queryset come from.

    A queryset without a database of its own, ids and scopes mean the one to which the routers write jobs: never a
    replica that they are read from. From here on :func:`jobexec.clock.now` is that database's time.
    """
    database = _database_of(target, using)
    keep_time(database)
    return database


def _database_of(target: Target | None, using: str | None) -> str:
    if using is not None:
        return using
    if isinstance(target, list | tuple) and target:
        target = target[0]
    if isinstance(target, AbstractJob) and target._state.db:
        return target._state.db
    named = getattr(target, "_db", None)  # of a queryset: what using() said
    if isinstance(target, QuerySet) and named:
        return str(named)
    return router.db_for_write(Job)


def for_each(
    target: Target, using: str | None, verb: Verb, *tables: type[AbstractJob], bulk: Bulk | None = None
) -> OperationResult:
    """Apply ``verb`` to every row of the target, locked, each in a transaction of its own.

    ``verb`` returns None when it is done, or why it did nothing. A row that it refuses so (or by a
    :class:`~jobexec.exceptions.JobExecError`), that is in none of ``tables`` or that moved meanwhile is skipped with
    the reason and does not disturb the others.

    ``bulk`` is the fast form: it does the same to the rows of a page that allow it, in few statements and one
    transaction; the others go one by one, and so do all of the page if it fails. Rows of a queryset are looked for in
    its own table first.
    """
    result, ids, database = OperationResult(), list(dict.fromkeys(ids_of(target))), database_of(target, using)
    likely = target.model if isinstance(target, QuerySet) and target.model in tables else None
    for start in range(0, len(ids), _PAGE):
        _page(ids[start : start + _PAGE], database, verb, tables, bulk, likely, result)
    return result


def ids_of(target: Target) -> Iterator[UUID]:
    """The ids of a target. Raises ValueError for a text that is none."""
    if isinstance(target, QuerySet):
        yield from list(target.values_list("pk", flat=True))
    elif isinstance(target, AbstractJob | UUID | str):
        yield _id(target)
    else:
        yield from (_id(one) for one in target)


def _id(one: AbstractJob | UUID | str) -> UUID:
    if isinstance(one, AbstractJob):
        return one.pk
    return one if isinstance(one, UUID) else UUID(one)


def _page(
    ids: list[UUID],
    using: str,
    verb: Verb,
    tables: tuple[type[AbstractJob], ...],
    bulk: Bulk | None,
    likely: type[AbstractJob] | None,
    result: OperationResult,
) -> None:
    done: set[UUID] = set()
    if bulk is not None and likely is not None and len(ids) >= _FEWEST:
        done = _at_once(using, likely, ids, bulk)
    left = [pk for pk in ids if pk not in done]
    states = find_states(left, using) if left else {}
    for table in tables:
        alike = [pk for pk in left if states.get(pk) is table]
        if bulk is not None and table is not likely and len(alike) >= _FEWEST:
            done |= _at_once(using, table, alike, bulk)
    for pk in ids:
        state = states.get(pk)
        if pk in done:
            result.changed.append(pk)
        elif state is None:
            result.skipped[pk] = _("there is no such job any more")
        elif state not in tables:
            result.skipped[pk] = _("not possible for a job that is %(state)s") % {"state": _(state.state)}
        else:
            _one(pk, state, using, verb, result)


def _at_once(using: str, table: type[AbstractJob], ids: list[UUID], bulk: Bulk) -> set[UUID]:
    try:
        with audit.part(using):
            tenants = audit.tenants_among(using, table, ids)
            done = set(bulk(using, table, ids))
            audit.note_jobs(using, table, [pk for pk in ids if pk in done], tenants)
            return done
    except Exception as error:
        if connections[using].needs_rollback:
            raise  # the transaction is the caller's, and has ended
        logger.warning("%d jobs could not be changed at once on %s (%s); one by one now", len(ids), using, error)
        return set()


def _done(row: AbstractJob, table: type[AbstractJob], using: str, verb: Verb) -> str | None:
    id, tenant, old = row.pk, row.tenant_id, audit.old_of(row)  # the verb may change the instance, or delete it
    refusal = verb(row)
    if refusal is None:
        audit.note_jobs(using, table, [id], [tenant], old)
    return refusal


def _one(pk: UUID, table: type[AbstractJob], using: str, verb: Verb, result: OperationResult) -> None:
    try:
        # With a savepoint, so that a refusal does not spoil a transaction of the caller's.
        with audit.part(using):
            row = lock_rows(table._base_manager.using(using).filter(pk=pk)).first()
            refusal = CHANGED_MEANWHILE if row is None else _done(row, table, using, verb)
        if refusal is None:
            result.changed.append(pk)
        else:
            result.skipped[pk] = _(refusal)
    except JobExecError as error:
        result.skipped[pk] = str(error)
    except Exception as error:
        # A deadlock on MySQL has ended the whole transaction: then it is for its owner to try again.
        if not is_conflict(error) or connections[using].needs_rollback:
            raise
        result.skipped[pk] = _("the database refused: %(error)s") % {"error": error}
