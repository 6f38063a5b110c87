"""Limits and permission checks for requests that ask for jobs."""

from __future__ import annotations

from jobexec.exceptions import NotAllowed
from jobexec.operations.external.types import Fetch
from jobexec.operations.external.validation import checked_name

#: The maximum number of values in a list in a request.
MOST_VALUES = 1000


def check(fetch: Fetch) -> None:
    """Raise NotAllowed for a type or a tenant that the caller may not access, and InvalidJob for an impossible type.

    The fetch itself refuses these too, but only after the registry has counted the request as a worker's. A caller that
    never gets a job would then be listed among the workers of the type and hide the fact that the type has none. And a
    waiting request's type is in the one statement of the hub's watch: a type that the database refuses would keep it
    from waking any request.
    """
    checked_name("type", fetch.type)
    caller = fetch.caller
    if not caller.may_fetch(fetch.type):
        raise NotAllowed(f"The client {caller.name!r} may not fetch jobs of the type {fetch.type!r}.")
    refused = [tenant for tenant in fetch.tenants or () if not caller.may_see(tenant)]
    if refused:
        raise NotAllowed(f"The client {caller.name!r} may not fetch jobs of the tenant {min(refused)!r}.")
