"""Jobs come into being here, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction

from jobexec import clock, signals
from jobexec.conf import get_settings
from jobexec.exceptions import InvalidJob
from jobexec.identifiers import uuid7, uuid7s
from jobexec.models import SHARED_COLUMNS, Job, JobType, LogState, TimerJob

from . import history
from .announce import announce
from .created import CreatedJobs, Table, instance
from .insert import insert_row, insert_rows, parameters
from .locking import atomic
from .moments import check_moment
from .ranking import check_priority, rank
from .wake import wake_on_commit

_OPTIONS = frozenset(SHARED_COLUMNS) - {"revision", "lock_owner", "lock_expiration_time", "rank", "start_time"}


def create_job(using: str, *, encoded: str | None = None, **columns: Any) -> Job | TimerJob:
    """Insert one job: executable, or a timer if ``due_date`` lies ahead. Returns the row as saved.

    One INSERT in the caller's transaction: it is rolled back with the caller's data and becomes visible with it. No
    lock row, no suspension and no definition is touched, and no signal of Django's models is sent. Executors are woken
    after commit. ``encoded`` is ``handler_configuration`` as JSON text, if the caller has it. Raises
    :class:`~jobexec.exceptions.InvalidJob` for unknown columns, a naive due date, an unknown category.
    """
    table, columns = _completed(using, columns)
    values = _parameters(using, table, columns, encoded)
    row = instance(using, table, columns)
    logged = history.wants(LogState.CREATED)
    with atomic(using) if logged else transaction.mark_for_rollback_on_error(using):
        insert_row(using, table, values)
        if logged:
            history.write(using, LogState.CREATED, [history.entry(row, LogState.CREATED)])
    _tell(using, table, [row])
    return row  # type: ignore[no-any-return]


def create_jobs(using: str, rows: Iterable[dict[str, Any]]) -> list[Job | TimerJob]:
    """Insert many jobs, each given as columns, in one transaction and few statements; in the order given.

    All rows are built, and so checked, before the first is inserted.
    """
    made = [_completed(using, dict(columns)) for columns in rows]
    # What one statement inserts: a table and the columns that are given.
    groups: dict[tuple[Any, tuple[str, ...]], list[tuple[Any, ...]]] = {}
    for table, columns in made:
        values = parameters(using, table, columns)
        groups.setdefault((table, tuple(values)), []).append(tuple(values.values()))
    jobs = [instance(using, table, columns) for table, columns in made]
    with atomic(using):
        for (table, names), group in groups.items():
            insert_rows(using, table, names, group)
        _log(using, jobs)
        for table in (Job, TimerJob):
            _tell(using, table, [job for job in jobs if type(job) is table])
    return jobs


def create_alike(using: str, configurations: Sequence[str], **columns: Any) -> CreatedJobs:
    """Insert a job for each ``handler_configuration``, given as JSON texts, in one transaction; in the order given.

    All other columns are the same for all, and so are checked and prepared once. All have the same ``create_time``.
    """
    table, columns = _completed(using, columns)
    del columns["id"]
    jobs = CreatedJobs(using, table, columns, uuid7s(len(configurations)), configurations)
    if not jobs:
        return jobs
    rows = [(id.hex, text) for id, text in zip(jobs.ids, configurations, strict=True)]
    with atomic(using):
        insert_rows(using, table, ("id", "handler_configuration"), rows, parameters(using, table, columns))
        _log(using, jobs)
        _tell(using, table, jobs)
    return jobs


def _completed(using: str, columns: dict[str, Any]) -> tuple[Table, dict[str, Any]]:
    """The table of a job and its columns, but for those that have their default; the checks that need no database."""
    if not _OPTIONS.issuperset(columns):
        raise InvalidJob(f"Unknown job columns: {', '.join(sorted(columns.keys() - _OPTIONS))}.")
    settings = get_settings()
    settings.engine(using)
    category = columns.setdefault("category", "default")
    if category not in settings.categories:
        known = ", ".join(settings.categories)
        raise InvalidJob(f"category: expected one of {known} (setting CATEGORIES), got {category!r}.")
    due_date, priority, now = columns.get("due_date"), columns.get("priority", 0), clock.now(using)
    check_moment("due_date", due_date)
    check_priority(priority)
    if settings.deployment:
        columns.setdefault("deployment_id", settings.deployment)
    columns = {"id": uuid7(), "create_time": now, "job_definition_id": columns.get("handler_type", ""), **columns}
    if due_date is not None and due_date > now:
        return TimerJob, {"type": JobType.TIMER, **columns}
    return Job, {"rank": rank(using, due_date or now, priority), **columns}


def _parameters(using: str, table: Table, columns: dict[str, Any], encoded: str | None) -> dict[str, Any]:
    if encoded is None:
        return parameters(using, table, columns)
    values = parameters(using, table, columns | {"handler_configuration": None})
    values["handler_configuration"] = encoded
    return values


def _log(using: str, jobs: Iterable[Job | TimerJob]) -> None:
    if history.wants(LogState.CREATED):
        history.write(using, LogState.CREATED, [history.entry(job, LogState.CREATED) for job in jobs])


def _tell(using: str, table: Table, jobs: Sequence[Job | TimerJob]) -> None:
    # In this order: else an executor in this process may tell that it has acquired what was not told to be created.
    if jobs:
        announce(signals.job_created, using, table, jobs=jobs)
        wake_on_commit(using, timers=table is TimerJob)
