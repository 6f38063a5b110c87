"""Start instances of deployed processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import router

from ..engine.inputs import Command
from ..handlers.starting import start_instance
from ..models import ProcessDefinition, ProcessInstance
from ..store import definitions


def start(
    key: str,
    *,
    business_key: str = "",
    variables: Mapping[str, Any] | None = None,
    version: int | None = None,
    tenant_id: str = "",
    user: str = "",
    using: str | None = None,
) -> ProcessInstance:
    """Start an instance of a deployed process, in the caller's transaction. Returns its row.

    The first step runs immediately, until every token waits, so the instance may have ended already. Without
    ``version`` the latest version starts. Raises UnknownProcess, InvalidJob for a variable that is not JSON or too
    large, and what a handler of the first step raises. In each case no instance exists.
    """
    database = using or router.db_for_write(ProcessInstance)
    found = definitions.version(database, key, version, tenant_id)
    return start_definition(
        database, found, business_key=business_key, variables=variables, tenant_id=tenant_id, user=user
    )


def start_definition(
    using: str,
    definition: ProcessDefinition,
    *,
    business_key: str = "",
    variables: Mapping[str, Any] | None = None,
    tenant_id: str = "",
    user: str = "",
    awaited: UUID | None = None,
    commands: tuple[Command, ...] = (),
) -> ProcessInstance:
    """Start an instance of this very version. ``awaited``: the id that it gets, for whose end a gateway waits.

    ``commands``: where it begins, instead of at its start event.
    """
    return start_instance(
        using,
        definition.pk,
        business_key=business_key,
        variables=dict(variables or {}),
        tenant_id=tenant_id or definition.tenant_id,
        user=user,
        awaited=awaited,
        commands=commands,
    )
