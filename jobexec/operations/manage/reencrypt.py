"""Encrypt again with the newest key, so that an old one can be removed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from jobexec.encryption import (
    envelope_of,
    key_of,
    needs_renewal,
    newest_key,
    renewed,
    renewed_result,
    stored_payload,
    unseal_payload,
)
from jobexec.exceptions import DecryptionFailed, NotDecryptableYet
from jobexec.models import JOB_TABLES, AbstractJob, Batch, Message, TaskResult
from jobexec.models.batch import JOBS

from ..audit import audited, note_rows, part
from ..sql.locks import lock_rows
from ..targets.for_each import OperationResult, Target, database_of, for_each
from ..values.messages import renewed as renewed_message
from .bulk import lock_page

_PAGE = 200


@audited
def reencrypt(target: Target, plain: bool = False, *, using: str | None = None) -> OperationResult:
    """Encrypt arguments and received messages of jobs with the newest key of ENCRYPTION_KEYS, if another encrypts them.

    Jobs that are not encrypted are left alone, unless ``plain``. Jobs may run in the meantime. One that cannot be
    decrypted is skipped, with the reason. Raises :class:`~jobexec.exceptions.InvalidJob` without a key.
    """
    newest_key()
    database = database_of(target, using)
    return for_each(target, database, partial(_row, plain), *JOB_TABLES, bulk=partial(_rows, plain=plain))


def _row(plain: bool, row: AbstractJob) -> str | None:
    changes: dict[str, Any] = {}
    if needs_renewal(row.handler_configuration, plain):
        changes["handler_configuration"] = renewed(row.handler_configuration, row.handler_type, row.pk)
    if row.message and needs_renewal(json.loads(row.message)["payload"], plain):
        changes["message"] = renewed_message(row.message)
    if changes:
        # Without a new revision: a run has read its arguments, or reads them as they are then.
        type(row)._base_manager.using(row._state.db or "default").filter(pk=row.pk).update(**changes)
    return None


def _rows(using: str, table: type[AbstractJob], ids: list[UUID], plain: bool) -> list[UUID]:
    """The fast form: a page in one transaction; rows that cannot be decrypted are left to the verb."""
    done = []
    for row in lock_page(using, table, ids, whole=True):
        try:
            _row(plain, row)
        except (DecryptionFailed, NotDecryptableYet):
            continue
        done.append(row.pk)
    return done


@audited
def reencrypt_results(*, using: str) -> OperationResult:
    """Encrypt the results of all tasks with the newest key, the calls that follow batches of jobs, and kept messages.

    Those that are not encrypted stay so.
    """
    newest_key()
    result = OperationResult()
    for stored in (
        _Stored(TaskResult.objects.using(using), ("handler_configuration", "return_value"), list, _result),
        _Stored(Batch.objects.using(using).filter(type=JOBS), ("arguments",), _configurations, _calls),
        _Stored(Message.objects.using(using), ("payload",), list, _payload),
    ):
        _every(using, stored, result)
    return result


class _Stored(NamedTuple):
    """Rows that may hold envelopes: in which columns, what these may be in their values, and how they are renewed."""

    rows: QuerySet[Any]
    columns: tuple[str, ...]
    parts: Callable[[Sequence[Any]], list[Any]]
    changes: Callable[[Any], dict[str, Any]]


def _every(using: str, stored: _Stored, result: OperationResult) -> None:
    found = stored.rows.order_by("pk").values_list("pk", *stored.columns)
    last: Any = None
    while page := list((found if last is None else found.filter(pk__gt=last))[:_PAGE]):
        last = page[-1][0]
        old = [
            pk
            for pk, *values in page
            if any(envelope_of(each) and needs_renewal(each) for each in stored.parts(values))
        ]
        if old:
            _renew(using, stored.rows.filter(pk__in=old).order_by("pk"), stored.changes, result)


def _renew(using: str, rows: QuerySet[Any], changes: Callable[[Any], dict[str, Any]], result: OperationResult) -> None:
    with part(using):
        done = []
        for row in lock_rows(rows):
            try:
                columns = changes(row)
            except (DecryptionFailed, NotDecryptableYet) as error:
                result.skipped[row.pk] = str(error)
                continue
            rows.model._base_manager.using(using).filter(pk=row.pk).update(**columns)
            done.append(row.pk)
        note_rows(using, rows.model, done, [])
    result.changed += done


def _result(row: TaskResult) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if envelope_of(row.handler_configuration):
        changes["handler_configuration"] = renewed(row.handler_configuration, row.handler_type, row.pk)
    if key_of(row.return_value) is not None:
        changes["return_value"] = renewed_result(row.return_value, row.pk)
    return changes


def _calls(row: Batch) -> dict[str, Any]:
    for call in _calls_of(row.arguments):
        if envelope_of(call["configuration"]):
            call["configuration"] = renewed(call["configuration"], call["handler"], UUID(call["id"]))
    return {"arguments": row.arguments}


def _payload(row: Message) -> dict[str, Any]:
    return {"payload": stored_payload(unseal_payload(row.payload, row.pk), row.pk)}


def _configurations(values: Sequence[Any]) -> list[Any]:
    return [call["configuration"] for arguments in values for call in _calls_of(arguments)]


def _calls_of(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The calls that follow a batch of jobs."""
    found = [arguments.get("on_success"), arguments.get("on_failure"), *(arguments.get("when") or {}).values()]
    return [call for call in found if call]
