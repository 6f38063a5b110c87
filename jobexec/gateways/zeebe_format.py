"""What gRPC and REST of Camunda 8 say alike: keys, tenants, and what stands for the process of jobs that have none."""

from __future__ import annotations

import re
from datetime import UTC, datetime

#: The release of Camunda 8 whose contract the answers follow; clients look at it.
CONTRACT = "8.10.0"
#: How a job without a tenant is written; in the tables it is the empty text.
DEFAULT_TENANT = "<default>"
#: The key of what is not there.
NO_KEY = -1
#: The process definition of jobs that have none.
NO_PROCESS = "jobexec"
PROCESS_DEFINITION_VERSION = 1

_MOST = 2**63 - 1
_ID = re.compile(r"\w[\w.\-]*\Z", re.ASCII)
_NOT_IN_ID = re.compile(r"[^\w.\-]", re.ASCII)


def key(id: str) -> int:
    """An id as a key: its number, if it is one of 64 bits; else ``NO_KEY``."""
    if not (id.isascii() and id.isdigit() and len(id) <= 19):
        return NO_KEY
    number = int(id)
    return number if number <= _MOST else NO_KEY


def key_text(id: str) -> str:
    """The same as REST writes it."""
    return str(key(id))


def process_definition_id(process_definition_key: str) -> str:
    """The id of a process as BPMN allows it; ``NO_PROCESS`` where there is none, or one that clients would refuse."""
    return process_definition_key if _ID.match(process_definition_key) else NO_PROCESS


def element_id(element_id: str, type: str) -> str:
    """The id of the element that made the job; where there is none, the job's type made an id."""
    return element_id or _NOT_IN_ID.sub("_", type) or NO_PROCESS


def tenant(tenant_id: str) -> str:
    """A tenant as clients know it."""
    return tenant_id or DEFAULT_TENANT


def tenant_id(tenant: str) -> str:
    """A tenant as the tables know it."""
    return "" if tenant == DEFAULT_TENANT else tenant


def milliseconds(moment: datetime) -> int:
    """A moment in milliseconds since 1970."""
    return int(moment.timestamp() * 1000)


def iso(moment: datetime | None) -> str | None:
    """A moment as REST writes it, in UTC with milliseconds."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
