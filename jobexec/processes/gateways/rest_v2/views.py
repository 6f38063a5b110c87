"""Rows with what is shown of them from other tables, for a page of rows at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from jobexec.models import Incident, IncidentState

from ...models import (
    Execution,
    ProcessDefinition,
    ProcessInstance,
    ProcessResource,
    TaskCandidate,
    UserTask,
    Variable,
)
from ...models.instance import RUNNING
from ...store.suspensions import suspended

_PAGE = 500


@dataclass(frozen=True)
class DefinitionView:
    row: ProcessDefinition
    file: str


@dataclass(frozen=True)
class InstanceView:
    """``parent`` is the key of the instance that has called it, while that runs."""

    row: ProcessInstance
    definition: ProcessDefinition
    root: int | None
    parent: int | None
    has_incident: bool
    suspended_at: datetime | None = None


@dataclass(frozen=True)
class TaskView:
    row: UserTask
    definition: ProcessDefinition
    instance: ProcessInstance | None
    root: int | None
    users: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class VariableView:
    """``scope`` is the key of its instance, or of the user task that it is local to; None for another element."""

    row: Variable
    instance: ProcessInstance | None
    root: int | None
    scope: int | None


def key_of(instance: ProcessInstance | None) -> int | None:
    return None if instance is None else instance.key


def definition_views(using: str, rows: Sequence[ProcessDefinition]) -> list[DefinitionView]:
    files: dict[UUID, str] = {}
    for page in _pages(list({row.resource_id for row in rows if row.resource_id})):
        files |= dict(ProcessResource.objects.using(using).filter(pk__in=page).values_list("pk", "name"))
    return [DefinitionView(row, files.get(row.resource_id, "") if row.resource_id else "") for row in rows]


def instance_views(using: str, rows: Sequence[ProcessInstance]) -> list[InstanceView]:
    found = []
    for page in _pages(rows):
        definitions = _definitions(using, page)
        around = _executions(using, {row.parent_execution_id for row in page if row.parent_execution_id})
        keys = _keys(using, {*around.values(), *(row.root_id for row in page if row.root_id != row.pk)})
        keys |= {row.pk: row.key for row in page}
        open_ones = Incident.objects.using(using).filter(state=IncidentState.OPEN)
        failed = set(
            open_ones.filter(process_instance_id__in=[str(row.pk) for row in page]).values_list(
                "process_instance_id", flat=True
            )
        )
        held = suspended(using, [row for row in page if row.state in RUNNING])
        for row in page:
            parent = keys.get(around[row.parent_execution_id]) if row.parent_execution_id in around else None
            definition = definitions.get(row.definition_id) or ProcessDefinition(key=row.definition_key)
            found.append(
                InstanceView(row, definition, keys.get(row.root_id), parent, str(row.pk) in failed, held.get(row.pk))
            )
    return found


def task_views(using: str, rows: Sequence[UserTask]) -> list[TaskView]:
    found = []
    for page in _pages(rows):
        definitions, instances = _definitions(using, page), _instances(using, page)
        keys = _keys(using, {row.root_id for row in page})
        candidates: dict[tuple[UUID, str], list[str]] = defaultdict(list)
        named = TaskCandidate.objects.using(using).filter(task_id__in=[row.pk for row in page]).order_by("name")
        for task, kind, name in named.values_list("task_id", "kind", "name"):
            candidates[task, kind].append(name)
        for row in page:
            definition = definitions.get(row.definition_id) or ProcessDefinition(key="")
            users, groups = (candidates[row.pk, kind] for kind in (TaskCandidate.USER, TaskCandidate.GROUP))
            instance = instances.get(row.instance_id)
            found.append(TaskView(row, definition, instance, keys.get(row.root_id), users, groups))
    return found


def variable_views(using: str, rows: Sequence[Variable]) -> list[VariableView]:
    found = []
    for page in _pages(rows):
        instances, keys = _instances(using, page), _keys(using, {row.root_id for row in page})
        tasks = UserTask.objects.using(using).filter(owner_id__in=[row.scope_id for row in page])
        scopes: dict[UUID, int | None] = dict(tasks.values_list("owner_id", "key"))
        scopes |= {pk: row.key for pk, row in instances.items()}
        for row in page:
            instance, scope = instances.get(row.instance_id), scopes.get(row.scope_id)
            found.append(VariableView(row, instance, keys.get(row.root_id), scope))
    return found


def _definitions(using: str, rows: Iterable[Any]) -> dict[str, ProcessDefinition]:
    found = ProcessDefinition.objects.using(using).defer("model")
    return found.in_bulk(list({row.definition_id for row in rows}))


def _instances(using: str, rows: Iterable[Any]) -> dict[UUID, ProcessInstance]:
    found = ProcessInstance.objects.using(using).defer("final_variables")
    return found.in_bulk(list({row.instance_id for row in rows}))


def _executions(using: str, ids: set[UUID]) -> dict[UUID | None, UUID]:
    return dict(Execution.objects.using(using).filter(pk__in=ids).values_list("pk", "instance_id"))


def _keys(using: str, ids: set[UUID]) -> dict[UUID, int | None]:
    return dict(ProcessInstance.objects.using(using).filter(pk__in=ids).values_list("pk", "key"))


def _pages(rows: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (rows[start : start + _PAGE] for start in range(0, len(rows), _PAGE))
