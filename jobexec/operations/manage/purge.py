"""What a person deletes of what is kept beside the jobs: results of tasks, and unique keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model

from jobexec.models import JobKey, TaskResult

from ..audit import audited, note_rows
from ..sql.locks import atomic, delete_rows, lock_rows
from ..targets.for_each import database_of

T = TypeVar("T")
_PAGE = 500


@audited
def delete_task_results(ids: Iterable[UUID], *, using: str | None = None) -> list[UUID]:
    """Delete rows of results; returns the ids of those that there were.

    A task that is over is not found any more. Of one whose job lives what its attempts came to so far
    is forgotten, and nothing else.
    """
    return _delete(TaskResult, ids, database_of(None, using), ())


@audited
def release_keys(ids: Iterable[int], *, using: str | None = None) -> list[int]:
    """Delete rows of unique keys, so that the next job may have them; returns the ids of those that there were.

    The jobs that hold them are left as they are: then two may be under way with one key.
    """
    return _delete(JobKey, ids, database_of(None, using), ("handler_type", "key"))


def _delete(model: type[Model], ids: Iterable[T], using: str, names: Sequence[str]) -> list[T]:
    table: Any = model._default_manager.using(using)
    gone: list[T] = []
    for page in _pages(ids):
        with atomic(using):
            # In the order of their ids, as all who lock several of them.
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
