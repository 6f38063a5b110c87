"""Find a job by its id in any table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import CharField, QuerySet, Value

from jobexec.exceptions import JobNotFound
from jobexec.identifiers import as_id
from jobexec.models import JOB_TABLES, AbstractJob, HistoryJob, JobLog

_ALL: tuple[type[AbstractJob], ...] = (*JOB_TABLES, HistoryJob)
_TABLES = {table.state: table for table in _ALL}
#: Ids of one statement, which repeats them for each table: SQLite and PostgreSQL limit its parameters.
_PAGE = 500


def find_states(ids: Iterable[UUID], using: str) -> dict[UUID, type[AbstractJob]]:
    """Return the table of each of these jobs, without ids that are in no table.

    One UNION ALL statement is one snapshot: a job that is being moved is found in one of the tables, never in none.
    """
    wanted, found = list(ids), dict[UUID, type[AbstractJob]]()
    for start in range(0, len(wanted), _PAGE):
        first, *others = (_states(table, wanted[start : start + _PAGE], using) for table in _TABLES.values())
        found |= {pk: _TABLES[state] for pk, state in first.union(*others, all=True)}
    return found


def _states(table: type[AbstractJob], ids: list[UUID], using: str) -> Any:
    rows = table._base_manager.using(using).filter(pk__in=ids)
    return rows.annotate(table_state=Value(table.state, output_field=CharField())).values_list("pk", "table_state")


def jobs_beginning_with(digits: str, using: str, limit: int, end: str = "") -> dict[UUID, str]:
    """The first jobs whose ids begin with these hexadecimal digits, and end with others, with their handlers.

    Those in the job log only if there is no other. Each statement reads at most ``limit`` rows along an index; with an
    ``end``, all that begin so.
    """
    found: dict[UUID, str] = {}
    for table in _ALL:
        rows = beginning_with(table._base_manager.using(using), digits, end=end)
        found |= dict(rows.order_by("pk").values_list("pk", "handler_type")[:limit])
    return dict(sorted(found.items())[:limit]) or _logged(digits, using, limit, end)


def _logged(digits: str, using: str, limit: int, end: str) -> dict[UUID, str]:
    """The same in the job log, whose rows are many for each job: one statement for each job."""
    found: dict[UUID, str] = {}
    rows = beginning_with(JobLog.objects.using(using), digits, "job_id", end).order_by("job_id")
    while len(found) < limit and (row := rows.values_list("job_id", "handler_type").first()):
        found[row[0]] = row[1]
        rows = rows.filter(job_id__gt=row[0])
    return found


def beginning_with(rows: QuerySet[Any], digits: str, column: str = "pk", end: str = "") -> QuerySet[Any]:
    """The rows whose UUIDs begin with these hexadecimal digits, a range of an index, and end with at most 12 others.

    MariaDB sorts UUIDs of versions before 6, which are not ours, by other digits, and does not find them by this.
    """
    wanted: dict[str, Any] = {f"{column}__gte": UUID(digits.ljust(32, "0"))}
    wanted[f"{column}__lte"] = UUID(digits.ljust(32, "f"))
    return rows.filter(**wanted, **({f"{column}__endswith": end} if end else {}))


def find_job(id: UUID | str, using: str = "default", *, defer: Sequence[str] = ()) -> AbstractJob:
    """Return the row of this job: a Job, TimerJob, SuspendedJob, DeadLetterJob, ExternalWorkerJob or HistoryJob.

    The columns in ``defer`` are loaded when first accessed. Raises :class:`~jobexec.exceptions.JobNotFound` if the job
    is in no table (done, deleted, or never created), and for a string that is not a UUID.
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
