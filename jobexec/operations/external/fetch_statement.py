"""The fast form of fetching external jobs: one statement finds, locks and returns a page of plain jobs.

For PostgreSQL and SQLite. A job is not plain if it is exclusive, has missed its deadline, was cancelled, has local
variables or a resource whose breaker is not closed. If the page contains such a job, or there is any suspension at all,
nothing is locked, and the portable form decides.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections

from jobexec import clock
from jobexec.models import BreakerState, ExternalWorkerJob, Resource, Suspension

from ..sql.dialect import dialect
from ..sql.locks import returns_rows
from ..sql.portable import Dialect
from .activated import Grant, activated
from .types import ActivatedJob, Fetch

_CONDITIONS = ("business_key", "process_instance_id", "process_definition_ids", "process_definition_keys")


def is_possible(using: str, fetch: Fetch) -> bool:
    """Return whether the database supports it, and the fetch has none of the conditions that only Camunda 7 has."""
    plain = all(getattr(fetch, name) is None for name in _CONDITIONS) and not fetch.process_variables
    return plain and returns_rows(using)


def lock_plain_page(using: str, fetch: Fetch, tenants: Sequence[str] | None, grant: Grant) -> list[ActivatedJob]:
    """Lock and return the page; empty if there are no jobs, or not only plain jobs."""
    connection, spelled = connections[using], dialect(using)
    adapt = connection.ops.adapt_datetimefield_value
    values = _values(using, fetch, tenants) | {
        "limit": grant.limit,
        "worker": fetch.worker,
        "deadline": adapt(grant.deadline),
        "token": grant.token,
    }
    statement = _statement(spelled, tenants is not None, bool(grant.token))
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows = [_Row(*row) for row in cursor.fetchall()]
    rows.sort(key=lambda row: (row.rank, str(row.id)))
    return [_activated(row, fetch, grant) for row in rows]


def any_available(using: str, fetch: Fetch, tenants: Sequence[str] | None, *, leased: bool) -> bool:
    """Return whether there is a job for this fetch, plain or not, even if others have just locked it.

    A worker without work asks with each poll, and to build the queries of the portable form takes milliseconds.
    """
    with connections[using].cursor() as cursor:
        cursor.execute(_any(dialect(using), tenants is not None, leased), _values(using, fetch, tenants))
        return bool(cursor.fetchone()[0])


def _values(using: str, fetch: Fetch, tenants: Sequence[str] | None) -> dict[str, Any]:
    """The parameters of :func:`_conditions`, and the time."""
    now = connections[using].ops.adapt_datetimefield_value(clock.now(using))
    values: dict[str, Any] = {"type": fetch.type, "now": now}
    if tenants is not None:
        values["tenants"] = dialect(using).text_list(tenants)
    return values


class _Row(NamedTuple):
    """A row that the statement returns; the fields are columns."""

    id: Any
    rank: int
    job_key: int
    retries: int
    priority: int
    handler_configuration: str
    custom_headers: str
    tenant_id: str
    process_instance_id: str
    root_process_instance_id: str
    process_definition_id: str
    process_definition_key: str
    execution_id: str
    create_time: Any
    exception_message: str
    exception_stack: str


def _activated(row: _Row, fetch: Fetch, grant: Grant) -> ActivatedJob:
    return activated(
        row,
        fetch,
        grant,
        id=row.id if isinstance(row.id, UUID) else UUID(row.id),
        create_time=_moment(row.create_time),
        configuration=json.loads(row.handler_configuration),
        headers=json.loads(row.custom_headers),
    )


def _moment(value: Any) -> datetime:
    # SQLite returns the text that Django wrote, which is in UTC.
    found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


_NEVER_LEASED = "lease_token = ''"


def _conditions(spelled: Dialect, of_tenants: bool, leased: bool) -> str:
    """The conditions for the jobs that a fetch may return, once they are available."""
    conditions = ["handler_type = %(type)s"]
    if of_tenants:
        conditions.append(spelled.text_among("tenant_id", "%(tenants)s"))
    if not leased:
        conditions.append(_NEVER_LEASED)
    return " AND ".join(conditions)


@cache
def _any(spelled: Dialect, of_tenants: bool, leased: bool) -> str:
    rows = f"SELECT 1 FROM {ExternalWorkerJob._meta.db_table} WHERE {_conditions(spelled, of_tenants, leased)}"
    return f"SELECT EXISTS ({rows} AND available_at <= %(now)s) OR EXISTS ({rows} AND available_at IS NULL)"


@cache
def _statement(spelled: Dialect, of_tenants: bool, leased: bool) -> str:
    table, suspensions = ExternalWorkerJob._meta.db_table, Suspension._meta.db_table
    limited = f"""SELECT 1 FROM {Resource._meta.db_table} AS held WHERE held.name = {table}.resource
        AND (held.breaker_state <> '{BreakerState.CLOSED}' OR held.hold <> '')"""
    conditions = _conditions(spelled, of_tenants, leased)
    has_locals = spelled.has_json_key("handler_configuration", "local")
    plain = f"""lock_owner IS NULL AND NOT cancel_requested AND NOT suspend_requested
        AND (NOT exclusive OR process_instance_id = '') AND NOT ({has_locals})
        AND (resource IS NULL OR NOT EXISTS ({limited}))
        {f"AND {_NEVER_LEASED}" if leased else ""}"""

    def run(available: str) -> str:
        # Also by available_at where it is NULL in all rows: otherwise PostgreSQL does not use the index's order.
        return f"""SELECT * FROM (
            SELECT id, rank, CASE WHEN {plain} THEN 1 ELSE 0 END AS plain FROM {table}
            WHERE {conditions} AND {available}
            ORDER BY available_at, rank, id LIMIT %(limit)s {spelled.skip_locked}) AS part"""

    alias = "job." if spelled.writes_in_with else ""  # SQLite's RETURNING takes the columns without the table's alias
    returned = ", ".join(f"{alias}{name}" for name in _Row._fields)
    return f"""
        WITH page AS {spelled.materialized} (
          SELECT id, plain FROM (
            {run("available_at <= %(now)s")} UNION ALL {run("available_at IS NULL")}) AS both_parts
          ORDER BY rank, id LIMIT %(limit)s)
        UPDATE {table} AS job SET lock_owner = %(worker)s, lock_expiration_time = %(deadline)s,
          available_at = %(deadline)s, lease_token = %(token)s, due_date = NULL,
          attempts = attempts + 1, revision = revision + 1
        FROM page WHERE job.id = page.id AND (SELECT min(plain) FROM page) = 1
          AND NOT EXISTS (SELECT 1 FROM {suspensions} WHERE live)
        RETURNING {returned}"""
