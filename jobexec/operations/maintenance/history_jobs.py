"""HistoryJobs: handled and deleted in one transaction, so that each is written exactly once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, Protocol
from uuid import UUID

from django.db import connections, transaction
from django.db.models import QuerySet
from django.db.transaction import TransactionManagementError

from jobexec import clock, signals
from jobexec.exceptions import UnreadableJob
from jobexec.models import DeadLetterJob, HistoryJob, LogState

from ..history import job_log
from ..notify.signals import announce
from ..rows.bury_unreadable import UNREADABLE, bury_unreadable
from ..rows.move import move_all
from ..settle.verdict import decide
from ..sql.delete import delete_rows
from ..sql.errors import one_line
from ..sql.locks import atomic, lock_rows
from ..values.failure import Failure, fingerprint_of
from ..values.run import Run, timing

logger = logging.getLogger("jobexec.history")

_NEEDED = ("id", "handler_type", "handler_configuration", "create_time", "tenant_id", "process_instance_id")


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """One record as passed to ``record_history``, with its metadata.

    ``data`` is its JSON. ``job_id`` is the same for all records of one call, also after a failure: together with its
    position among them it identifies a record. ``using`` is the database of the transaction.
    """

    data: Any
    create_time: datetime
    tenant_id: str
    process_instance_id: str
    job_id: UUID
    using: str


class _Beginning:
    """The time at which a transaction began."""

    def __init__(self, using: str) -> None:
        self.at, self.counter = clock.now(using), clock.monotonic()


class Writer(Protocol):
    """The interface to the history handlers."""

    node_name: str

    def write(self, handler_type: str, records: list[HistoryRecord]) -> None:
        """Call the handler with the records. Raises its exceptions, and HandlerNotFound."""
        ...

    def failure_of(self, handler_type: str, error: BaseException) -> Failure:
        """Convert an error to a failure of the job. Never raises."""
        ...


def next_history_date(using: str) -> datetime | None:
    """Return when the next HistoryJob is due; None if there is none."""
    rows = HistoryJob.objects.using(using).filter(due_date__isnull=False)
    return rows.order_by("due_date", "id").values_list("due_date", flat=True).first()


def write_history(using: str, limit: int, writer: Writer) -> int:
    """Pass at most ``limit`` due rows to ``writer`` in one transaction; return the number of rows read.

    Rows that another node is just writing are skipped. A handler gets all its rows together. If it fails, it gets them
    one by one, each under a savepoint, and rows that fail alone lose a retry or become dead letters of type
    ``history``. If the whole transaction is rolled back (a conflict, a constraint at its commit), each of its rows is
    retried in its own. An unavailable database costs no retry; its error is raised.
    """
    due = _due(using).order_by("due_date", "id")[:limit]
    try:
        return _write(using, due, writer)
    except UnreadableJob:
        count = bury_unreadable(using, HistoryJob)
        if not count:
            raise
        return count
    except BaseException as error:
        text = "Writing history on %s failed (%s: %s); retrying one by one"
        logger.warning(text, using, type(error).__name__, one_line(error))
    ids = list(due.values_list("pk", flat=True))
    for pk in ids:
        _write_alone(using, pk, writer)
    return len(ids)


def _due(using: str) -> QuerySet[HistoryJob]:
    return HistoryJob.objects.using(using).filter(due_date__lte=clock.now(using))


def _write_alone(using: str, pk: UUID, writer: Writer) -> None:
    began, row = _Beginning(using), _due(using).filter(pk=pk)
    try:
        try:
            _write(using, row, writer)
        except UnreadableJob:
            raise
        except BaseException as error:
            # The rolled back transaction cannot record the failure, so another does. If the database is unavailable,
            # this raises again.
            with atomic(using):
                kept = _read(lock_rows(row, skip_locked=True))
                _fail(using, [(each, writer.failure_of(each.handler_type, error)) for each in kept], began, writer)
    except UnreadableJob:
        if not bury_unreadable(using, HistoryJob, pk=pk):
            raise


def _write(using: str, rows: QuerySet[HistoryJob], writer: Writer) -> int:
    began = _Beginning(using)
    with atomic(using):
        # In the order of their handlers, then of their ids, which is that of their recording.
        page = sorted(
            _read(lock_rows(rows.only(*_NEEDED), skip_locked=True)), key=lambda row: (row.handler_type, row.pk)
        )
        failures: dict[UUID, Failure] = {}
        for handler_type, group in groupby(page, key=lambda row: row.handler_type):
            failures |= _write_group(using, handler_type, list(group), writer)
        written = [row.pk for row in page if row.pk not in failures]
        if written:
            delete_rows(HistoryJob.objects.using(using).filter(pk__in=written))
        if failures:
            failed = _read(HistoryJob.objects.using(using).filter(pk__in=failures))
            _fail(using, [(row, failures[row.pk]) for row in failed], began, writer)
    return len(page)


def _read(rows: QuerySet[HistoryJob]) -> list[HistoryJob]:
    try:
        return list(rows)
    except UNREADABLE as error:
        raise UnreadableJob(str(error)) from error


def _write_group(using: str, handler_type: str, rows: list[HistoryJob], writer: Writer) -> dict[UUID, Failure]:
    """Write the rows of one handler together, and one by one if that fails; return the failures by id."""
    error = _error_of(using, handler_type, rows, writer)
    if error is None:
        return {}
    failure = writer.failure_of(handler_type, error)
    if len(rows) == 1 or failure.kind == "unknown":
        return {row.pk: failure for row in rows}
    alone = ((row.pk, _error_of(using, handler_type, [row], writer)) for row in rows)
    return {pk: writer.failure_of(handler_type, error) for pk, error in alone if error is not None}


def _error_of(using: str, handler_type: str, rows: list[HistoryJob], writer: Writer) -> BaseException | None:
    connection = connections[using]
    try:
        with transaction.atomic(using=using):
            writer.write(handler_type, [record for row in rows for record in _records(row, using)])
            if connection.needs_rollback:
                # Django would roll back without an error, and the records would be lost.
                raise TransactionManagementError("The handler continued after a database error.")
    except BaseException as error:
        if connection.needs_rollback or not connection.in_atomic_block:
            raise  # the savepoint is gone: the connection is lost, or the database has rolled back everything
        return error
    return None


def _records(row: HistoryJob, using: str) -> Iterator[HistoryRecord]:
    configuration = row.handler_configuration
    records = configuration.get("records") if isinstance(configuration, dict) else None
    if not isinstance(records, list):
        raise UnreadableJob(f"Expected an object with a list of records, got {str(configuration)[:200]}.")
    for data in records:
        yield HistoryRecord(data, row.create_time, row.tenant_id, row.process_instance_id, row.pk, using)


def _fail(using: str, failed: Iterable[tuple[HistoryJob, Failure]], began: _Beginning, writer: Writer) -> None:
    """Postpone rows that this transaction has locked, or make them dead letters."""
    now, log = clock.now(using), []
    run = Run(began.at, clock.monotonic() - began.counter, writer.node_name)
    for row, failure in failed:
        verdict = decide(row, failure, now)
        due_date, fingerprint = row.due_date, fingerprint_of(row, failure)
        if verdict.due_date is None:
            _bury(row, verdict.columns | {"fingerprint": fingerprint, "died_at": now}, failure)
        else:
            HistoryJob.objects.using(using).filter(pk=row.pk).update(**verdict.columns, revision=row.revision + 1)
        for name, value in verdict.changes.items():
            setattr(row, name, value)
        if failure.counts or verdict.due_date is None:
            told: dict[str, Any] = {"exception_message": row.exception_message, "exception_stack": row.exception_stack}
            told |= {"due_date": due_date, "fingerprint": fingerprint, **timing(row, run)}
            log.append(job_log.entry(row, LogState.FAILED, **told))
    job_log.write(using, LogState.FAILED, log)


def _bury(row: HistoryJob, changes: dict[str, Any], failure: Failure) -> None:
    using = row._state.db or "default"
    logger.error(
        "History of %s (%s) cannot be written: %s", one_line(row.handler_type), row.pk, one_line(failure.message)
    )
    for dead in move_all([row], DeadLetterJob, **changes):
        announce(signals.job_dead_lettered, using, DeadLetterJob, job=dead, error=failure.error)
