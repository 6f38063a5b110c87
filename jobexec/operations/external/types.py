"""What is said about external jobs on the way between the gateways and the operations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and what that client may fetch and see; None is everything.

    A type that ends in ``*`` stands for all that begin like it: ask :meth:`may_fetch`, and not the set. The empty text
    among the tenants stands for jobs without a tenant (on the wire: ``<default>``).
    """

    name: str = ""
    types: frozenset[str] | None = None
    tenants: frozenset[str] | None = None

    def may_fetch(self, type: str) -> bool:
        return self.types is None or type in self.types or type.startswith(self.type_prefixes())

    def type_prefixes(self) -> tuple[str, ...]:
        """What precedes the ``*`` in types that stand for many."""
        return tuple(type[:-1] for type in self.types or () if type.endswith("*"))

    def may_see(self, tenant: str) -> bool:
        return self.tenants is None or tenant in self.tenants


#: A caller within this process, who may do everything.
EVERYTHING = Caller()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """What a worker asks for: at most ``max_jobs`` jobs of one type, locked for ``timeout``.

    ``variables`` are the names of those it wants, None for all. ``tenants`` are those whose jobs it wants, None for all
    that the caller may see. ``with_lease``: each job comes with a token that its completion must show. ``is_alive`` is
    asked in the transaction that locks the jobs, before its commit: for somebody who has gone nothing is locked.
    """

    type: str
    worker: str
    timeout: timedelta
    max_jobs: int = 1
    variables: Collection[str] | None = None
    local_variables_only: bool = False
    tenants: Collection[str] | None = None
    with_lease: bool = False
    use_priority: bool = True
    #: Only jobs of these; None is no condition (Camunda 7's fetchAndLock).
    business_key: str | None = None
    process_instance_id: str | None = None
    process_definition_ids: Collection[str] | None = None
    process_definition_keys: Collection[str] | None = None
    process_variables: Mapping[str, Any] | None = None
    caller: Caller = EVERYTHING
    is_alive: Callable[[], bool] = field(default=_always, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivatedJob:
    """A job that a worker has been given. ``retries`` are those left, ``failures`` how often it has failed so far."""

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
    business_key: str = ""
    lease_token: str = ""
    create_time: datetime
    #: Of the last failure.
    error_message: str = ""
    error_details: str = ""
