"""Limits and permission checks for requests that ask for jobs."""

from __future__ import annotations

from jobexec.exceptions import InvalidJob, NotAllowed
from jobexec.json_values import check_storable
from jobexec.operations.external.types import Fetch

#: The maximum number of values in a list in a request.
MOST_VALUES = 1000
#: The maximum length of the type of a job, and of the name of a worker.
_LONGEST_NAME = 255


def check_name(field: str, name: str) -> None:
    """Raise InvalidJob for a type, or the name of a worker, that no job can have.

    To be called before the request waits: the types of all waiting requests are in one statement of the hub's watch,
    and one that the database refuses would keep it from waking any of them.
    """
    if len(name) > _LONGEST_NAME:
        raise InvalidJob(f"{field}: expected a string of at most {_LONGEST_NAME} characters, got {len(name):,}.")
    check_storable(field, name)


def check(fetch: Fetch) -> None:
    """Raise NotAllowed for a type or a tenant that the caller may not access, and what :func:`check_name` raises.

    The fetch itself refuses these too, but only after the registry has counted the request as a worker's. A caller that
    never gets a job would then be listed among the workers of the type and hide the fact that the type has none.
    """
    check_name("type", fetch.type)
    caller = fetch.caller
    if not caller.may_fetch(fetch.type):
        raise NotAllowed(f"The client {caller.name!r} may not fetch jobs of the type {fetch.type!r}.")
    refused = [tenant for tenant in fetch.tenants or () if not caller.may_see(tenant)]
    if refused:
        raise NotAllowed(f"The client {caller.name!r} may not fetch jobs of the tenant {min(refused)!r}.")
