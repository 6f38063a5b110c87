"""The target of an operation (a row, ids or a queryset) and its result."""

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
from jobexec.identifiers import as_id
from jobexec.json_values import shown
from jobexec.models import AbstractJob, Job

from .. import audit
from ..sql.errors import is_conflict, one_line
from ..sql.locks import lock_rows
from ..sql.server_time import keep_time
from .lookup import find_states

Target: TypeAlias = AbstractJob | UUID | str | Iterable[AbstractJob | UUID | str] | QuerySet[Any]
Verb: TypeAlias = Callable[[Any], str | None]
#: Applies a verb to many rows of one table at once: (using, table, ids); returns the ids of the rows that it changed.
Bulk: TypeAlias = Callable[[str, type[AbstractJob], list[UUID]], Iterable[UUID]]
_PAGE = 200
_FEWEST = 2  # the fewest rows for which the bulk form pays off

logger = logging.getLogger("jobexec.operations")

CHANGED_MEANWHILE = gettext_noop("it has changed in the meantime")


@dataclass(slots=True)
class OperationResult:
    """The result of an operation: the ids that it changed, and those that it skipped, with the reason."""

    changed: list[Any] = field(default_factory=list)
    skipped: dict[Any, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.changed)


def database_of(target: Target | None, using: str | None) -> str:
    """Return the engine of an operation: ``using`` if given, else the database of its rows or queryset.

    For ids, scopes and a queryset without a database of its own it is the database to which the routers write jobs,
    never a replica for reading. From here on :func:`jobexec.clock.now` returns that database's time.
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
    named = getattr(target, "_db", None)  # of a queryset: the argument of using()
    if isinstance(target, QuerySet) and named:
        return str(named)
    return router.db_for_write(Job)


def for_each(
    target: Target, using: str | None, verb: Verb, *tables: type[AbstractJob], bulk: Bulk | None = None
) -> OperationResult:
    """Lock every row of the target and apply ``verb`` to it, each in a transaction of its own.

    ``verb`` returns None on success, or the reason why it did nothing. A row is skipped with the reason if the verb
    refuses it in this way or with a :class:`~jobexec.exceptions.JobExecError`, if it is in none of ``tables`` or if it
    moved in the meantime; the other rows are not affected.

    ``bulk`` is the fast form: it does the same to the rows of a page that allow it, in few statements and one
    transaction. The other rows are changed one by one, and so are all rows of the page if it fails. Rows of a queryset
    are looked up in its own table first.
    """
    result, ids, database = OperationResult(), list(dict.fromkeys(ids_of(target))), database_of(target, using)
    likely = target.model if isinstance(target, QuerySet) and target.model in tables else None
    for start in range(0, len(ids), _PAGE):
        _page(ids[start : start + _PAGE], database, verb, tables, bulk, likely, result)
    return result


def ids_of(target: Target) -> Iterator[UUID]:
    """Yield the ids of a target. Raises ValueError for a text that is no UUID."""
    if isinstance(target, QuerySet):
        yield from list(target.values_list("pk", flat=True))
    elif isinstance(target, AbstractJob | UUID | str):
        yield _id(target)
    else:
        yield from (_id(one) for one in target)


def _id(one: AbstractJob | UUID | str) -> UUID:
    if isinstance(one, AbstractJob):
        return one.pk
    id = as_id(one)
    if id is None:
        raise ValueError(f"Expected the id of a job, a UUID, got {shown(one)}.")
    return id


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
            result.skipped[pk] = _("the job no longer exists")
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
            raise  # the transaction is the caller's, and the error has ended it
        text = "%d jobs could not be changed at once on %s (%s); retrying one by one"
        logger.warning(text, len(ids), using, one_line(error))
        return set()


def _done(row: AbstractJob, table: type[AbstractJob], using: str, verb: Verb) -> str | None:
    id, tenant, old = row.pk, row.tenant_id, audit.old_of(row)  # the verb may change the instance, or delete it
    refusal = verb(row)
    if refusal is None:
        audit.note_jobs(using, table, [id], [tenant], old)
    return refusal


def _one(pk: UUID, table: type[AbstractJob], using: str, verb: Verb, result: OperationResult) -> None:
    try:
        # With a savepoint, so that a refusal does not break the caller's transaction.
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
        # A deadlock on MySQL has rolled back the whole transaction: only its owner can retry it.
        if not is_conflict(error) or connections[using].needs_rollback:
            raise
        result.skipped[pk] = _("the database refused: %(error)s") % {"error": error}
