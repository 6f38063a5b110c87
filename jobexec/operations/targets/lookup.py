"""Find a job by its id in any table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import CharField, Value

from jobexec.exceptions import JobNotFound
from jobexec.identifiers import as_id
from jobexec.models import JOB_TABLES, AbstractJob, HistoryJob

_ALL: tuple[type[AbstractJob], ...] = (*JOB_TABLES, HistoryJob)
_TABLES = {table.state: table for table in _ALL}


def find_states(ids: Iterable[UUID], using: str) -> dict[UUID, type[AbstractJob]]:
    """Return the table of each of these jobs, without ids that are in no table.

    One UNION ALL statement is one snapshot: a job that is being moved is found in one of the tables, never in none.
    """
    wanted = list(ids)
    first, *others = (_states(table, wanted, using) for table in _TABLES.values())
    return {pk: _TABLES[state] for pk, state in first.union(*others, all=True)}


def _states(table: type[AbstractJob], ids: list[UUID], using: str) -> Any:
    rows = table._base_manager.using(using).filter(pk__in=ids)
    return rows.annotate(table_state=Value(table.state, output_field=CharField())).values_list("pk", "table_state")


def find_job(id: UUID | str, using: str = "default", *, defer: Sequence[str] = ()) -> AbstractJob:
    """Return the row of this job: a Job, TimerJob, SuspendedJob, DeadLetterJob, ExternalWorkerJob or HistoryJob.

    The columns in ``defer`` are loaded when first accessed. Raises :class:`~jobexec.exceptions.JobNotFound` if the job
    is in no table (done, deleted, or never created), and for texts that are no UUID.
    """
    wanted = as_id(id)
    if wanted is None:
        raise JobNotFound(f"There is no job {id!r}: expected a UUID.")
    # The row may move between the two statements; the next iteration then finds it in its new table.
    for _ in range(1000):
        table = find_states([wanted], using).get(wanted)
        if table is None:
            break
        row = table._base_manager.using(using).filter(pk=wanted).defer(*defer).first()
        if row is not None:
            return row
    raise JobNotFound(f"There is no job {wanted} in {using!r}.")
