"""Formats common to Camunda 8's gRPC and REST APIs: keys, tenants, and placeholders for jobs without a process."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

from jobexec.operations.external.types import ActivatedJob

#: The release of Camunda 8 whose contract the responses follow; clients check it.
CONTRACT = "8.10.0"
#: The tenant of a job without one, as clients see it; the tables have an empty string.
DEFAULT_TENANT = "<default>"
#: The key of a missing object.
NO_KEY = -1
#: The process definition shown for jobs without one.
NO_PROCESS = "jobexec"
PROCESS_DEFINITION_VERSION = 1

_MOST = 2**63 - 1
_ID = re.compile(r"\w[\w.\-]*\Z", re.ASCII)
_NOT_IN_ID = re.compile(r"[^\w.\-]", re.ASCII)


def key(id: str) -> int:
    """Convert an id to a key: its number if it fits into 64 bits, else ``NO_KEY``."""
    if not (id.isascii() and id.isdigit() and len(id) <= 19):
        return NO_KEY
    number = int(id)
    return number if number <= _MOST else NO_KEY


class ProcessKeys(NamedTuple):
    """The numbers of the process of an activated job; ``NO_KEY`` where there is none."""

    instance: int
    root: int
    definition: int
    element_instance: int
    version: int


def process_keys(job: ActivatedJob) -> ProcessKeys:
    """The numbers of a job's process: those that it brings, else its ids. Its own stands for its element's."""
    told = job.keys
    return ProcessKeys(
        told.get("instance", key(job.process_instance_id)),
        told.get("root", key(job.root_process_instance_id)),
        told.get("definition", key(job.process_definition_id)),
        job.key if told else key(job.execution_id),
        told.get("version", PROCESS_DEFINITION_VERSION),
    )


def key_text(id: str) -> str:
    """The key in the form of the REST API, a decimal string."""
    return str(key(id))


def process_definition_id(process_definition_key: str) -> str:
    """The process id in BPMN's form; ``NO_PROCESS`` if it is missing or clients would reject it."""
    return process_definition_key if _ID.match(process_definition_key) else NO_PROCESS


def element_id(element_id: str, type: str) -> str:
    """The id of the element that created the job; without one, an id derived from the job's type."""
    return element_id or _NOT_IN_ID.sub("_", type) or NO_PROCESS


def tenant(tenant_id: str) -> str:
    """Convert a tenant id from the tables to its form for clients."""
    return tenant_id or DEFAULT_TENANT


def tenant_id(tenant: str) -> str:
    """Convert a tenant from a client to its form in the tables."""
    return "" if tenant == DEFAULT_TENANT else tenant


def milliseconds(moment: datetime) -> int:
    """Convert a datetime to milliseconds since the epoch."""
    return int(moment.timestamp() * 1000)


def iso(moment: datetime | None) -> str | None:
    """Format a datetime for the REST API, in UTC with milliseconds."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
