"""Lock a call hierarchy, and load its rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import Any
from uuid import UUID

from django.db import OperationalError, connections
from django.db.models import F, QuerySet

from jobexec.conf import get_settings
from jobexec.handlers.context import current_job
from jobexec.models import Job
from jobexec.operations.sql.dialect import dialect
from jobexec.operations.sql.errors import is_conflict
from jobexec.operations.sql.locks import has_skip_locked, lock_rows, reads_snapshots, waiting_at_most

from ..definition import Trigger
from ..engine import rows
from ..engine.tokens import Tokens
from ..exceptions import InstanceBusy
from ..models import EventSubscription, Execution, ProcessInstance, UserTask, Variable
from ..models.instance import RUNNING
from . import definitions


def locked(using: str, root: UUID) -> ProcessInstance | None:
    """Lock one hierarchy and return the row of its topmost instance; None if it has ended.

    A job waits as long as it takes, since it would otherwise lose what its handler has done. Raises InstanceBusy for
    any other caller who would wait longer than LOCK_TIMEOUT.
    """
    found = _locked_in_time(using, root) if current_job() is None else _locked_row(using, root)
    if reads_snapshots(using):
        # What has begun earlier, and waits for this lock, has not seen what is done now. The change makes PostgreSQL
        # end it; MariaDB lets it read by locks what there is (_now).
        ProcessInstance.objects.using(using).filter(pk=root).update(root_id=root)
    return found if found is not None and found.state in RUNNING else None


def locked_now(using: str, roots: Iterable[UUID]) -> tuple[dict[UUID, ProcessInstance], set[UUID]]:
    """Lock those of these hierarchies that run and that no other transaction has locked, in the order of their ids.

    Returns the rows of their topmost instances, and which of the others run.
    """
    ids = set(roots)
    wanted = ProcessInstance.objects.using(using).filter(pk__in=ids).order_by("pk")
    skips = has_skip_locked(using)
    rows = _locked_rows(using, ids) if _at_once(using) else lock_rows(wanted, skip_locked=skips)
    found = {row.pk: row for row in rows}
    if reads_snapshots(using):
        wanted.filter(pk__in=found).update(root_id=F("pk"))  # see locked()
    others = wanted.filter(state__in=RUNNING).exclude(pk__in=found) if skips and len(found) < len(ids) else ()
    return {root: row for root, row in found.items() if row.state in RUNNING}, {row.pk for row in others}


def _locked_row(using: str, root: UUID, *, skip_locked: bool = False) -> ProcessInstance | None:
    if not _at_once(using):
        return lock_rows(ProcessInstance.objects.using(using).filter(pk=root), skip_locked=skip_locked).first()
    with connections[using].cursor() as cursor:  # the ORM builds the statement anew for each step, for 0.2 ms
        cursor.execute(f"{_LOCK} SKIP LOCKED" if skip_locked else _LOCK, [root])
        values = cursor.fetchone()
    return None if values is None else ProcessInstance.from_db(using, _FIELDS, values)


def _locked_rows(using: str, ids: Iterable[UUID]) -> list[ProcessInstance]:
    with connections[using].cursor() as cursor:
        cursor.execute(_LOCK_ALL, [list(ids)])
        return [ProcessInstance.from_db(using, _FIELDS, values) for values in cursor.fetchall()]


#: Of an instance that runs; the JSON of one that has ended would have to be decoded.
_FIELDS = [field.attname for field in ProcessInstance._meta.concrete_fields]
_ROW = f"SELECT {', '.join(_FIELDS)} FROM {ProcessInstance._meta.db_table}"
_LOCK = f"{_ROW} WHERE id = %s FOR UPDATE"
_LOCK_ALL = f"{_ROW} WHERE id = ANY (%s) ORDER BY id FOR UPDATE SKIP LOCKED"


def _locked_in_time(using: str, root: UUID) -> ProcessInstance | None:
    """Limiting the wait takes statements of its own, so first look whether there is one."""
    timeout = get_settings().processes.lock_timeout
    if timeout is None:
        return _locked_row(using, root)
    found = _locked_row(using, root, skip_locked=True) if has_skip_locked(using) else None
    if found is not None:
        return found
    try:
        with waiting_at_most(using, ceil(timeout.total_seconds())):
            return _locked_row(using, root)
    except OperationalError as error:
        if not is_conflict(error):
            raise
        raise InstanceBusy(
            f"Another step of the process instance {root} has not ended within {timeout.total_seconds():g} seconds."
        ) from error


def user_task(using: str, owner: UUID, activity: UUID) -> UserTask:
    """The open task of a token."""
    return UserTask.objects.using(using).get(owner_id=owner, activity_id=activity)


def root_of(using: str, instance: UUID) -> UUID | None:
    """The topmost instance of the hierarchy of an instance that runs; None if there is none."""
    found = ProcessInstance.objects.using(using).filter(pk=instance, state__in=RUNNING)
    return found.values_list("root_id", flat=True).first()


def waiting(using: str, id: UUID, waits_for: UUID) -> tuple[Any, ...] | None:
    """The token to which a job belongs, if it waits for it, or for the batch ``waits_for`` of which that is a part.

    Its topmost instance, its own id, that of its activity, its instance and its definition. Nothing is locked. Found by
    primary keys only: a fork of n branches asks n times.
    """
    if _at_once(using):
        with connections[using].cursor() as cursor:
            cursor.execute(_WAITING, [id, waits_for])
            return cursor.fetchone()  # type: ignore[no-any-return]
    owner = Job.objects.using(using).filter(pk=id).exclude(execution_id="").values_list("execution_id", flat=True)
    found = Execution.objects.using(using).filter(pk__in=[UUID(each) for each in owner], job_id=waits_for)
    return found.values_list(*_WAITS).first()


_WAITS = ("root_id", "pk", "activity_id", "instance_id", "definition_id")
_WAITING = f"""
SELECT root_id, token.id, activity_id, instance_id, token.definition_id
FROM {Job._meta.db_table} job JOIN {Execution._meta.db_table} token ON token.id = nullif(job.execution_id, '')::uuid
WHERE job.id = %s AND token.job_id = %s
"""


def _at_once(using: str) -> bool:
    """Whether the database takes the statements in its own words, which this file has beside the portable ones."""
    spelled = dialect(using)
    return spelled.native_types and spelled.writes_in_with


def load(using: str, root: UUID, origin: ProcessInstance | None = None) -> Tokens:
    """All rows of a call hierarchy. What has ended is not among them.

    ``origin`` is the row of its topmost instance, if that is locked. What its definitions say cannot be there is not
    asked for.
    """
    return load_all(using, {root: origin})[root]


def load_all(using: str, origins: Mapping[UUID, ProcessInstance | None]) -> dict[UUID, Tokens]:
    """As :func:`load`, for several hierarchies, by the ids of their topmost instances."""
    now = _now if None not in origins.values() and reads_snapshots(using) else _as_seen
    tokens: dict[UUID, list[rows.Token]] = {root: [] for root in origins}
    variables: dict[UUID, Variables] = {root: {} for root in origins}
    if _at_once(using):
        _in_one_statement(using, list(origins), tokens, variables)
    else:
        _in_two_statements(using, list(origins), tokens, variables, now)
    found = {}
    for root, origin in origins.items():
        if origin is not None and all(token.called is None for token in tokens[root]):
            instances = [origin]
        else:
            running = ProcessInstance.objects.using(using).filter(root_id=root, state__in=RUNNING)
            instances = list(now(running.order_by("pk")))
        subscriptions = _subscriptions(using, root, instances, now)
        found[root] = Tokens([_instance(row) for row in instances], tokens[root], variables[root], subscriptions)
    return found


Variables = dict[UUID, dict[str, Any]]
Seen = Callable[[QuerySet[Any]], QuerySet[Any]]


def _as_seen(queryset: QuerySet[Any]) -> QuerySet[Any]:
    return queryset


def _now(queryset: QuerySet[Any]) -> QuerySet[Any]:
    """The current rows, for a transaction that reads an older snapshot: InnoDB returns them to locking reads."""
    return lock_rows(queryset)


def _in_two_statements(
    using: str,
    roots: Sequence[UUID],
    tokens: dict[UUID, list[rows.Token]],
    variables: dict[UUID, Variables],
    now: Seen,
) -> None:
    executions = now(Execution.objects.using(using).filter(root_id__in=roots).order_by("pk"))
    for root, *token in executions.values_list("root_id", *_TOKEN):
        tokens[root].append(_token(token))
    found = now(Variable.objects.using(using).filter(root_id__in=roots))
    for root, scope, name, value in found.values_list("root_id", "scope_id", "name", "value"):
        variables[root].setdefault(scope, {})[name] = value


def _in_one_statement(
    using: str, roots: Sequence[UUID], tokens: dict[UUID, list[rows.Token]], variables: dict[UUID, Variables]
) -> None:
    with connections[using].cursor() as cursor:
        cursor.execute(_BOTH, {"roots": list(roots)})
        for is_variable, root, *token, text in cursor.fetchall():
            value = text if not isinstance(text, str) else json.loads(text)
            if is_variable:
                _, _, scope, name, *_ = token
                variables[root].setdefault(scope, {})[name] = value
            else:
                tokens[root].append(_token((*token, value)))
    for found in tokens.values():
        found.sort(key=_by_id)


def _by_id(token: rows.Token) -> UUID:
    return token.id


#: Tokens, and variables in the same columns; all names are our own.
_BOTH = f"""
SELECT false, root_id, id, instance_id, parent_id, element_id, flow_id, state, activity_id, entered_at, job_id,
 called_instance_id, data FROM {Execution._meta.db_table} WHERE root_id = ANY (%(roots)s)
UNION ALL
SELECT true, root_id, id, instance_id, scope_id, name, NULL, '', NULL, NULL, NULL, NULL, value
FROM {Variable._meta.db_table} WHERE root_id = ANY (%(roots)s)
"""

_TOKEN = (
    "pk", "instance_id", "parent_id", "element_id", "flow_id", "state", "activity_id", "entered_at", "job_id",
    "called_instance_id", "data",
)  # fmt: skip


def _token(row: Sequence[Any]) -> rows.Token:
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
