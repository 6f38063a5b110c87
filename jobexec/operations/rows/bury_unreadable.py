"""Make dead letters of rows that cannot be read or moved, so that they do not block other jobs.

Our code never writes such rows. They come from raw SQL, other programs, and SQLite, which accepts any value in any
column.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import DataError, IntegrityError, transaction
from django.db.models import Field, TextField
from django.db.models.functions import Cast

from jobexec import clock, signals
from jobexec.exceptions import UnreadableJob
from jobexec.models import SHARED_COLUMNS, AbstractJob, DeadLetterJob, HistoryJob, JobType
from jobexec.models.locks import serial_key

from ..history.incidents import open_incidents
from ..history.task_attempts import write_buried
from ..notify.signals import announce
from ..sql.delete import delete_rows
from ..sql.errors import storable
from ..sql.locks import atomic
from ..values.fingerprint import fingerprint
from .exclusive import unlock_instances
from .redaction_by_definition import hide_text_by_definition
from .tallies import count_move

#: Exceptions raised by reading or moving a page because of one of its rows; none of an unavailable database.
UNREADABLE = (
    DataError,
    IntegrityError,
    ArithmeticError,
    AttributeError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)

_PAGE = 200
_MESSAGE = "The row cannot be read: {problems}."
_ESSENTIAL = (
    "handler_type",
    "category",
    "process_instance_id",
    "deployment_id",
    "tenant_id",
    "create_time",
    "batch_id",
    "task_backend",
)
_UNTOUCHED = frozenset({"id", "revision", "lock_owner", "lock_expiration_time", "start_time"})


def bury_unreadable(using: str, table: type[AbstractJob], **conditions: Any) -> int:
    """Find rows that cannot be read or moved and make them dead letters; return their number.

    Called after a page could not be read or moved. Reads the whole table once, in pages.
    """
    count, rows = 0, table._base_manager.using(using).filter(**conditions)
    ids = list(rows.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(ids), _PAGE):
        page = ids[start : start + _PAGE]
        count += sum(bury(using, table, pk) for pk in _suspicious(using, table, page))
    return count


def _suspicious(using: str, table: type[AbstractJob], ids: list[UUID]) -> list[UUID]:
    rows = table._base_manager.using(using)
    try:
        return [row.pk for row in rows.filter(pk__in=ids) if list(_problems(row))]
    except UNREADABLE:
        return [pk for pk in ids if not _is_readable(using, table, pk)]


def _is_readable(using: str, table: type[AbstractJob], pk: UUID) -> bool:
    try:
        return not any(list(_problems(row)) for row in table._base_manager.using(using).filter(pk=pk))
    except UNREADABLE:
        return False


def _problems(row: AbstractJob) -> Iterator[str]:
    for field in _fields(type(row)):
        problem = _problem(field, getattr(row, field.name))
        if problem:
            yield f"{field.name} ({problem})"


def _fields(table: type[AbstractJob]) -> list[Field[Any, Any]]:
    return [table._meta.get_field(name) for name in SHARED_COLUMNS if name not in _UNTOUCHED]  # type: ignore[misc]


def _problem(field: Field[Any, Any], value: Any) -> str:
    if value is None:
        return "" if field.null else "it is NULL"
    try:
        field.run_validators(field.to_python(value))
        field.get_prep_value(value)
    except ValidationError as error:
        return " ".join(error.messages)
    except UNREADABLE as error:
        return f"{type(error).__name__}: {error}"
    return ""


def bury(
    using: str,
    table: type[AbstractJob],
    pk: UUID,
    message: str = "",
    *,
    lock_owner: str | None = None,
    keeps_instance: bool = False,
) -> bool:
    """Make a dead letter of a row's readable columns; the others get default values and are named in the message.

    With ``lock_owner``, only if that owner holds the row; its process instance is unlocked, unless the handler still
    runs (``keeps_instance``). Returns False if the row is gone or has changed.
    """
    rows = table._base_manager.using(using).filter(pk=pk, lock_owner=lock_owner)
    revision = rows.values_list("revision", flat=True).first()
    if revision is None:
        return False
    values, problems = _salvage(using, table, pk)
    text = " ".join(filter(None, [message, _MESSAGE.format(problems="; ".join(problems)) if problems else ""]))
    instance = ""
    if values["exclusive"] and values["process_instance_id"]:
        instance = serial_key(values["tenant_id"], values["process_instance_id"])
    fresh: dict[str, Any] = {
        "id": pk,
        "retries": 0,
        "exception_message": storable(text)[:4000],
        "revision": max(1, revision) + 1,
    }
    fresh |= {"died_at": clock.now(using), "exception_stack": _raw_arguments(using, table, pk, values)}
    if table is HistoryJob:
        fresh["type"] = JobType.HISTORY  # tells requeue() which table it came from
    fresh["fingerprint"] = fingerprint(values["handler_type"], fresh["exception_message"])
    with atomic(using):
        if not delete_rows(rows.filter(revision=revision)):
            return False
        dead = _insert(using, values | fresh, fresh)
        open_incidents(using, [dead])
        count_move(using, [dead], table, DeadLetterJob)
        with suppress(*UNREADABLE), transaction.atomic(using=using):  # its result may be unreadable too
            write_buried(using, dead, UnreadableJob(text))
        announce(signals.job_dead_lettered, using, DeadLetterJob, job=dead, error=UnreadableJob(text))
        if lock_owner and instance and not keeps_instance:
            unlock_instances(using, lock_owner, {instance})
    return True


def _insert(using: str, values: dict[str, Any], fresh: dict[str, Any]) -> DeadLetterJob:
    table = DeadLetterJob._base_manager.using(using)
    try:
        with transaction.atomic(using=using):
            return table.create(**values)
    except UNREADABLE:  # readable values may still not be writable: keep only those that operators search for
        return table.create(**{name: values[name] for name in _ESSENTIAL} | fresh)


def _raw_arguments(using: str, table: type[AbstractJob], pk: UUID, values: dict[str, Any]) -> str:
    """Return the raw arguments of the row without sensitive data, for the person who repairs it."""
    try:
        rows = table._base_manager.using(using).filter(pk=pk)
        text = rows.values_list(Cast("handler_configuration", TextField()), flat=True).first()
        shown = hide_text_by_definition(values["handler_type"], str(text), using)
        return storable(f"Arguments in the row: {shown[:10_000]}")
    except UNREADABLE:
        return ""


def _salvage(using: str, table: type[AbstractJob], pk: UUID) -> tuple[dict[str, Any], list[str]]:
    """Read the columns with one statement each; return those that are readable and the problems of the others."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    rows = table._base_manager.using(using).filter(pk=pk)
    for field in _fields(table):
        try:
            values[field.name] = rows.values_list(field.name, flat=True).first()
            problem = _problem(field, values[field.name])
        except UNREADABLE as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            values[field.name] = None if field.null else field.get_default()
            problems.append(f"{field.name} ({problem})")
    return values, problems
