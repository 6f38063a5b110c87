"""Acquisition by ids in one statement, where UPDATE can return rows: plain jobs.

What is not plain is left to the portable form, which defines what acquisition means.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import connections

from jobexec import clock

from ..rows.bury_unreadable import UNREADABLE
from ..sql.binary import binary_cursor
from ..sql.id_list import among, as_parameter
from ..sql.locks import returns_rows
from ..values.acquired_job import AcquiredJob, ServedJobs
from .statement import JOB, SUSPENSIONS, UPDATE, Locked, bounds_of, configuration, plain_of, read, unlock_page

# By their ids and not by the acquisition index, whatever the planner thinks of it: no order, no limit.
_THOSE = f"""
SELECT id FROM {JOB} WHERE {{among}} AND lock_owner IS NULL AND NOT suspend_requested
AND NOT (exclusive AND process_instance_id <> '') AND {{pairs}} {{bounds}}"""


def lock_plain_ids(
    using: str, owner: str, ids: Collection[UUID], scope: ServedJobs, until: datetime
) -> list[AcquiredJob] | None:
    """Lock those of these jobs that are plain, and return them in order, as they are now.

    None if the database asks for the portable form. Commits by itself, or is a part of the caller's transaction.
    """
    connection = connections[using]
    vendor = connection.vendor
    if not returns_rows(using) or vendor not in ("postgresql", "sqlite"):
        return None
    adapt = connection.ops.adapt_datetimefield_value
    parameters: dict[str, Any] = {"owner": owner, "until": adapt(until), "now": adapt(clock.now(using))}
    parameters["ids"] = as_parameter(vendor, ids)
    bounds = bounds_of(scope, None, parameters)
    categories, deployments = scope.categories, ("", *scope.deployments)
    for name, values in (("category", categories), ("deployment", deployments)):
        parameters |= {f"{name}{number}": value for number, value in enumerate(values)}
    statement = _statement(vendor, len(categories), len(deployments), bounds, scope.wide)
    try:
        locked = _execute(using, owner, vendor, statement, parameters)
    except UNREADABLE:  # one of them; all are locked by now, and committed
        unlock_page(using, owner, until, pk__in=ids)
        return []
    return plain_of(using, owner, locked, until).jobs


def _execute(using: str, owner: str, vendor: str, statement: str, parameters: dict[str, Any]) -> Locked:
    with connections[using].cursor() if vendor == "sqlite" else binary_cursor(using) as cursor:
        cursor.execute(statement, parameters)
        return read(using, owner, cursor.fetchall())


@lru_cache(maxsize=64)
def _statement(vendor: str, categories: int, deployments: int, bounds: str, wide: bool) -> str:
    pairs = f"category IN ({_names('category', categories)}) AND deployment_id IN ({_names('deployment', deployments)})"
    those = _THOSE.format(among=among(vendor, "ids"), pairs=pairs, bounds=bounds)
    # Once, before anything is changed: a list, and not a join that the planner may turn round.
    chosen = f"IN ({those})" if vendor == "sqlite" else f"= ANY(ARRAY({those} FOR UPDATE SKIP LOCKED))"
    return UPDATE.format(
        page=f"id {chosen}",
        job=JOB,
        columns=", ".join(AcquiredJob.COLUMNS),
        configuration=configuration(vendor, wide),
        suspensions=SUSPENSIONS,
    )


def _names(name: str, count: int) -> str:
    return ", ".join(f"%({name}{number})s" for number in range(count))
