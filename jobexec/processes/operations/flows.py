"""Start flows that were written in Python."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from django.db import connections, transaction

from jobexec import clock
from jobexec.operations.sql.on_commit import after_commit
from jobexec.operations.sql.server_time import keep_time

from ..definition import Process, shape, to_json
from ..handlers.starting import start_instance
from ..models import ProcessDefinition, ProcessInstance
from ..store.suspensions import known_and_free
from .job_definitions import record


def start_flow(
    using: str,
    process: Process,
    variables: dict[str, Any],
    *,
    business_key: str = "",
    tenant_id: str = "",
    user: str = "",
) -> ProcessInstance:
    """Start an instance of a flow in the caller's transaction; its definition is stored once for each shape."""
    id = _definition_id(process)
    start = partial(
        start_instance, using, id, business_key=business_key, variables=variables, tenant_id=tenant_id, user=user
    )
    keep_time(using)
    known, free = known_and_free(using, id)
    if known:
        return start(free=free)
    with transaction.atomic(using=using):  # the shape of a flow that is refused is not stored either
        _store(using, id, process)
        return start()


def define(using: str, process: Process) -> str:
    """Store the shape of a flow if it is new; returns the id of its definition."""
    id = _definition_id(process)
    known, _ = known_and_free(using, id)
    if not known:
        _store(using, id, process)
    return id


def _definition_id(process: Process) -> str:
    return f"{process.key}:flow:{shape(process)[:32]}"


def _store(using: str, id: str, process: Process) -> None:
    keep_time(using)
    row = ProcessDefinition(
        id=id,
        key=process.key,
        name=process.name or "",
        model=json.dumps(to_json(process)),
        deploy_time=clock.now(using),
    )
    ProcessDefinition.objects.using(using).bulk_create([row], ignore_conflicts=True)
    record(using, process, update=False)
    # What the shape says of steps that are known: flows that start at the same time would wait for the caller's commit.
    after_commit(connections[using], partial(record, using, process))
