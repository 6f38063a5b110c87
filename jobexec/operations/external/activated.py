"""The payload that a worker receives for an activated job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from jobexec.encryption import unseal

from .types import ActivatedJob, Fetch


class Grant(NamedTuple):
    """The values to write when a page of rows is locked; ``limit`` is the maximum number of rows."""

    deadline: datetime
    token: str
    limit: int


def activated(
    row: Any,
    fetch: Fetch,
    grant: Grant,
    *,
    id: UUID,
    create_time: datetime,
    configuration: Mapping[str, Any],
    headers: Mapping[str, Any],
    lease_before: str = "",
) -> ActivatedJob:
    """Build the worker's view of a row, decrypted; ``row`` is any object with the columns as attributes.

    Raises as :func:`~jobexec.encryption.unseal`.
    """
    configuration = unseal(configuration, fetch.type, id)
    return ActivatedJob(
        id=id,
        key=row.job_key or 0,
        type=fetch.type,
        worker=fetch.worker,
        retries=row.retries,
        failures=configuration.get("failures", 0),
        deadline=grant.deadline,
        variables=wanted_variables(configuration, fetch),
        headers=headers,
        tags=tuple(configuration.get("tags", ())),
        priority=row.priority,
        tenant_id=row.tenant_id,
        process_instance_id=row.process_instance_id,
        root_process_instance_id=row.root_process_instance_id,
        process_definition_id=row.process_definition_id,
        process_definition_key=row.process_definition_key,
        execution_id=row.execution_id,
        element_id=configuration.get("element_id", ""),
        keys=configuration.get("keys") or {},
        business_key=configuration.get("business_key", ""),
        lease_token=grant.token,
        lease_before=lease_before,
        create_time=create_time,
        error_message=row.exception_message,
        error_details=row.exception_stack,
    )


def wanted_variables(configuration: Mapping[str, Any], fetch: Fetch) -> dict[str, Any]:
    """The variables that the worker asked for; the job's local variables override those of its process."""
    local = configuration.get("local") or {}
    variables = dict(local) if fetch.local_variables_only else {**(configuration.get("variables") or {}), **local}
    if fetch.variables is None:
        return variables
    return {name: variables[name] for name in fetch.variables if name in variables}
