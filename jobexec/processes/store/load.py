"""Lock a call hierarchy, and load its rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from math import ceil
from typing import Any
from uuid import UUID

from django.db import OperationalError, connections
from django.db.models import QuerySet

from jobexec.conf import get_settings
from jobexec.handlers.context import current_job
from jobexec.operations.sql.dialect import dialect
from jobexec.operations.sql.errors import is_conflict
from jobexec.operations.sql.locks import has_skip_locked, lock_rows, reads_snapshots, waiting_at_most

from ..definition import Trigger
from ..engine import rows
from ..engine.tokens import Tokens
from ..exceptions import InstanceBusy
from ..models import EventSubscription, Execution, ProcessInstance, Variable
from ..models.instance import RUNNING
from . import definitions


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
    if reads_snapshots(using):
        # What has begun earlier, and waits for this lock, has not seen what is done now. The change makes PostgreSQL
        # end it; MariaDB lets it read by locks what there is (_now).
        rows.update(root_id=root)
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


def load(using: str, root: UUID, origin: ProcessInstance | None = None) -> Tokens:
    """All rows of a call hierarchy. What has ended is not among them.

    ``origin`` is the row of its topmost instance, if that is locked. What its definitions say cannot be there is not
    asked for.
    """
    spelled = dialect(using)
    now = _now if origin is not None and reads_snapshots(using) else _as_seen
    if spelled.native_types and spelled.writes_in_with:
        tokens, variables = _in_one_statement(using, root)
    else:
        tokens, variables = _in_two_statements(using, root, now)
    if origin is not None and all(token.called is None for token in tokens):
        instances = [origin]
    else:
        running = ProcessInstance.objects.using(using).filter(root_id=root, state__in=RUNNING)
        instances = list(now(running.order_by("pk")))
    subscriptions = _subscriptions(using, root, instances, now)
    return Tokens([_instance(row) for row in instances], tokens, variables, subscriptions)


Variables = dict[UUID, dict[str, Any]]
Seen = Callable[[QuerySet[Any]], QuerySet[Any]]


def _as_seen(queryset: QuerySet[Any]) -> QuerySet[Any]:
    return queryset


def _now(queryset: QuerySet[Any]) -> QuerySet[Any]:
    """What there is, for a transaction that reads what there was: InnoDB tells it to those who lock."""
    return lock_rows(queryset)


def _in_two_statements(using: str, root: UUID, now: Seen) -> tuple[list[rows.Token], Variables]:
    executions = now(Execution.objects.using(using).filter(root_id=root).order_by("pk"))
    variables: Variables = {}
    found = now(Variable.objects.using(using).filter(root_id=root))
    for scope, name, value in found.values_list("scope_id", "name", "value"):
        variables.setdefault(scope, {})[name] = value
    return [_token(row) for row in executions.values_list(*_TOKEN)], variables


def _in_one_statement(using: str, root: UUID) -> tuple[list[rows.Token], Variables]:
    tokens: list[rows.Token] = []
    variables: Variables = {}
    with connections[using].cursor() as cursor:
        cursor.execute(_BOTH, [root, root])
        for is_variable, *token, text in cursor.fetchall():
            value = text if not isinstance(text, str) else json.loads(text)
            if is_variable:
                _, _, scope, name, *_ = token
                variables.setdefault(scope, {})[name] = value
            else:
                tokens.append(_token((*token, value)))
    tokens.sort(key=_by_id)
    return tokens, variables


def _by_id(token: rows.Token) -> UUID:
    return token.id


#: Tokens, and variables in the same columns; all names are our own.
_BOTH = f"""
SELECT false, id, instance_id, parent_id, element_id, flow_id, state, activity_id, entered_at, job_id,
 called_instance_id, data FROM {Execution._meta.db_table} WHERE root_id = %s
UNION ALL
SELECT true, id, instance_id, scope_id, name, NULL, '', NULL, NULL, NULL, NULL, value
FROM {Variable._meta.db_table} WHERE root_id = %s
"""

_TOKEN = (
    "pk", "instance_id", "parent_id", "element_id", "flow_id", "state", "activity_id", "entered_at", "job_id",
    "called_instance_id", "data",
)  # fmt: skip


def _token(row: tuple[Any, ...]) -> rows.Token:
    """From the columns above, which are in the order of the fields."""
    id, instance, parent, element, flow, state, *rest = row
    return rows.Token(id, instance, parent, element, flow, rows.State(state), *rest)


def _subscriptions(using: str, root: UUID, instances: Iterable[ProcessInstance], now: Seen) -> list[rows.Subscription]:
    processes = [definitions.process(using, row.definition_id) for row in instances]
    if all(process.awaits.isdisjoint(_SUBSCRIBED) for process in processes):
        return []
    found = EventSubscription.objects.using(using).filter(root_id=root).order_by("pk")
    return [_subscription(row) for row in now(found)]


_SUBSCRIBED = frozenset({Trigger.MESSAGE, Trigger.SIGNAL})


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
