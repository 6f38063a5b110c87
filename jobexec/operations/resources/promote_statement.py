"""The fast form of a promotion of few jobs: our own statements, where WITH can write.

The portable form is in :mod:`~jobexec.operations.resources.promote`. A permit is idle for as long as this takes, and
Django takes longer to write the statements than the database to execute them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections

from jobexec import clock
from jobexec.models import SHARED_COLUMNS, BlockedJob, Job, Resource

from ..rows.fencing import UNLOCKED
from ..rows.suspension_cover import IN_FORCE
from ..sql.dialect import dialect
from ..sql.portable import Dialect
from ..values.acquired_job import AcquiredJob, columns_sql
from .limits import added_up, in_use_statement

_RESOURCE, _BLOCKED, _JOB = (model._meta.db_table for model in (Resource, BlockedJob, Job))
_FIELDS = [field.attname for field in Resource._meta.concrete_fields]


def is_possible(using: str) -> bool:
    """Whether this database can execute these statements."""
    return dialect(using).writes_in_with


def lock_resources(using: str, names: Sequence[str]) -> tuple[list[Resource], Counter[str]]:
    """Lock the rows of these resources, in the order of their names, then count the permits that are taken."""
    connection = connections[using]
    quoted = ", ".join(map(connection.ops.quote_name, _FIELDS))
    statement = f"SELECT {quoted} FROM {_RESOURCE} WHERE name = ANY(%s) ORDER BY name FOR UPDATE"
    with connection.cursor() as locked, connection.cursor() as counted:
        # The second statement has a snapshot of its own, which the server takes when the first has its locks.
        with dialect(using).pipeline(connection):
            locked.execute(statement, [list(names)])
            counted.execute(*in_use_statement(names))
        rows = [Resource.from_db(using, _FIELDS, row) for row in locked.fetchall()]
        return rows, added_up(counted.fetchall())


def update_resource(using: str, name: str, changes: Mapping[str, Any]) -> None:
    """Change columns of a resource, which the caller has locked."""
    connection = connections[using]
    values = ", ".join(f"{connection.ops.quote_name(column)} = %s" for column in changes)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {_RESOURCE} SET {values} WHERE name = %s", [*changes.values(), name])


class First(NamedTuple):
    """The next job of a resource as it is in its table, and what else decides about it.

    ``suspensions``: some suspension is in force.
    """

    job: AcquiredJob
    job_key: int | None
    deployment: str
    suspensions: bool


def first(using: str, name: str, count: int, owner: str, wide: bool) -> list[First]:
    """Lock the first blocked jobs of a resource, by rank, and skip those that others hold."""
    connection, spelled = connections[using], dialect(using)
    now = connection.ops.adapt_datetimefield_value(clock.now(using))
    with spelled.cursor(connection) as cursor:
        cursor.execute(_first(spelled, wide), {"name": name, "count": count, "now": now})
        return [First(AcquiredJob(using, owner, *row[:-3]), *row[-3:]) for row in cursor.fetchall()]


def more(using: str, name: str, count: int, besides: Collection[UUID]) -> list[tuple[Any, ...]]:
    """Lock more of them as :func:`first` does; return what decides about each, and whether a suspension is in force."""
    connection, spelled = connections[using], dialect(using)
    now = connection.ops.adapt_datetimefield_value(clock.now(using))
    parameters = {"name": name, "count": count, "now": now, "besides": spelled.id_list(besides)}
    with spelled.cursor(connection) as cursor:
        cursor.execute(_in_line(spelled, f"{_DECIDING}, {IN_FORCE}", "AND id <> ALL(%(besides)s)"), parameters)
        return list(cursor.fetchall())


@lru_cache(maxsize=8)
def _first(spelled: Dialect, wide: bool) -> str:
    return _in_line(spelled, f"{columns_sql(spelled, wide)}, job_key, deployment_id, {IN_FORCE}")


def _in_line(spelled: Dialect, columns: str, condition: str = "") -> str:
    # Also by waits_for, which is NULL in all rows: otherwise PostgreSQL reads and sorts all that wait for the resource.
    return f"""
        SELECT {columns} FROM {_BLOCKED}
        WHERE resource = %(name)s AND waits_for IS NULL {condition}
        ORDER BY waits_for, rank, id LIMIT %(count)s {spelled.skip_locked}"""


_DECIDING = "id, suspend_requested, resource, job_key, handler_type"
_SAME = ", ".join(name for name in SHARED_COLUMNS if name not in {*UNLOCKED, "revision"})
_MOVE = f"""
    WITH gone AS (
      DELETE FROM {_BLOCKED} WHERE id = ANY(%(ids)s) RETURNING {_SAME}, revision, id = ANY(%(kept)s) AS stays)
    INSERT INTO {_JOB} ({_SAME}, revision, lock_owner, lock_expiration_time)
    SELECT {_SAME}, revision + 1,
      CASE WHEN stays THEN %(owner)s::text END, CASE WHEN stays THEN %(until)s::timestamptz END
    FROM gone"""


def move(using: str, ids: Collection[UUID], kept: Collection[UUID], lock: Mapping[str, Any]) -> None:
    """Move blocked jobs, which the caller has locked and no suspension covers, and lock those that are ``kept``."""
    connection, spelled = connections[using], dialect(using)
    parameters = {"owner": lock.get("lock_owner"), "until": lock.get("lock_expiration_time")}
    parameters |= {"ids": spelled.id_list(ids), "kept": spelled.id_list(kept)}
    with spelled.cursor(connection) as cursor:
        cursor.execute(_MOVE, parameters)
