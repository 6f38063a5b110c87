"""Lock a call hierarchy, and load its rows."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Any
from uuid import UUID

from django.db import OperationalError
from django.db.models import QuerySet

from jobexec.conf import get_settings
from jobexec.handlers.context import current_job
from jobexec.operations.sql.errors import is_conflict
from jobexec.operations.sql.locks import has_skip_locked, lock_rows, waiting_at_most

from ..engine import rows
from ..engine.tokens import Tokens
from ..exceptions import InstanceBusy
from ..models import EventSubscription, Execution, ProcessInstance, Variable
from ..models.instance import RUNNING


def lock(using: str, roots: Iterable[UUID]) -> list[UUID]:
    """Lock the topmost instances of call hierarchies, in the order of their ids; returns those that still run.

    To be called in the transaction of a step, before any other statement that locks.
    """
    found = lock_rows(ProcessInstance.objects.using(using).filter(pk__in=list(roots)).order_by("pk"))
    return [pk for pk, state in found.values_list("pk", "state") if state in RUNNING]


def locked(using: str, root: UUID) -> ProcessInstance | None:
    """Lock one hierarchy and return the row of its topmost instance; None if it has ended.

    A job waits as long as it takes, since it would otherwise lose what its handler has done. Raises InstanceBusy for
    any other caller who would wait longer than LOCK_TIMEOUT.
    """
    rows = ProcessInstance.objects.using(using).filter(pk=root)
    found = _locked_in_time(using, root, rows) if current_job() is None else lock_rows(rows).first()
    return found if found is not None and found.state in RUNNING else None


def _locked_in_time(using: str, root: UUID, rows: QuerySet[ProcessInstance]) -> ProcessInstance | None:
    """Limiting the wait takes statements of its own, so first look whether there is one."""
    timeout = get_settings().processes.lock_timeout
    if timeout is None:
        return lock_rows(rows).first()
    found = lock_rows(rows, skip_locked=True).first() if has_skip_locked(using) else None
    if found is not None:
        return found
    try:
        with waiting_at_most(using, ceil(timeout.total_seconds())):
            return lock_rows(rows).first()
    except OperationalError as error:
        if not is_conflict(error):
            raise
        raise InstanceBusy(
            f"Another step of the process instance {root} has not ended within {timeout.total_seconds():g} seconds."
        ) from error


def root_of(using: str, instance: UUID) -> UUID | None:
    """The topmost instance of the hierarchy of an instance that runs; None if there is none."""
    found = ProcessInstance.objects.using(using).filter(pk=instance, state__in=RUNNING)
    return found.values_list("root_id", flat=True).first()


def load(using: str, root: UUID) -> Tokens:
    """All rows of a call hierarchy. What has ended is not among them."""
    instances = ProcessInstance.objects.using(using).filter(root_id=root, state__in=RUNNING).order_by("pk")
    tokens = Execution.objects.using(using).filter(root_id=root).order_by("pk")
    subscriptions = EventSubscription.objects.using(using).filter(root_id=root).order_by("pk")
    variables: dict[UUID, dict[str, Any]] = {}
    found = Variable.objects.using(using).filter(root_id=root)
    for scope, name, value in found.values_list("scope_id", "name", "value"):
        variables.setdefault(scope, {})[name] = value
    return Tokens(
        [_instance(row) for row in instances],
        [_token(row) for row in tokens],
        variables,
        [_subscription(row) for row in subscriptions],
    )


def _instance(row: ProcessInstance) -> rows.Instance:
    return rows.Instance(
        id=row.pk,
        definition=row.definition_id,
        root=row.root_id,
        parent=row.parent_execution_id,
        business_key=row.business_key or None,
        state=rows.InstanceState(row.state),
        started_at=row.start_time,
        reason=row.delete_reason or None,
    )


def _token(row: Execution) -> rows.Token:
    return rows.Token(
        id=row.pk,
        instance=row.instance_id,
        parent=row.parent_id,
        element=row.element_id,
        flow=row.flow_id,
        state=rows.State(row.state),
        activity=row.activity_id,
        entered_at=row.entered_at,
        job=row.job_id,
        called=row.called_instance_id,
        data=row.data,
    )


def _subscription(row: EventSubscription) -> rows.Subscription:
    assert row.instance_id is not None and row.owner_id is not None  # those of start events have no root
    return rows.Subscription(
        id=row.pk,
        kind=rows.SubscriptionKind(row.kind),
        name=row.name,
        key=row.key or None,
        instance=row.instance_id,
        owner=row.owner_id,
        element=row.element_id,
        activity=row.activity_id,
    )
