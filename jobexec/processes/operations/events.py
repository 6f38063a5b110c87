"""Messages and signals for processes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder
from django.db import router, transaction
from django.db.models import QuerySet

from jobexec.exceptions import InvalidJob

from ..engine.rows import Signal, SubscriptionKind
from ..exceptions import MismatchingMessage
from ..handlers.deliver import deliver
from ..handlers.results import check_text, check_variables
from ..handlers.signals import send_beyond
from ..models import EventSubscription, ProcessInstance, Variable
from ..models.instance import value_is
from .named import which
from .query import is_value

#: Receivers of one message in one transaction.
MOST_RECEIVERS = 1_000
#: Variables by which one message is correlated.
_MOST_MATCHED = 20


def correlate(
    message: str,
    *,
    key: str | None = None,
    business_key: str | None = None,
    instance: ProcessInstance | UUID | None = None,
    match: Mapping[str, Any] | None = None,
    variables: Mapping[str, Any] | None = None,
    all: bool = False,
    tenant_id: str = "",
    using: str | None = None,
) -> int:
    """Deliver a message in the caller's transaction, to the instance or the start event that waits for it.

    ``key`` is the correlation key with which an instance waits. ``business_key``, ``instance`` and ``match`` restrict
    the instances; ``match`` has values that variables of the instance itself, not of a scope in it, must all have
    (Camunda: correlation keys). A start event matches only without ``key``, ``instance`` and ``match``. Returns the
    number of receivers: 1, or up to MOST_RECEIVERS with ``all``. Raises MismatchingMessage (Camunda:
    MismatchingMessageCorrelationException), and delivers nothing, if there is no receiver or are more of them:
    ``publish_message`` and ``signal``, which give each receiver a job, reach any number.
    """
    database = using or router.db_for_write(ProcessInstance)
    id = None if instance is None else which(instance, ProcessInstance, database)[1]
    found = correlated(
        database, message, key=key, business_key=business_key, instance=id, match=match, variables=variables,
        all=all, tenant_id=tenant_id,
    )  # fmt: skip
    return len(found)


def correlated(
    using: str,
    message: str,
    *,
    key: str | None,
    business_key: str | None,
    instance: UUID | None,
    match: Mapping[str, Any] | None,
    variables: Mapping[str, Any] | None,
    all: bool,
    tenant_id: str,
) -> list[UUID]:
    """:func:`correlate`; returns the ids of the instances."""
    check_text("message", message)
    given, values = dict(variables or {}), _as_stored(match or {})
    check_variables(given)
    rows = EventSubscription.objects.using(using).filter(
        kind=SubscriptionKind.MESSAGE.value, name=message, tenant_id=tenant_id
    )
    fitting = _fitting(using, rows, key, business_key, instance, values)
    found = _having(using, list(fitting.values_list("pk", "instance_id")[: MOST_RECEIVERS + 1]), values)
    _check_receivers(using, message, found, all)
    with transaction.atomic(using=using):  # what one of them refuses, the caller's transaction survives
        answers = [deliver(using, pk, given, business_key=business_key or "", by_job=False) for pk in found]
        delivered = [id for id in answers if id is not None]
    if not all and not delivered:
        raise MismatchingMessage(f"The message {message!r} matches no instance that still waits for it.")
    return delivered


def _as_stored(match: Mapping[str, Any]) -> dict[str, Any]:
    """The values as variables are stored: a date, for example, as a text. Raises InvalidJob."""
    check_variables(match)
    if len(match) > _MOST_MATCHED:
        raise InvalidJob(f"A message is correlated by at most {_MOST_MATCHED} variables, got {len(match)}.")
    stored: dict[str, Any] = json.loads(json.dumps(dict(match), cls=DjangoJSONEncoder))
    return stored


def _check_receivers(using: str, message: str, found: Sequence[UUID], all: bool) -> None:
    """Raise MismatchingMessage if a message fits this many; ``found`` may end with the first that is too many."""
    count = len(found)
    if count > MOST_RECEIVERS:
        raise MismatchingMessage(
            f"The message {message!r} fits more than {MOST_RECEIVERS:,} that wait for it, and is delivered to none. "
            "Restrict it by a key, or use publish_message() or signal(), which reach any number."
        )
    if not all and count != 1:
        raise MismatchingMessage(
            f"The message {message!r} must match exactly one instance that waits for it; {count} do"
            f"{_some_of(using, found) if found else '.'}"
        )


def _some_of(using: str, found: Sequence[UUID]) -> str:
    rows = EventSubscription.objects.using(using).filter(pk__in=found[:_TOLD]).order_by("pk")
    shown = [f"{element} of {instance or definition}" for element, instance, definition in rows.values_list(*_WHERE)]
    return f", {'for example' if len(found) > _TOLD else 'which are'} {', '.join(shown)}."


#: How many receivers an error names, and by what.
_TOLD, _WHERE = 3, ("element_id", "instance_id", "definition_id")


def _fitting(
    using: str,
    rows: QuerySet[EventSubscription],
    key: str | None,
    business_key: str | None,
    instance: UUID | None,
    values: Mapping[str, Any],
) -> QuerySet[EventSubscription]:
    """Those that wait come before start events: a message that fits an instance starts no other one."""
    waiting = rows.filter(instance_id__isnull=False)
    if key is not None:
        waiting = waiting.filter(key=key)
    if instance is not None:
        waiting = waiting.filter(instance_id=instance)
    if business_key is not None:
        named = ProcessInstance.objects.using(using).filter(business_key=business_key)
        waiting = waiting.filter(instance_id__in=named.values("pk"))
    for name, value in values.items():
        equal = Variable.objects.using(using).filter(value_is(value), name=name)
        waiting = waiting.filter(instance_id__in=equal.values("scope_id"))
    starts = rows.filter(instance_id__isnull=True)
    if key is not None or instance is not None or values or waiting.exists():
        return waiting.order_by("root_id", "pk")  # the order in which the steps lock their topmost instances
    return starts.order_by("pk")


def _having(using: str, found: Sequence[tuple[UUID, UUID | None]], values: Mapping[str, Any]) -> list[UUID]:
    """The subscriptions of the instances whose variables really have these values; see :func:`is_value`."""
    others: set[UUID] = set()
    if values:
        rows = Variable.objects.using(using).filter(name__in=values, scope_id__in={instance for _, instance in found})
        stored_values = rows.values_list("scope_id", "name", "value")
        others = {scope for scope, name, stored in stored_values if not is_value(stored, values[name])}
    return [id for id, instance in found if instance not in others]


def signal(
    name: str, variables: Mapping[str, Any] | None = None, *, tenant_id: str = "", using: str | None = None
) -> int:
    """Send a signal to all that wait for it. Each receiver gets a job. Returns the number of receivers."""
    database = using or router.db_for_write(ProcessInstance)
    check_text("name", name)
    given = dict(variables or {})
    check_variables(given)
    return send_beyond(database, tenant_id, None, [Signal(name, given)])
