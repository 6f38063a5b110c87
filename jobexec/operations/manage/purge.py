"""Delete data kept beside the jobs on an operator's request: task results, unique keys and messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model

from jobexec.models import JobKey, Message, TaskResult

from ..audit import audited, note_rows
from ..sql.delete import delete_rows
from ..sql.locks import atomic, lock_rows
from ..targets.for_each import database_of

T = TypeVar("T")
_PAGE = 500


@audited
def delete_task_results(ids: Iterable[UUID], *, using: str | None = None) -> list[UUID]:
    """Delete task results; return the ids of the rows that existed.

    A finished task can no longer be found. If the task's job still exists, only the results of its attempts so far are
    lost.
    """
    return _delete(TaskResult, ids, database_of(None, using), ())


@audited
def release_keys(ids: Iterable[int], *, using: str | None = None) -> list[int]:
    """Delete unique keys, so that the next job may have them; return the ids of the rows that existed.

    The jobs that hold them are left unchanged: two jobs may then exist with the same key.
    """
    return _delete(JobKey, ids, database_of(None, using), ("handler_type", "key"))


@audited
def delete_messages(ids: Iterable[int], *, using: str | None = None) -> list[int]:
    """Delete messages, so that no further job receives them; return the ids of the rows that existed.

    Their message ids may be published again.
    """
    return _delete(Message, ids, database_of(None, using), ("name", "key"))


def _delete(model: type[Model], ids: Iterable[T], using: str, names: Sequence[str]) -> list[T]:
    table: Any = model._default_manager.using(using)
    gone: list[T] = []
    for page in _pages(ids):
        with atomic(using):
            # In the order of their ids, like all transactions that lock several of them.
            rows = list(lock_rows(table.filter(pk__in=page).order_by("pk").only("pk", *names)))
            found = [row.pk for row in rows]
            delete_rows(table.filter(pk__in=found))
            note_rows(using, model, found, [" ".join(getattr(row, name) for name in names) for row in rows])
        gone += found
    return gone


def _pages(ids: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(ids)
    while page := list(islice(rest, _PAGE)):
        yield page
