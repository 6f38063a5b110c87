"""Write what a step has changed."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model
from django.dispatch import Signal

from jobexec.identifiers import uuid7s
from jobexec.operations.history.keys import next_keys
from jobexec.operations.notify.signals import announce
from jobexec.operations.notify.wake_workers import wake_workers_on_commit
from jobexec.operations.sql.delete import delete_rows

from .. import signals
from ..engine import rows
from ..engine.tokens import Changes, Tokens
from ..models import (
    ActivityInstance,
    EventSubscription,
    Execution,
    ProcessInstance,
    TaskCandidate,
    UserTask,
    Variable,
)
from . import definitions
from .columns import key_of
from .forms import names, task_row
from .history import ended
from .items import discard_items
from .statement import Statement

_MOVED = ("element_id", "flow_id", "state", "activity_id", "entered_at", "job_id", "called_instance_id", "data")
M = TypeVar("M", bound=Model)
#: The columns of a row.
Columns = dict[str, Any]
#: Rows of one statement.
_PAGE = 500
#: What precedes the id of an instance in the notification of its end.
ENDED = "jobexec.processes.ended:"


class Flush:
    """The rows of one step, in the transaction that has locked its hierarchy. ``origin`` is its topmost instance.

    ``statement`` is sent by the caller, who may gather several hierarchies in it.
    """

    def __init__(
        self,
        using: str,
        origin: ProcessInstance,
        tokens: Tokens,
        changes: Changes,
        now: datetime,
        statement: Statement,
    ) -> None:
        self.using, self.origin, self.tokens, self.changes, self.now = using, origin, tokens, changes, now
        self.statement = statement
        self._made: list[Columns] = []
        #: Of the user tasks that are over, by the arrivals to which they belonged.
        self._assignees: dict[UUID | None, str] = {}

    def gather(self) -> None:
        """Deletions first: a name of a variable may come again in another scope, never in the same."""
        if self.changes.left_batches:
            discard_items(self.using, self.changes.left_batches)
        self._delete()
        self._write_instances()
        self._write_tokens()
        self._write_variables()
        self._write_waiting()
        self._write_history()
        self._tell_of_ends()

    def _delete(self) -> None:
        changes, using = self.changes, self.using
        over = [row.id for row in changes.changed_instances if row.state not in rows.RUNNING]
        self.statement.delete(Variable, "scope_id", [*changes.gone_tokens, *over])
        names: dict[Any, list[str]] = {}
        for scope, name in changes.gone_variables:
            names.setdefault(scope, []).append(name)
        for scope, gone in names.items():
            for start in range(0, len(gone), _PAGE):
                rows_of_scope = Variable.objects.using(using).filter(scope_id=scope)
                delete_rows(rows_of_scope.filter(name__in=gone[start : start + _PAGE]))
        self.statement.delete(Execution, "id", changes.gone_tokens)
        self.statement.delete(EventSubscription, "id", changes.gone_subscriptions)
        self._delete_tasks()

    def _delete_tasks(self) -> None:
        """User tasks of executions that are gone, or that wait for something else now."""
        gone = set(self.changes.gone_tokens) | {owner for owner, _ in self.changes.disarmed}
        instances = self.tokens.instances_at_hand
        if not gone or not any(definitions.process(self.using, row.definition).has_user_tasks for row in instances):
            return
        tasks = UserTask.objects.using(self.using).filter(root_id=self.origin.root_id, owner_id__in=gone)
        over = list(tasks.values_list("pk", "activity_id", "assignee"))
        self._assignees = {activity: assignee for _, activity, assignee in over}
        if ids := [pk for pk, _, _ in over]:
            delete_rows(TaskCandidate.objects.using(self.using).filter(task_id__in=ids))
            delete_rows(UserTask.objects.using(self.using).filter(pk__in=ids))

    def _write_instances(self) -> None:
        changes = self.changes
        keys = next_keys(self.using, len(changes.new_instances))
        made = [self._new_instance(row, key) for row, key in zip(changes.new_instances, keys, strict=True)]
        self._made = made
        self.statement.insert(ProcessInstance, made)
        self._tell(signals.process_started, ProcessInstance, "instances", made)
        self.statement.lift([row.id for row in changes.changed_instances if row.state not in rows.RUNNING])
        for row in changes.changed_instances:
            self.statement.update(ProcessInstance, row.id, ended(self.using, row))
            if row.id == self.origin.pk and self.origin.awaited and row.state not in rows.RUNNING:
                wake_workers_on_commit(self.using, [awaited_as(row.id)])

    def _new_instance(self, row: rows.Instance, key: int) -> Columns:
        made = Columns(
            id=row.id,
            key=key,
            awaited=row.id == self.origin.pk and self.origin.awaited,
            definition_id=row.definition,
            definition_key=key_of(row.definition),
            root_id=row.root,
            parent_execution_id=row.parent,
            business_key=row.business_key or "",
            tenant_id=self.origin.tenant_id,
            start_time=row.started_at or self.now,
            start_user=self.origin.start_user,
            **ended(self.using, row),
        )
        if row.id == self.origin.pk:
            _take_over(self.origin, made)
        return made

    def _write_tokens(self) -> None:
        """All in one upsert: no other transaction has one of these ids, or can delete one meanwhile."""
        written = [*self.changes.changed_tokens, *self.changes.new_tokens]
        update = _MOVED if self.changes.changed_tokens else ()
        self.statement.insert(Execution, [self._execution(row) for row in written], ["id"], update)

    def _execution(self, row: rows.Token) -> Columns:
        return Columns(
            id=row.id,
            root_id=self.origin.root_id,
            instance_id=row.instance,
            definition_id=self.tokens.definition(row.instance),
            parent_id=row.parent,
            element_id=row.element,
            flow_id=row.flow,
            state=row.state.value,
            activity_id=row.activity,
            entered_at=row.entered_at,
            job_id=row.job,
            called_instance_id=row.called,
            data=row.data,
        )

    def _write_variables(self) -> None:
        written = self.changes.variables.items()
        made = [
            Columns(
                id=id,
                root_id=self.origin.root_id,
                instance_id=self._instance_of(scope),
                scope_id=scope,
                name=name,
                value=value,
            )
            for id, ((scope, name), value) in zip(uuid7s(len(written)), written, strict=True)
        ]
        self.statement.insert(Variable, made, ["scope_id", "name"], ["value"])

    def _instance_of(self, scope: Any) -> Any:
        place = self.tokens.find(scope)
        return place.instance if isinstance(place, rows.Token) else scope

    def _write_waiting(self) -> None:
        self.statement.insert(EventSubscription, [self._subscription(row) for row in self.changes.new_subscriptions])
        if not self.changes.new_tasks:
            return
        keys = next_keys(self.using, len(self.changes.new_tasks))
        tasks = [self._task(row, key) for row, key in zip(self.changes.new_tasks, keys, strict=True)]
        candidates = [each for row in self.changes.new_tasks for each in _candidates(row)]
        UserTask.objects.using(self.using).bulk_create(tasks, batch_size=_PAGE)
        if signals.task_created.receivers:
            announce(signals.task_created, self.using, UserTask, tasks=tasks)
        TaskCandidate.objects.using(self.using).bulk_create(candidates, batch_size=_PAGE)

    def _subscription(self, row: rows.Subscription) -> Columns:
        return Columns(
            id=row.id,
            kind=row.kind.value,
            name=row.name,
            key=row.key or "",
            root_id=self.origin.root_id,
            instance_id=row.instance,
            owner_id=row.owner,
            element_id=row.element,
            activity_id=row.activity,
            definition_id=self.tokens.definition(row.instance),
            tenant_id=self.origin.tenant_id,
            create_time=self.now,
        )

    def _task(self, row: rows.UserTask, key: int) -> UserTask:
        return task_row(
            row,
            self.now,
            key=key,
            root_id=self.origin.root_id,
            definition_id=self.tokens.definition(row.instance),
            tenant_id=self.origin.tenant_id,
        )

    def _write_history(self) -> None:
        made = [
            Columns(
                id=row.id,
                instance_id=row.instance,
                parent_id=row.parent,
                definition_id=self.tokens.definition(row.instance),
                element_id=row.element,
                kind=row.kind,
                start_time=row.started_at,
                end_time=row.ended_at,
                state=row.state.value,
                called_instance_id=row.called,
                assignee=self._assignees.get(row.id, ""),
                job_id=row.job,
            )
            for row in self.changes.history
        ]
        self.statement.insert(ActivityInstance, made)
        self._tell(signals.activity_ended, ActivityInstance, "activities", made)

    def _tell(self, signal: Signal, model: type[Model], name: str, made: list[Columns]) -> None:
        """Announce new rows, which are built only if somebody hears of them."""
        if made and signal.receivers:
            rows_of_model = [stored(self.using, model(**columns)) for columns in made]
            announce(signal, self.using, model, **{name: rows_of_model})

    def _tell_of_ends(self) -> None:
        if not signals.process_ended.receivers:
            return
        over = {row.id: row for row in self.changes.changed_instances if row.state not in rows.RUNNING}
        others = ProcessInstance.objects.using(self.using).in_bulk([id for id in over if id != self.origin.pk])
        known = [self.origin if id == self.origin.pk else others[id] for id in over]
        made = [columns for columns in self._made if columns["state"] not in rows.RUNNING]
        made += [{**_columns(row), **ended(self.using, over[row.pk])} for row in known]
        self._tell(signals.process_ended, ProcessInstance, "instances", made)


def stored(using: str, row: M) -> M:
    """A row that the step has written in its own way, as one that was read."""
    row._state.db, row._state.adding = using, False
    return row


def _take_over(row: ProcessInstance, columns: Columns) -> None:
    """The row of a new instance gets what its first step has decided, as if it had been read after it was written."""
    row.key, row.start_time, row.state = columns["key"], columns["start_time"], columns["state"]
    row.end_time, row.end_element = columns["end_time"], columns["end_element"]
    row.delete_reason, row.removal_time = columns["delete_reason"], columns.get("removal_time")
    if columns["final_variables"] is not None:
        row.final_variables = json.loads(json.dumps(columns["final_variables"], cls=DjangoJSONEncoder))
    row._state.adding = False


def _columns(row: Model) -> Columns:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


def awaited_as(instance: UUID) -> str:
    """The answer to clients that wait for the end of an instance."""
    return f"{ENDED}{instance}"


def _candidates(row: rows.UserTask) -> list[TaskCandidate]:
    kinds = ((TaskCandidate.USER, "candidate_users"), (TaskCandidate.GROUP, "candidate_groups"))
    return [
        TaskCandidate(task_id=row.id, kind=kind, name=name)
        for kind, field in kinds
        for name in names(row.element, field, row.form.get(field))
    ]
