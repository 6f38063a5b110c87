"""The fast form of what :mod:`~jobexec.operations.acquire.candidates` reads, and defines, where UPDATE returns rows.

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
from ..values.acquired_job import AcquiredJob, ServedJobs, columns_sql
from .cursor import Position
from .statement import JOB, Pair, bounds_of, jobs_of, name_pairs, run_of_pair, union_of_pairs

_INDEX = "jobexec_job_instance"

# The exclusive jobs of these process instances that the scope serves. They are found by the index on process instances,
# whose condition is repeated here.
_OF_INSTANCES = """
exclusive AND process_instance_id <> '' AND {instances} AND {keys} AND {categories} AND {deployments} {bounds}"""

# In no order that an index has, like all of these; see UNINDEXED of the portable form.
_SIBLINGS = """
SELECT {columns} FROM {job} {by_index} WHERE lock_owner IS NULL AND {of_instances}
ORDER BY rank + 0, id LIMIT %(limit)s {skip_locked}"""

_FIRST_LEFT = """
SELECT key, rank, id FROM (
  SELECT {key} AS key, rank, id, row_number() OVER (PARTITION BY {key} ORDER BY rank + 0, id) AS place
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
    spelled, parameters = dialect(using), {"limit": limit}
    bounds = bounds_of(scope, position, parameters)
    name_pairs(pairs, parameters, spelled)
    return _jobs(using, owner, _of_pairs(spelled, len(pairs), bounds, scope.wide, lock), parameters)


def siblings(
    using: str, owner: str, limit: int, scope: ServedJobs, keys: Collection[str], *, lock: bool
) -> list[AcquiredJob]:
    """Read the unlocked exclusive jobs of these process instances by rank, with ``lock`` as in :func:`first`."""
    spelled = dialect(using)
    parameters: dict[str, Any] = {"limit": limit}
    bounds = _name_instances(spelled, scope, keys, parameters)
    return _jobs(using, owner, _of_siblings(spelled, bounds, scope.wide, lock), parameters)


def first_left(
    using: str, owner: str, scope: ServedJobs, keys: Collection[str], page: Collection[UUID]
) -> Mapping[str, tuple[int, int]]:
    """The place in rank order of the first sibling that is not on the page, for each process instance that has one."""
    spelled = dialect(using)
    parameters: dict[str, Any] = {"owner": owner, "page": spelled.id_list(page)}
    bounds = _name_instances(spelled, scope, keys, parameters)
    with spelled.cursor(connections[using], prepared=True) as cursor:
        cursor.execute(_of_first_left(spelled, bounds), parameters)
        return {key: (rank, (id if isinstance(id, UUID) else UUID(id)).int) for key, rank, id in cursor.fetchall()}


def _jobs(using: str, owner: str, statement: str, parameters: dict[str, Any]) -> list[AcquiredJob]:
    with dialect(using).cursor(connections[using], prepared=True) as cursor:
        cursor.execute(statement, parameters)
        return jobs_of(using, owner, cursor.fetchall())


def _name_instances(spelled: Dialect, scope: ServedJobs, keys: Collection[str], parameters: dict[str, Any]) -> str:
    """Add process instances and the scope to the parameters; returns the conditions of the scope on priorities."""
    lists = {
        "keys": keys,
        "instances": set[str]().union(*map(possible_instances, keys)),
        "categories": scope.categories,
        "deployments": ("", *scope.deployments),
    }
    parameters |= {name: spelled.text_list(texts) for name, texts in lists.items()}
    return bounds_of(scope, None, parameters)


@lru_cache(maxsize=64)
def _of_pairs(spelled: Dialect, pairs: int, bounds: str, wide: bool, lock: bool) -> str:
    columns, skip_locked = columns_sql(spelled, wide), spelled.skip_locked if lock else ""
    if not spelled.writes_in_with:
        return f"SELECT * FROM ({union_of_pairs(spelled, columns, pairs, bounds)}) ORDER BY rank, id LIMIT %(limit)s"
    if pairs == 1:
        return f"{run_of_pair(spelled, columns, '%(category)s', '%(deployment)s', bounds)} {skip_locked}"
    run = run_of_pair(spelled, columns, "pair.category", "pair.deployment", bounds)
    return f"""
        SELECT run.* FROM unnest(%(categories)s::text[], %(deployments)s::text[]) AS pair(category, deployment)
        CROSS JOIN LATERAL ({run} {skip_locked}) AS run ORDER BY run.rank, run.id LIMIT %(limit)s"""


@lru_cache(maxsize=64)
def _of_siblings(spelled: Dialect, bounds: str, wide: bool, lock: bool) -> str:
    return _SIBLINGS.format(
        columns=columns_sql(spelled, wide),
        job=JOB,
        by_index=spelled.by_index.format(_INDEX),
        of_instances=_of_instances(spelled, bounds),
        skip_locked=spelled.skip_locked if lock else "",
    )


@lru_cache(maxsize=64)
def _of_first_left(spelled: Dialect, bounds: str) -> str:
    return _FIRST_LEFT.format(
        key=spelled.serial_key(JOB),
        job=JOB,
        by_index=spelled.by_index.format(_INDEX),
        of_instances=_of_instances(spelled, bounds),
        not_on_page=spelled.not_among("page"),
    )


def _of_instances(spelled: Dialect, bounds: str) -> str:
    texts = {
        "instances": "process_instance_id",
        "keys": spelled.serial_key(JOB),
        "categories": "category",
        "deployments": "deployment_id",
    }
    return _OF_INSTANCES.format(
        bounds=bounds, **{name: spelled.text_among(column, f"%({name})s") for name, column in texts.items()}
    )
