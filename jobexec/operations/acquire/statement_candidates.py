"""The fast form of what :mod:`~jobexec.operations.acquire.candidates` reads, and defines.

Acquisition with exclusive jobs takes three such queries for each page. The ORM takes a millisecond to build each, and
three times as long to read a row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import connections

from jobexec.models.locks import possible_instances

from ..sql.dialect import dialect
from ..sql.portable import Dialect
from ..values.acquired_job import AcquiredJob, ServedJobs, columns_sql, in_order
from .cursor import Position
from .statement import JOB, Pair, bounds_of, jobs_of, name_pairs, run_of_one, run_of_pair, union_of_pairs

_INDEX = "jobexec_job_instance"

# In no order that an index has, like all of these; see UNINDEXED of the portable form.
_SIBLINGS = """
SELECT {columns} FROM {job} {by_index} WHERE lock_owner IS NULL AND {of_instances}
ORDER BY {job}.rank + 0, id LIMIT %(limit)s {skip_locked}"""

_FIRST_LEFT = """
SELECT instance, line.rank, id FROM (
  SELECT {key} AS instance, {job}.rank, id, row_number() OVER (PARTITION BY {key} ORDER BY {job}.rank + 0, id) AS place
  FROM {job} {by_index} WHERE (lock_owner IS NULL OR lock_owner = %(owner)s) AND {of_instances} AND {not_on_page}
) AS line WHERE place = 1"""


def first(
    using: str,
    owner: str,
    limit: int,
    scope: ServedJobs,
    pairs: Sequence[Pair],
    position: Position | None,
    *,
    lock: bool,
) -> list[AcquiredJob]:
    """Read the first jobs of these pairs in rank order; with ``lock``, locked for the transaction, if not by others."""
    spelled = dialect(using)
    # The parts of a UNION cannot lock their rows.
    most = 1 if lock and spelled.skip_locked and not spelled.writes_in_with else spelled.most_pairs
    found: list[AcquiredJob] = []
    for start in range(0, len(pairs), most):
        those, parameters = pairs[start : start + most], dict[str, Any](limit=limit)
        bounds = bounds_of(scope, position, parameters)
        name_pairs(those, parameters, spelled)
        found += _jobs(using, owner, _of_pairs(spelled, len(those), bounds, scope.wide, lock), parameters)
    return found if len(pairs) <= most else sorted(found, key=in_order)[:limit]


def siblings(
    using: str, owner: str, limit: int, scope: ServedJobs, keys: Collection[str], *, lock: bool
) -> list[AcquiredJob]:
    """Read the unlocked exclusive jobs of these process instances by rank, with ``lock`` as in :func:`first`."""
    spelled = dialect(using)
    parameters: dict[str, Any] = {"limit": limit}
    conditions = _of_instances(spelled, scope, keys, parameters)
    return _jobs(using, owner, _of_siblings(spelled, conditions, scope.wide, lock), parameters)


def first_left(
    using: str, owner: str, scope: ServedJobs, keys: Collection[str], page: Collection[UUID]
) -> Mapping[str, tuple[int, int]]:
    """The place in rank order of the first sibling that is not on the page, for each process instance that has one."""
    spelled = dialect(using)
    parameters: dict[str, Any] = {"owner": owner, "page": spelled.id_list(page)}
    conditions = _of_instances(spelled, scope, keys, parameters)
    with spelled.cursor(connections[using], prepared=True) as cursor:
        cursor.execute(_of_first_left(spelled, conditions), parameters)
        return {key: (rank, (id if isinstance(id, UUID) else UUID(id)).int) for key, rank, id in cursor.fetchall()}


def _jobs(using: str, owner: str, statement: str, parameters: dict[str, Any]) -> list[AcquiredJob]:
    with dialect(using).cursor(connections[using], prepared=True) as cursor:
        cursor.execute(statement, parameters)
        return jobs_of(using, owner, cursor.fetchall())


def _of_instances(spelled: Dialect, scope: ServedJobs, keys: Collection[str], parameters: dict[str, Any]) -> str:
    """The conditions for the exclusive jobs of these process instances that the scope serves; adds their parameters."""
    possible = [possible_instances(key) for key in keys]
    lists = {
        "process_instance_id": ("instances", set[str]().union(*possible)),
        "category": ("categories", scope.categories),
        "deployment_id": ("deployments", ("", *scope.deployments)),
    }
    terms = ["exclusive", "process_instance_id <> ''"]  # the condition of the partial index, by which they are found
    if all(len(instances) == 1 for instances in possible):
        # Without tenants a key is the id. Comparing each row with a list of keys takes longer than all of the rest.
        terms.append("tenant_id = ''")
    else:
        lists[spelled.serial_key(JOB)] = "keys", keys
    terms += [spelled.among_texts(column, texts, name, parameters) for column, (name, texts) in lists.items()]
    return " AND ".join(terms) + bounds_of(scope, None, parameters)


@lru_cache(maxsize=64)
def _of_pairs(spelled: Dialect, pairs: int, bounds: str, wide: bool, lock: bool) -> str:
    columns, skip_locked = columns_sql(spelled, wide), spelled.skip_locked if lock else ""
    if pairs == 1:
        return f"{run_of_one(spelled, columns, bounds)} {skip_locked}"
    if not spelled.writes_in_with:
        union = union_of_pairs(spelled, columns, pairs, bounds)
        return f"SELECT * FROM ({union}) AS run ORDER BY run.rank, id LIMIT %(limit)s"
    run = run_of_pair(spelled, columns, "pair.category", "pair.deployment", bounds)
    return f"""
        SELECT run.* FROM unnest(%(categories)s::text[], %(deployments)s::text[]) AS pair(category, deployment)
        CROSS JOIN LATERAL ({run} {skip_locked}) AS run ORDER BY run.rank, run.id LIMIT %(limit)s"""


@lru_cache(maxsize=64)
def _of_siblings(spelled: Dialect, conditions: str, wide: bool, lock: bool) -> str:
    return _SIBLINGS.format(
        columns=columns_sql(spelled, wide),
        job=JOB,
        by_index=spelled.by_index.format(_INDEX),
        of_instances=conditions,
        skip_locked=spelled.skip_locked if lock else "",
    )


@lru_cache(maxsize=64)
def _of_first_left(spelled: Dialect, conditions: str) -> str:
    return _FIRST_LEFT.format(
        key=spelled.serial_key(JOB),
        job=JOB,
        by_index=spelled.by_index.format(_INDEX),
        of_instances=conditions,
        not_on_page=spelled.not_among("page"),
    )
