"""Pass permits on: the jobs that end and those that get their permits, in one transaction, where WITH can write.

As many jobs begin as have ended, so the permits need not be counted under a lock for the limit to hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from django.db import connections

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.models import SHARED_COLUMNS, BlockedJob, Job, Resource

from ..rows.fencing import UNLOCKED
from ..rows.suspension_cover import IN_FORCE
from ..sql.dialect import dialect
from ..sql.portable import Dialect
from ..values.acquired_job import AcquiredJob, columns_sql, in_order
from .limits import PERMITS, entries_of
from .promote import Home


def is_possible(using: str) -> bool:
    """Whether this database has the statement."""
    return dialect(using).writes_in_with


def pass_on(using: str, freed: Mapping[str, int], home: Home) -> tuple[list[AcquiredJob], list[AcquiredJob]]:
    """Promote up to ``freed`` blocked jobs of each resource, in the transaction that has returned so many permits.

    Returns the jobs that ``home`` takes, and others that are locked for it, too. A resource is left alone that another
    transaction has locked, that an operator has changed, or whose next jobs take more than a move; all of them while a
    suspension is in force. The caller looks at the resources of which fewer jobs are moved. None may have a rate or a
    breaker in the settings.
    """
    connection, spelled, known, entries = (
        connections[using],
        dialect(using),
        get_settings().resources,
        entries_of(freed),
    )
    names = [*freed]
    covering = [entries.get(name, name) for name in names]
    parameters = {
        "names": names,
        "counts": [*freed.values()],
        "entries": covering,
        "limits": [known[entry].limit for entry in covering],
        "now": connection.ops.adapt_datetimefield_value(clock.now(using)),
        "owner": home.lock["lock_owner"],
        "until": connection.ops.adapt_datetimefield_value(home.lock["lock_expiration_time"]),
    }
    with spelled.cursor(connection, prepared=True) as cursor:
        cursor.execute(_statement(spelled, home.wide), parameters)
        found = [(AcquiredJob(using, parameters["owner"], *row), deployment) for deployment, *row in cursor.fetchall()]
    taken: tuple[list[AcquiredJob], list[AcquiredJob]] = [], []
    for job, deployment in sorted(found, key=lambda each: in_order(each[0])):
        taken[0 if home.takes(job, deployment) else 1].append(job)
    return taken


_RESOURCE, _BLOCKED, _JOB = (model._meta.db_table for model in (Resource, BlockedJob, Job))
_SAME = ", ".join(name for name in SHARED_COLUMNS if name not in {*UNLOCKED, "revision"})
_USED = " + ".join(f"(SELECT count(*) FROM {each._meta.db_table} WHERE resource = wanted.name)" for each in PERMITS)


@lru_cache(maxsize=8)
def _statement(spelled: Dialect, wide: bool) -> str:
    # The limit counts here only if it has been lowered: then fewer jobs begin than have ended.
    return f"""
        WITH wanted AS (
          SELECT * FROM unnest(%(names)s::text[], %(counts)s::int[], %(entries)s::text[], %(limits)s::int[])
          AS wanted(name, count, entry, most)),
        own AS MATERIALIZED (SELECT * FROM {_RESOURCE} WHERE name = ANY(%(names)s::text[]) {spelled.skip_locked}),
        free AS MATERIALIZED (
          SELECT wanted.name, least(count, nullif(coalesce(own.limit, entry.limit, most), 0) - ({_USED})) AS count
          FROM wanted JOIN own ON own.name = wanted.name
          LEFT JOIN {_RESOURCE} entry ON entry.name = wanted.entry
          WHERE own.hold = '' AND own.rate = '' AND coalesce(entry.rate, '') = '' AND NOT {IN_FORCE}),
        line AS MATERIALIZED (
          SELECT id, special FROM free CROSS JOIN LATERAL (
            SELECT id, job_key IS NOT NULL OR suspend_requested OR (exclusive AND process_instance_id <> '') AS special
            FROM {_BLOCKED} WHERE resource = free.name AND waits_for IS NULL
            ORDER BY waits_for, rank, id LIMIT greatest(free.count, 0) {spelled.skip_locked}) AS first),
        gone AS (
          DELETE FROM {_BLOCKED}
          WHERE id = ANY(ARRAY(SELECT id FROM line)) AND NOT EXISTS (SELECT 1 FROM line WHERE special) RETURNING *),
        counted AS (
          UPDATE {_RESOURCE} SET promoted = promoted + moved.count
          FROM (SELECT resource, count(*) AS count FROM gone GROUP BY resource) AS moved WHERE name = moved.resource)
        INSERT INTO {_JOB} ({_SAME}, revision, lock_owner, lock_expiration_time)
        SELECT {_SAME}, revision + 1, %(owner)s::text, %(until)s::timestamptz FROM gone
        RETURNING deployment_id, {columns_sql(spelled, wide)}"""
