"""Jobs come into being here, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jobexec import clock, signals
from jobexec.conf import get_settings
from jobexec.exceptions import InvalidJob
from jobexec.models import SHARED_COLUMNS, Job, JobType, LogState, TimerJob

from . import history
from .announce import announce
from .locking import atomic
from .moments import check_moment
from .ranking import check_priority, rank
from .wake import wake_on_commit

_BATCH = 1000
_OPTIONS = frozenset(SHARED_COLUMNS) - {"revision", "lock_owner", "lock_expiration_time", "rank", "start_time"}


def create_job(using: str, **columns: Any) -> Job | TimerJob:
    """Insert one job: executable, or a timer if ``due_date`` lies ahead. Returns the row as saved.

    One INSERT in the caller's transaction: it is rolled back with the caller's data and becomes visible with it. No
    lock row, no suspension and no definition is touched. Executors are woken after commit. Raises
    :class:`~jobexec.exceptions.InvalidJob` for unknown columns, a naive due date, an unknown category.
    """
    row = build_job(using, **columns)
    if history.wants(LogState.CREATED):
        with atomic(using):
            row.save(using=using, force_insert=True)
            history.write(using, LogState.CREATED, [history.entry(row, LogState.CREATED)])
    else:
        row.save(using=using, force_insert=True)
    # In this order: else an executor in this process may tell that it has acquired what was not told to be created.
    announce(signals.job_created, using, type(row), jobs=[row])
    wake_on_commit(using, timers=isinstance(row, TimerJob))
    return row


def create_jobs(using: str, rows: Iterable[dict[str, Any]]) -> list[Job | TimerJob]:
    """Insert many jobs, each given as columns, in one transaction and few statements; in the order given.

    All rows are built, and so checked, before the first is inserted.
    """
    jobs = [build_job(using, **columns) for columns in rows]
    with atomic(using):
        for table in (Job, TimerJob):
            mine: list[Any] = [job for job in jobs if type(job) is table]
            if mine:
                table._base_manager.using(using).bulk_create(mine, batch_size=_BATCH)
                announce(signals.job_created, using, table, jobs=mine)
        if history.wants(LogState.CREATED):
            history.write(using, LogState.CREATED, [history.entry(job, LogState.CREATED) for job in jobs])
        for table in {type(job) for job in jobs}:
            wake_on_commit(using, timers=table is TimerJob)
    return jobs


def build_job(using: str, **columns: Any) -> Job | TimerJob:
    """The row that :func:`create_job` would insert, not saved; the checks that need no database happen here."""
    unknown = columns.keys() - _OPTIONS
    if unknown:
        raise InvalidJob(f"Unknown job columns: {', '.join(sorted(unknown))}.")
    settings = get_settings()
    settings.engine(using)
    category = columns.setdefault("category", "default")
    if category not in settings.categories:
        known = ", ".join(settings.categories)
        raise InvalidJob(f"category: expected one of {known} (setting CATEGORIES), got {category!r}.")
    now = clock.now(using)
    due_date = columns.get("due_date")
    check_moment("due_date", due_date)
    check_priority(columns.get("priority", 0))
    columns.setdefault("create_time", now)
    columns.setdefault("deployment_id", settings.deployment or "")
    columns.setdefault("job_definition_id", columns.get("handler_type", ""))
    if due_date is not None and due_date > now:
        return _instance(TimerJob, using, columns, type=JobType.TIMER)  # type: ignore[no-any-return]
    order = rank(using, due_date or now, columns.get("priority", 0))
    return _instance(Job, using, columns, rank=order)  # type: ignore[no-any-return]


def _instance(table: type[Any], using: str, columns: dict[str, Any], **defaults: Any) -> Any:
    row = table(**defaults | columns)
    row._state.db = using
    return row
