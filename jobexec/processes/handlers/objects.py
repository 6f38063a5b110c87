"""What expressions know as ``execution`` and ``task``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from ..definition import When
from ..engine.environment import Scope
from ..models import UserTask
from ..store import definitions
from ..store.columns import key_of

T = TypeVar("T")
Readers = Mapping[str, Callable[[T], Any]]


class Properties(Mapping[str, Any]):
    """The properties of an object, each computed when an expression reads it."""

    def __init__(self, readers: Readers[T], subject: T) -> None:
        self._readers, self._subject = readers, subject

    def __getitem__(self, name: str) -> Any:
        return self._readers[name](self._subject)

    def __contains__(self, name: object) -> bool:
        return name in self._readers

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


def of_execution(using: str, tenant: str) -> Readers[Scope]:
    """The properties of ``execution`` in the steps of a tenant."""

    def name(scope: Scope) -> str | None:
        node = definitions.process(using, scope.definition).find(scope.element_id)
        return node.name if node is not None else None

    return {**_EXECUTION, "currentActivityName": name, "tenantId": lambda _: tenant or None}


def with_event(readers: Readers[T], event: When) -> Readers[T]:
    """The same for a listener, which alone knows its event."""
    return {**readers, "eventName": lambda _: event.value}


_EXECUTION: Readers[Scope] = {
    "activityInstanceId": lambda scope: str(scope.activity_id),
    "businessKey": lambda scope: scope.business_key,
    "currentActivityId": lambda scope: scope.element_id,
    "id": lambda scope: str(scope.execution_id),
    "parentId": lambda scope: _text(scope.parent_id),
    "processBusinessKey": lambda scope: scope.business_key,
    "processDefinitionId": lambda scope: scope.definition,
    "processDefinitionKey": lambda scope: key_of(scope.definition),
    "processInstanceId": lambda scope: str(scope.instance_id),
    "rootProcessInstanceId": lambda scope: str(scope.instance.root),
}
#: The task is read when its first property is.
OF_TASK: Readers[Callable[[], UserTask]] = {
    "assignee": lambda task: task().assignee or None,
    "dueDate": lambda task: task().due_date,
    "executionId": lambda task: str(task().owner_id),
    "followUpDate": lambda task: task().follow_up_date,
    "id": lambda task: str(task().pk),
    "name": lambda task: task().name or None,
    "priority": lambda task: task().priority,
    "processDefinitionId": lambda task: task().definition_id,
    "processInstanceId": lambda task: str(task().instance_id),
    "taskDefinitionKey": lambda task: task().element_id,
    "tenantId": lambda task: task().tenant_id or None,
}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
