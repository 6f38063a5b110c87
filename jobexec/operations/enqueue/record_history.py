"""History recorded by the project: stored with its data, processed by the history loop."""

from __future__ import annotations

from typing import Any

from django.db import connections, router

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import InvalidJob
from jobexec.identifiers import uuid7
from jobexec.json_values import check_json, check_storable, encode_json, shown
from jobexec.models import HistoryJob, Job, JobType

from ..audit import authorize
from ..notify.wake import wake_on_commit
from ..sql.insert import insert_row, json_text, parameters
from ..values.inserted_rows import instance

_NAMES = {"name": 255, "tenant_id": 64, "process_instance_id": 255}


def record_history(
    name: str,
    *records: Any,
    using: str | None = None,
    tenant_id: str = "",
    process_instance_id: str = "",
) -> HistoryJob | None:
    """Pass records, each any JSON value, to the history handler ``name`` (Flowable: asynchronous history).

    One INSERT in the current transaction stores all records of the call: a HistoryJob, which is rolled back and becomes
    visible with the caller's data. The history loop of a node passes the records to the handler and deletes the row in
    one transaction, so the handler writes each of them exactly once. Without records the result is None. ``tenant_id``
    and ``process_instance_id`` are those of the records.

    Raises :class:`~jobexec.exceptions.InvalidJob`, with nothing inserted, for a name that cannot be stored and for
    records that are not JSON.
    """
    for argument, value in (("name", name), ("tenant_id", tenant_id), ("process_instance_id", process_instance_id)):
        _check_name(argument, value)
    if not name:
        raise InvalidJob("name: expected the name of a history handler, got ''.")
    if not records:
        return None
    database, settings = using or router.db_for_write(Job), get_settings()
    settings.engine(database)
    authorize("record_history", name, database, {"tenant_id": tenant_id, "process_instance_id": process_instance_id})
    now = clock.now(database)
    columns = {
        "id": uuid7(),
        "type": JobType.HISTORY,
        "handler_type": name,
        "tenant_id": tenant_id,
        "process_instance_id": process_instance_id,
        "retries": settings.history_job_retries,
        "create_time": now,
        "due_date": now,
    }
    connection = connections[database]
    values = parameters(connection, HistoryJob, columns) | {"handler_configuration": _encoded(name, records)}
    insert_row(connection, HistoryJob, values)
    wake_on_commit(database, history=True)
    row: HistoryJob = instance(database, HistoryJob, columns | {"handler_configuration": {"records": list(records)}})
    return row


def _check_name(argument: str, value: Any) -> None:
    longest = _NAMES[argument]
    if not isinstance(value, str) or len(value) > longest:
        raise InvalidJob(f"{argument}: expected a string of at most {longest} characters, got {shown(value)}.")
    check_storable(argument, value)


def _encoded(name: str, records: tuple[Any, ...]) -> str:
    encoded = encode_json({"records": records})
    if encoded is None:
        for number, record in enumerate(records, 1):
            check_json(f"{name}: record {number}", record)
        encoded = json_text({"records": records})
    return encoded
