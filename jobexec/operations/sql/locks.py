"""Transactions and row locks, as far as ``connection.features`` reports that the database has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeVar

from django.db import Error, connections, models, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Collate

from .dialect import dialect, dialect_of

M = TypeVar("M", bound=models.Model)
Row = TypeVar("Row")


def has_skip_locked(using: str) -> bool:
    """Whether the database has SKIP LOCKED (PostgreSQL, MariaDB 10.6+, MySQL 8+)."""
    return bool(connections[using].features.has_select_for_update_skip_locked)


def is_single_writer(using: str) -> bool:
    """Whether one writer locks the whole database (SQLite)."""
    return dialect(using).single_writer


def names_conflict_target(using: str) -> bool:
    """Whether an upsert names its conflict columns (not on MySQL and MariaDB)."""
    return bool(connections[using].features.supports_update_conflicts_with_target)


def returns_rows(using: str) -> bool:
    """Whether UPDATE and DELETE can return the changed rows (PostgreSQL, SQLite 3.35+)."""
    connection = connections[using]
    return dialect_of(connection).returns_rows(connection)


def has_json_rows(using: str) -> bool:
    """Whether rows can be passed to a statement as JSON, see :meth:`~.portable.Dialect.given`."""
    # MariaDB and MySQL have JSON_TABLE in all versions that have SKIP LOCKED.
    given = dialect(using).given("row", {"value": "text"})
    return given is not None and (has_skip_locked(using) or is_single_writer(using))


def by_code_point(rows: QuerySet[Any], column: str) -> Any:
    """Return an expression that sorts texts as Python does; a database may sort them by its locale."""
    text = isinstance(rows.model._meta.get_field(column), models.CharField)
    collation = dialect(rows.db).code_point_collation if text else None
    return Collate(F(column), collation) if collation else F(column)


@cache
def ids_sort_by_time(using: str) -> bool:
    """Whether version 7 UUIDs sort by time; not on MariaDB before 10.11.6, which compared the last digits first."""
    connection = connections[using]
    return dialect_of(connection).ids_sort_by_time(connection)


def lock_rows(queryset: QuerySet[M, Row], *, skip_locked: bool = False, no_key: bool = False) -> QuerySet[M, Row]:
    """Return the queryset with its rows locked until the transaction ends; ``skip_locked`` skips locked rows.

    Pass ``no_key`` if the rows will not be deleted: on PostgreSQL, inserts of rows that refer to them then do not wait.
    On SQLite the transaction already holds the only write lock (``transaction_mode`` IMMEDIATE), and there is nothing
    to lock.
    """
    features = connections[queryset.db].features
    if not features.has_select_for_update:
        return queryset
    skip = skip_locked and features.has_select_for_update_skip_locked
    return queryset.select_for_update(skip_locked=skip, no_key=no_key and features.has_select_for_no_key_update)


def reads_snapshots(using: str) -> bool:
    """Whether a transaction that gets a lock may still read what there was before (REPEATABLE READ)."""
    connection = connections[using]
    connection.ensure_connection()  # only then Django knows
    return dialect_of(connection).reads_snapshots(connection)


@contextmanager
def waiting_at_most(using: str, seconds: int) -> Iterator[None]:
    """In a transaction, make statements that wait longer for a foreign lock raise a conflict.

    No effect on SQLite, where a writer locks the whole file. After an error PostgreSQL rolls the setting back with the
    transaction; MySQL keeps it for the connection.
    """
    connection, timeout = connections[using], dialect(using).lock_timeout
    if timeout is None:
        yield
        return
    look, change, unit, after_errors = timeout
    with connection.cursor() as cursor:
        cursor.execute(look)
        before = cursor.fetchone()[0]
        cursor.execute(change, [f"{seconds}{unit}" if unit else seconds])
    try:
        yield
    except BaseException:
        if after_errors:
            with suppress(Error), connection.cursor() as cursor:
                cursor.execute(change, [before])
        raise
    with connection.cursor() as cursor:
        cursor.execute(change, [before])


def atomic(using: str) -> Any:
    """Open a transaction for one operation, or join the caller's without a savepoint."""
    return transaction.atomic(using=using, savepoint=False)
