"""The context of a service task or a listener."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any
from uuid import UUID

from jobexec.handlers.context import JobContext, current_job

from ..engine.environment import HandlerCall, Notice, Scope
from ..models import UserTask

logger = logging.getLogger("jobexec.processes.task")


class Variables(MutableMapping[str, Any]):
    """The variables that an element sees. What is set is written where the variable is, else to the instance."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.changed: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        return self.changed[name] if name in self.changed else self._scope[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.changed[name] = value

    def __delitem__(self, name: str) -> None:
        raise TypeError("A variable cannot be deleted by a task; set it to None.")

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self._scope), **dict.fromkeys(self.changed)})

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<variables {', '.join(self)}>"


class TaskContext:
    """Passed to functions of ``@service_task``."""

    def __init__(self, call: HandlerCall) -> None:
        scope = call.scope
        self.variables = Variables(scope)
        self.business_key: str = scope.business_key or ""
        self.instance_id: UUID = scope.instance_id
        self.execution_id: UUID = scope.execution_id
        self.element_id: str = call.node.id
        self.headers: Mapping[str, str] = call.work.headers
        self.arguments: Any = call.arguments
        self.logger = logger

    @property
    def job(self) -> JobContext | None:
        """The job that this step is a part of; None in a step that a caller makes, such as a start."""
        return current_job()


class ListenerContext:
    """Passed to functions of ``@listener``.

    ``event`` is ``start``, ``end`` or ``take``; of a task listener ``create``, ``assignment``, ``complete`` or
    ``delete``. ``cancelled``: the element ends because it is interrupted or cancelled; a BpmnError then fails the step.
    """

    def __init__(self, notice: Notice, task: Callable[[], UserTask] | None) -> None:
        scope = notice.scope
        self._task = task
        self.event: str = notice.listener.when.value
        self.variables: Mapping[str, Any] = scope
        self.business_key: str = scope.business_key or ""
        self.instance_id: UUID = scope.instance_id
        self.element_id: str = getattr(notice.element, "id", "") or getattr(notice.element, "key", "")
        self.cancelled = notice.cancelled
        self.logger = logger

    @property
    def task(self) -> UserTask | None:
        """The row of the task, for reading; it may not be saved yet. None for an execution listener."""
        return None if self._task is None else self._task()
