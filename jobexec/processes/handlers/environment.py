"""The world around the engine: handlers, expressions, definitions, ids and the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from inspect import iscoroutinefunction
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync

from jobexec import clock
from jobexec.handlers.context import current_job
from jobexec.handlers.function import JobFunction
from jobexec.identifiers import uuid7

from ..definition import Expression, Process
from ..engine.environment import Called, Declared, HandlerCall, Notice, Scope
from ..expressions import EvaluationContext, parse
from ..store import definitions
from ..store.suspensions import refuse_start, suspension_of
from .context import ListenerContext, TaskContext
from .registry import declared, find_listener, find_service, functions


class StepEnvironment:
    """What the engine asks for, in one step on one database."""

    def __init__(self, using: str, tenant: str) -> None:
        self.using, self.tenant = using, tenant
        self._resolved: dict[Called, str] = {}

    def evaluate(self, expression: Expression, variables: Scope) -> Any:
        parsed = parse(expression.text, expression.language.value)
        names = definitions.results_of(self.using, variables.definition)
        return parsed.evaluate(Lenient(variables, names) if names else variables, self._surroundings(variables))

    def _surroundings(self, scope: Scope) -> EvaluationContext:
        execution = {
            "id": str(scope.execution_id),
            "processInstanceId": str(scope.instance_id),
            "businessKey": scope.business_key,
            "processBusinessKey": scope.business_key,
            "currentActivityId": scope.element_id,
        }
        return EvaluationContext(functions=functions(), objects={"execution": execution}, now=self.now)

    def declared(self, handler: str) -> Declared:
        return declared(handler)

    def call(self, call: HandlerCall) -> Any:
        """Run a handler within the step. What it returns is set after the variables that it has changed."""
        assert call.work.handler is not None
        found = find_service(call.work.handler)
        if isinstance(found, JobFunction):
            args, kwargs = call.arguments["args"], call.arguments["kwargs"]
            return found.function(*([current_job()] if found.takes_context else []), *args, **kwargs)
        return run_service(found, call)

    def notify(self, notice: Notice) -> None:
        if notice.listener.handler is not None:
            find_listener(notice.listener.handler)(ListenerContext(notice))
        elif notice.listener.expression is not None:
            self.evaluate(notice.listener.expression, notice.scope)

    def process(self, definition: str) -> Process:
        return definitions.process(self.using, definition)

    def resolve(self, called: Called) -> str:
        if called not in self._resolved:  # a multi-instance calls one process many times
            found = definitions.resolve(self.using, self.tenant, called)
            refuse_start(self.using, found, self.tenant)
            self._resolved[called] = found
        return self._resolved[called]

    def is_suspended(self, instance: UUID, definition: str) -> bool:
        return suspension_of(self.using, instance, definition, self.tenant) is not None

    def new_id(self) -> UUID:
        return uuid7()

    def now(self) -> datetime:
        return clock.now(self.using)


def run_service(function: Callable[..., Any], call: HandlerCall) -> Any:
    """Call a function of ``@service_task``; what it sets goes into ``call.changed``. Returns what it returns."""
    context = TaskContext(call)
    result = async_to_sync(function)(context) if iscoroutinefunction(function) else function(context)
    call.changed.update(context.variables.changed)
    return result


class Lenient(Mapping[str, Any]):
    """Variables of a flow: the result of a step that was skipped, or is not over, is None."""

    def __init__(self, variables: Mapping[str, Any], names: frozenset[str]) -> None:
        self._variables, self._names = variables, names

    def __getitem__(self, name: str) -> Any:
        try:
            return self._variables[name]
        except KeyError:
            if name in self._names:
                return None
            raise

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self._names), **dict.fromkeys(self._variables)})

    def __len__(self) -> int:
        return sum(1 for _ in self)
