"""Create external jobs, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from django.db import connections
from django.views.decorators.debug import sensitive_variables

from jobexec import clock, signals, tracing
from jobexec.conf import get_settings
from jobexec.conf.messages import check_moment
from jobexec.encryption import seal
from jobexec.exceptions import InvalidJob
from jobexec.identifiers import uuid7s
from jobexec.models import BlockedJob, ExternalWorkerJob, JobType, LogState, TimerJob

from ..audit import authorize
from ..enqueue.create import check_resource
from ..history import job_log
from ..history.keys import next_keys
from ..notify.signals import announce
from ..notify.wake_workers import SOON, wake_workers_on_commit
from ..rows.routing import table_for, wake_for
from ..sql.insert import insert_rows, json_text, parameters
from ..sql.locks import atomic
from ..sql.server_time import keep_time
from ..values.inserted_rows import instance
from ..values.ranking import check_priority, rank

_OF_EACH = ("id", "job_key", "handler_configuration")
AnyExternal: TypeAlias = ExternalWorkerJob | BlockedJob | TimerJob


@sensitive_variables("configurations", "texts", "rows", "pairs")
def create_external_jobs(
    using: str,
    columns: Mapping[str, Any],
    configurations: Sequence[Mapping[str, Any]],
    *,
    due_date: datetime | None = None,
    ids: Sequence[UUID] | None = None,
    encrypted: bool = False,
) -> list[AnyExternal]:
    """Insert an external job for each configuration; ``columns`` are shared by all jobs, which wait if they have a
    ``resource``.

    One transaction, few statements. Workers cannot fetch the jobs before ``due_date``. Waiting workers are woken after
    the commit. Raises :class:`~jobexec.exceptions.InvalidJob` before anything is written.
    """
    get_settings().engine(using)
    check_priority(columns.get("priority", 0))
    check_moment("due_date", due_date)
    texts = [_text(number, configuration) for number, configuration in enumerate(configurations)]
    if not texts:
        return []
    authorize("enqueue", columns["handler_type"], using, columns)
    keep_time(using)
    now, connection = clock.now(using), connections[using]
    check_resource(columns.get("resource"))
    shared = _shared(using, columns, now, due_date)
    table = table_for(ExternalWorkerJob(resource=shared.get("resource")), later="available_at" in shared)
    if table is not ExternalWorkerJob:
        shared.pop("available_at", None)
    ids = ids or uuid7s(len(texts))
    if encrypted:
        pairs = zip(configurations, ids, strict=True)
        configurations = [seal(configuration, shared["handler_type"], id) for configuration, id in pairs]
        texts = [json_text(configuration) for configuration in configurations]
    with atomic(using):
        keys = next_keys(using, len(texts))
        rows = [(id.hex, key, text) for id, key, text in zip(ids, keys, texts, strict=True)]
        insert_rows(connection, table, _OF_EACH, rows, parameters(connection, table, shared))
        each = zip(ids, keys, configurations, strict=True)
        jobs = [instance(using, table, {**shared, **dict(zip(_OF_EACH, values, strict=True))}) for values in each]
        if job_log.wants(LogState.CREATED):
            job_log.write(using, LogState.CREATED, [job_log.entry(job, LogState.CREATED) for job in jobs])
        announce(signals.job_created, using, table, jobs=jobs)
        if table is not ExternalWorkerJob:
            wake_for(using, jobs[:1], timers=table is TimerJob)
        elif due_date is None or due_date <= now + SOON:
            wake_workers_on_commit(using, [shared["handler_type"]])
    return jobs


def _shared(using: str, columns: Mapping[str, Any], now: datetime, due_date: datetime | None) -> dict[str, Any]:
    made = {"job_definition_id": columns["handler_type"], "deployment_id": get_settings().deployment or ""}
    shared = {**made, **columns, "type": JobType.EXTERNAL.value}
    if not shared.get("traceparent"):
        traceparent = tracing.of_headers(columns.get("custom_headers")) or (tracing.AVAILABLE and tracing.current())
        if traceparent:
            shared["traceparent"] = traceparent
    if due_date is not None:
        shared["due_date"] = due_date
        if due_date > now:
            shared["available_at"] = due_date
    return shared | {"create_time": now, "rank": rank(using, due_date or now, columns.get("priority", 0))}


@sensitive_variables("configuration", "text")
def _text(number: int, configuration: Mapping[str, Any]) -> str:
    text, limit = json_text(configuration), get_settings().external_max_payload
    size = len(text.encode())
    if size > limit:
        raise InvalidJob(
            f"variables of job {number}: expected at most {limit:,} bytes of JSON (setting EXTERNAL_MAX_PAYLOAD),"
            f" got {size:,}."
        )
    return text
