"""Acquisition of plain jobs by ids in one statement, where UPDATE can return rows.

Other jobs are left to the portable form, which defines what acquisition means.
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
from ..sql.dialect import dialect
from ..sql.locks import returns_rows
from ..sql.portable import Dialect
from ..values.acquired_job import AcquiredJob, ServedJobs
from .statement import JOB, Locked, bounds_of, plain_of, read, unlock_page, update

# Without order and limit, so that every planner uses the ids and not the acquisition index.
_THOSE = f"""
SELECT id FROM {JOB} WHERE {{among}} AND lock_owner IS NULL AND NOT suspend_requested
AND NOT (exclusive AND process_instance_id <> '') AND {{pairs}} {{bounds}}"""


def lock_plain_ids(
    using: str, owner: str, ids: Collection[UUID], scope: ServedJobs, until: datetime
) -> list[AcquiredJob] | None:
    """Lock those of these jobs that are plain, and return them in order, as they are after locking.

    None if the database requires the portable form. Commits on its own, or joins the caller's transaction.
    """
    connection, spelled = connections[using], dialect(using)
    if not returns_rows(using):
        return None
    adapt = connection.ops.adapt_datetimefield_value
    parameters: dict[str, Any] = {"owner": owner, "until": adapt(until), "now": adapt(clock.now(using))}
    parameters["ids"] = spelled.id_list(ids)
    bounds = bounds_of(scope, None, parameters)
    categories, deployments = scope.categories, ("", *scope.deployments)
    for name, values in (("category", categories), ("deployment", deployments)):
        parameters |= {f"{name}{number}": value for number, value in enumerate(values)}
    statement = _statement(spelled, len(categories), len(deployments), bounds, scope.wide)
    try:
        locked = _execute(using, owner, statement, parameters)
    except UNREADABLE:  # one row is unreadable; all are locked by now, and committed
        unlock_page(using, owner, until, pk__in=ids)
        return []
    return plain_of(using, owner, locked, until).jobs


def _execute(using: str, owner: str, statement: str, parameters: dict[str, Any]) -> Locked:
    with dialect(using).cursor(connections[using]) as cursor:
        cursor.execute(statement, parameters)
        return read(using, owner, cursor.fetchall())


@lru_cache(maxsize=64)
def _statement(spelled: Dialect, categories: int, deployments: int, bounds: str, wide: bool) -> str:
    pairs = f"category IN ({_names('category', categories)}) AND deployment_id IN ({_names('deployment', deployments)})"
    those = _THOSE.format(among=spelled.among("ids"), pairs=pairs, bounds=bounds)
    return update(spelled, "id", f"{those} {spelled.skip_locked}", wide)


def _names(name: str, count: int) -> str:
    return ", ".join(f"%({name}{number})s" for number in range(count))
