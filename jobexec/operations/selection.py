"""What an operation is told to work on: a row, ids, or a queryset; and what it tells back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID

from django.db import connections, router, transaction
from django.db.models import QuerySet

from jobexec.exceptions import JobExecError
from jobexec.models import AbstractJob, Job

from .errors import is_conflict
from .locking import lock_rows
from .lookup import find_states

Target: TypeAlias = AbstractJob | UUID | str | Iterable[AbstractJob | UUID | str] | QuerySet[Any]
Verb: TypeAlias = Callable[[Any], str | None]
_PAGE = 200

CHANGED_MEANWHILE = "it changed meanwhile"


@dataclass(slots=True)
class OperationResult:
    """What an operation did: the ids that it changed, and those it left alone with the reason."""

    changed: list[UUID] = field(default_factory=list)
    skipped: dict[UUID, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.changed)


def database_of(target: Target | None, using: str | None) -> str:
    """The engine that an operation works on: ``using`` if given, else where its rows or its queryset come from.

    A queryset without a database of its own, ids and scopes mean the one to which the routers write jobs: never a
    replica that they are read from.
    """
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


def for_each(target: Target, using: str | None, verb: Verb, *tables: type[AbstractJob]) -> OperationResult:
    """Apply ``verb`` to every row of the target, locked, each in a transaction of its own.

    ``verb`` returns None when it is done, or why it did nothing. A row that it refuses so (or by a
    :class:`~jobexec.exceptions.JobExecError`), that is in none of ``tables`` or that moved meanwhile is skipped with
    the reason and does not disturb the others.
    """
    result, ids, database = OperationResult(), list(dict.fromkeys(ids_of(target))), database_of(target, using)
    for start in range(0, len(ids), _PAGE):
        _page(ids[start : start + _PAGE], database, verb, tables, result)
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
    result: OperationResult,
) -> None:
    states = find_states(ids, using)
    for pk in ids:
        table = states.get(pk)
        if table is None:
            result.skipped[pk] = "there is no such job any more"
        elif table not in tables:
            result.skipped[pk] = f"not possible for a job that is {table.state}"
        else:
            _one(pk, table, using, verb, result)


def _one(pk: UUID, table: type[AbstractJob], using: str, verb: Verb, result: OperationResult) -> None:
    try:
        # With a savepoint, so that a refusal does not spoil a transaction of the caller's.
        with transaction.atomic(using=using):
            row = lock_rows(table._base_manager.using(using).filter(pk=pk)).first()
            refusal = CHANGED_MEANWHILE if row is None else verb(row)
        if refusal is None:
            result.changed.append(pk)
        else:
            result.skipped[pk] = refusal
    except JobExecError as error:
        result.skipped[pk] = str(error)
    except Exception as error:
        # A deadlock on MySQL has ended the whole transaction: then it is for its owner to try again.
        if not is_conflict(error) or connections[using].needs_rollback:
            raise
        result.skipped[pk] = f"the database refused: {error}"
