"""The world around the engine: handlers, expressions, definitions, ids and the clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from jobexec import clock
from jobexec.handlers.context import current_job
from jobexec.handlers.function import JobFunction
from jobexec.identifiers import uuid7

from ..definition import Expression, Process
from ..engine.environment import Called, HandlerCall, Notice, Scope
from ..expressions import EvaluationContext, parse
from ..store import definitions
from ..store.jobs import NO_ARGUMENTS
from .context import ListenerContext, TaskContext, result_of
from .registry import find_listener, find_service, functions


class StepEnvironment:
    """What the engine asks for, in one step on one database."""

    def __init__(self, using: str, tenant: str) -> None:
        self.using, self.tenant = using, tenant

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

    def call(self, call: HandlerCall) -> Any:
        """Run a handler within the step."""
        assert call.work.handler is not None
        found = find_service(call.work.handler)
        if isinstance(found, JobFunction):
            given = call.arguments or NO_ARGUMENTS
            args, kwargs = given["args"], given["kwargs"]
            return found.function(*([current_job()] if found.takes_context else []), *args, **kwargs)
        context = TaskContext(call)
        return result_of(call.work, context, found(context))

    def notify(self, notice: Notice) -> None:
        if notice.listener.handler is not None:
            find_listener(notice.listener.handler)(ListenerContext(notice))
        elif notice.listener.expression is not None:
            self.evaluate(notice.listener.expression, notice.scope)

    def process(self, definition: str) -> Process:
        return definitions.process(self.using, definition)

    def resolve(self, called: Called) -> str:
        return definitions.resolve(self.using, self.tenant, called)

    def new_id(self) -> UUID:
        return uuid7()

    def now(self) -> datetime:
        return clock.now(self.using)


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
