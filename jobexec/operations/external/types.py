"""The types that gateways and the operations on external jobs exchange."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Caller:
    """The calling client, and the types and tenants that it may access; None means all.

    A type that ends in ``*`` is a prefix: use :meth:`may_fetch` instead of the set. The empty text among the tenants
    means jobs without a tenant (on the wire: ``<default>``).
    """

    name: str = ""
    types: frozenset[str] | None = None
    tenants: frozenset[str] | None = None

    def may_fetch(self, type: str) -> bool:
        return self.types is None or type in self.types or type.startswith(self.type_prefixes())

    def type_prefixes(self) -> tuple[str, ...]:
        """The prefixes before the ``*``."""
        return tuple(type[:-1] for type in self.types or () if type.endswith("*"))

    def may_see(self, tenant: str) -> bool:
        return self.tenants is None or tenant in self.tenants


#: A caller within this process, with all permissions.
EVERYTHING = Caller()


class Completion(NamedTuple):
    """The arguments of :func:`~jobexec.operations.external.settle.complete_external_job` for one job."""

    key: int
    variables: Mapping[str, Any] | None = None
    local_variables: Mapping[str, Any] | None = None
    worker: str | None = None
    lease: str | None = None
    caller: Caller = EVERYTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """A worker's request: at most ``max_jobs`` jobs of one type, locked for ``timeout``.

    ``variables`` are the names of the wanted variables, None for all. ``tenants`` are the tenants whose jobs it wants,
    None for all that the caller may see. ``with_lease``: each job comes with a token that its completion must present.
    ``is_alive`` is called in the transaction that locks the jobs, before the commit: if the client has gone, nothing is
    locked.
    """

    type: str
    worker: str
    timeout: timedelta
    max_jobs: int = 1
    variables: Collection[str] | None = None
    local_variables_only: bool = False
    tenants: Collection[str] | None = None
    with_lease: bool = False
    #: Further conditions of Camunda 7's fetchAndLock; None is no condition.
    business_key: str | None = None
    process_instance_id: str | None = None
    process_definition_ids: Collection[str] | None = None
    process_definition_keys: Collection[str] | None = None
    process_variables: Mapping[str, Any] | None = None
    caller: Caller = EVERYTHING
    is_alive: Callable[[], bool] = field(default=_always, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivatedJob:
    """A job handed to a worker. ``retries`` is the number left, ``failures`` how often it has failed so far."""

    id: UUID
    key: int
    type: str
    worker: str
    retries: int
    failures: int
    deadline: datetime
    variables: Mapping[str, Any]
    headers: Mapping[str, Any]
    tags: tuple[str, ...] = ()
    priority: int = 0
    tenant_id: str = ""
    process_instance_id: str = ""
    root_process_instance_id: str = ""
    process_definition_id: str = ""
    process_definition_key: str = ""
    execution_id: str = ""
    element_id: str = ""
    #: The numbers of its process, where its ids are none: "instance", "root", "definition", and the "version".
    keys: Mapping[str, int] = field(default_factory=dict)
    business_key: str = ""
    lease_token: str = ""
    #: The token that it had before this fetch: an earlier worker's.
    lease_before: str = ""
    create_time: datetime
    #: The last failure.
    error_message: str = ""
    error_details: str = ""
