"""The state and result of a task or of a job that keeps its result, from its job and its attempts, in one query."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import CharField, DateTimeField, F, IntegerField, TextField, Value
from django.db.models.functions import Cast, Coalesce

from jobexec.conf import get_settings
from jobexec.encryption import unseal, unseal_result
from jobexec.identifiers import as_id
from jobexec.models import JOB_TABLES, AbstractJob, ExternalWorkerJob, JobType, ResultStatus, TaskResult


@dataclass(frozen=True, slots=True)
class TaskSight:
    """A task in the terms of django.tasks.

    ``status`` is READY (it waits: for a thread, a time, a retry, or its activation), RUNNING (a node holds it), FAILED
    (a dead letter, cancelled or deleted) or SUCCESSFUL. ``errors`` are dicts with ``exception_class_path`` and
    ``traceback``; ``worker_ids`` has the node of each attempt, including a running one. For a running attempt, the time
    when the job was locked is known, which is slightly earlier than its start. A queue has the name of its category,
    unless the arguments name another.
    """

    id: UUID
    backend: str
    handler_type: str
    status: str
    args: list[Any]
    kwargs: dict[str, Any]
    priority: int
    category: str
    queue_name: str
    run_after: datetime | None
    enqueued_at: datetime | None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    last_attempted_at: datetime | None = None
    errors: list[dict[str, str]] = field(default_factory=list)
    worker_ids: list[str] = field(default_factory=list)
    return_value: Any = None


def find_task_result(id: UUID | str, using: str) -> TaskSight | None:
    """The task with this id; None if it never existed, is not a task, or ended longer than RESULT_TTL ago.

    One statement over the job tables and the results, hence one snapshot: each end of an attempt is one commit, so a
    job that is just ending is always found, and an attempt is never seen both as running and as ended.

    Raises :class:`~jobexec.exceptions.DecryptionFailed` and :class:`~jobexec.exceptions.NotDecryptableYet` for an
    encrypted task that this process cannot read.
    """
    wanted = as_id(id)
    if wanted is None:
        return None
    found = [_Look(*row) for row in _rows(wanted, using)]
    result = next((look for look in found if look.place in ResultStatus.values), None)
    living = next((look for look in found if look.place not in ResultStatus.values), None)
    if living is not None and living.backend:
        return _alive(living, result, using)
    # READY without a job: the function has stopped keeping results between two attempts.
    return None if result is None or result.place == ResultStatus.READY else _over(result)


@dataclass(slots=True)
class _Look:
    """A row of a job table or of the results, in the union's columns, whose meaning depends on the table."""

    place: str  # the state of the job table, or the status of the result
    id: UUID
    backend: str
    handler_type: str
    arguments: str
    category: str
    priority: int
    create_time: datetime
    due: datetime | None
    begun: datetime | None  # start marker of a suspect | first attempt
    until: datetime | None  # lock expiration time | last attempt
    end: datetime | None  # died at | end
    lock_owner: str
    type: str
    message: str
    stack: str
    attempts: int
    errors: str
    workers: str
    return_value: str


_COMMON = ("pk", "backend_", "handler_type", "arguments_", "category", "priority", "create_time", "due_")
_NAMES = (
    "place_",
    *_COMMON,
    *("begun_", "until_", "end_", "owner_", "type_", "message_", "stack_", "attempts_"),
    *("errors_", "workers_", "value_"),
)
_DEAD = frozenset(table.state for table in JOB_TABLES if table.dead)
_NO_TIME = Value(None, output_field=DateTimeField())


def _no_text() -> Value:
    return Value("", output_field=TextField())


def _rows(id: UUID, using: str) -> Iterator[tuple[Any, ...]]:
    connection = connections[using]
    made, sql, parameters, placeholder = _statement(using, connection.vendor)
    own = TaskResult._meta.pk.get_db_prep_value(id, connection)
    compiler = copy(made)  # a compiler for each thread, with its connection
    compiler.connection = connection
    compiler.as_sql = lambda *args, **kwargs: (sql, tuple(own if each == placeholder else each for each in parameters))
    rows: Iterator[tuple[Any, ...]] = compiler.results_iter(tuple_expected=True)
    return rows


@cache
def _statement(using: str, vendor: str) -> tuple[Any, str, Sequence[Any], Any]:
    """The statement for any id, built once: the ORM takes ten times as long for it as for everything else."""
    some = UUID(int=0)
    rows = _results(some, using).union(*(_living(table, some, using) for table in JOB_TABLES), all=True)
    compiler = rows.query.get_compiler(using)
    sql, parameters = compiler.as_sql()
    return compiler, sql, parameters, TaskResult._meta.pk.get_db_prep_value(some, connections[using])


def _results(id: UUID, using: str) -> Any:
    # First in the union: its columns have types, where the others have only a NULL.
    rows = TaskResult._base_manager.using(using).filter(pk=id)
    return rows.annotate(
        place_=F("status"),
        backend_=F("backend"),
        arguments_=_text("handler_configuration"),
        due_=F("run_after"),
        begun_=F("first_time"),
        until_=F("last_time"),
        end_=F("end_time"),
        owner_=Value("", output_field=CharField()),
        type_=Value("", output_field=CharField()),
        message_=Value("", output_field=CharField()),
        stack_=_no_text(),
        attempts_=Value(0, output_field=IntegerField()),
        errors_=_text("errors"),
        workers_=_text("workers"),
        value_=_text("return_value"),
    ).values_list(*_NAMES)


def _living(table: type[AbstractJob], id: UUID, using: str) -> Any:
    rows = table._base_manager.using(using).filter(pk=id)
    return rows.annotate(
        place_=Value(table.state, output_field=CharField()),
        backend_=F("task_backend"),
        arguments_=_text("handler_configuration"),
        due_=F("due_date"),
        begun_=F("start_time"),
        until_=F("lock_expiration_time"),
        end_=F("died_at") if table.dead else _NO_TIME,
        owner_=Coalesce("lock_owner", Value("")),
        type_=F("type"),
        message_=F("exception_message"),
        stack_=F("exception_stack"),
        attempts_=F("attempts"),
        errors_=_no_text(),
        workers_=_no_text(),
        value_=_no_text(),
    ).values_list(*_NAMES)


def _text(name: str) -> Coalesce:
    return Coalesce(Cast(name, TextField()), Value(""), output_field=TextField())


def _over(result: _Look) -> TaskSight:
    return TaskSight(
        **_shared(result),
        status=result.place,
        run_after=result.due,
        started_at=result.begun,
        finished_at=result.end,
        last_attempted_at=result.until,
        errors=_errors(result.errors),
        worker_ids=_list(result.workers),
        return_value=unseal_result(_json(result.return_value, None), result.id),
    )


def _alive(job: _Look, result: _Look | None, using: str) -> TaskSight:
    """The outcomes of earlier attempts are in the result, the current state in the job."""
    errors = _errors(result.errors) if result else []
    workers = _list(result.workers) if result else []
    first, last = (result.begun, result.until) if result else (None, None)
    end = None
    status = str(ResultStatus.READY)
    if job.lock_owner:
        status = "RUNNING"
        last = job.begun or _locked_at(job, using)
        first = first or last
        workers = [*workers, job.lock_owner.rpartition(":")[0] or job.lock_owner]
    elif job.place in _DEAD:
        status = str(ResultStatus.FAILED)
        end = (result.end if result else None) or job.end
        errors = errors or [_last_words(job)]
    # A retry waits for a date of its own.
    own = job.due if job.type == JobType.TIMER and not job.attempts else None
    return TaskSight(
        **_shared(job),
        status=status,
        run_after=result.due if result else own,
        started_at=first,
        finished_at=end,
        last_attempted_at=last,
        errors=errors,
        worker_ids=workers,
    )


def _locked_at(job: _Look, using: str) -> datetime | None:
    if job.place == ExternalWorkerJob.state:  # its worker has said how long it needs
        return None
    return job.until and job.until - get_settings().engine(using).lock_time


def _last_words(job: _Look) -> dict[str, str]:
    """The error of a dead letter without a recorded one: the row has no exception class, though its message may."""
    return {"exception_class_path": "jobexec.exceptions.JobExecError", "traceback": job.stack or job.message}


def _shared(look: _Look) -> dict[str, Any]:
    configuration = unseal(_json(look.arguments, {}), look.handler_type, look.id)
    if not isinstance(configuration, dict):
        configuration = {}
    args, kwargs = configuration.get("args"), configuration.get("kwargs")
    return {
        "id": look.id,
        "backend": look.backend,
        "handler_type": look.handler_type,
        "args": args if isinstance(args, list) else [],
        "kwargs": kwargs if isinstance(kwargs, dict) else {},
        "priority": look.priority,
        "category": look.category,
        "queue_name": str(configuration.get("queue_name") or look.category),
        "enqueued_at": look.create_time,
    }


def _list(text: str) -> list[Any]:
    found = _json(text, [])
    return found if isinstance(found, list) else []


def _errors(text: str) -> list[dict[str, str]]:
    """The errors of attempts; malformed entries, written by other programs, are ignored."""
    names = ("exception_class_path", "traceback")
    found = [error for error in _list(text) if isinstance(error, dict)]
    return [
        {name: error[name] for name in names} for error in found if all(type(error.get(name)) is str for name in names)
    ]


def _json(text: str, default: Any) -> Any:
    """Decode a column; the default if it is not JSON: a row that cannot be read soon becomes a dead letter."""
    try:
        return json.loads(text) if text else default
    except (ValueError, RecursionError):
        return default
