"""Start instances of deployed processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from django.db import router

from ..definition import Expression, Form, Value
from ..engine.inputs import Command
from ..expressions import EvaluationContext, parse
from ..handlers.registry import functions
from ..handlers.starting import start_instance
from ..models import ProcessDefinition, ProcessInstance
from ..store import definitions
from ..store.timers import local_now


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


def start_form(using: str, definition: str) -> Form:
    """The form of the plain start event. Its expressions know no variables: there is no instance yet."""
    node = definitions.process(using, definition).start_event(None)
    form = node.form if node is not None else None
    if form is None:
        return Form()
    context = EvaluationContext(functions=functions(), now=partial(local_now, using))
    return replace(form, fields=_evaluated(form.fields, context))


def _evaluated(value: Value, context: EvaluationContext) -> Any:
    if isinstance(value, Expression):
        return parse(value.text, value.language.value).evaluate({}, context)
    if isinstance(value, dict):
        return {name: _evaluated(item, context) for name, item in value.items()}
    return [_evaluated(item, context) for item in value] if isinstance(value, list) else value


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
