"""What a request for jobs may ask for, and how much of it."""

from __future__ import annotations

from jobexec.exceptions import NotAllowed
from jobexec.operations.external.types import Fetch

#: So many values a list in a request may have.
MOST_VALUES = 1000


def check(fetch: Fetch) -> None:
    """Raises NotAllowed for a type or a tenant that is not the caller's.

    The fetch itself refuses it, too, but comes after the request has been counted as one of a worker: whoever asks for
    what he is never given would then stand among the workers of the type, and nobody would be told that it has none.
    """
    caller = fetch.caller
    if not caller.may_fetch(fetch.type):
        raise NotAllowed(f"The client {caller.name!r} may not fetch jobs of the type {fetch.type!r}.")
    refused = [tenant for tenant in fetch.tenants or () if not caller.may_see(tenant)]
    if refused:
        raise NotAllowed(f"The client {caller.name!r} may not fetch jobs of the tenant {min(refused)!r}.")
