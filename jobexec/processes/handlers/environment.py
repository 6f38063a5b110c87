"""The world around the engine: handlers, expressions, definitions, ids and the clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime
from functools import cache, partial
from inspect import iscoroutinefunction
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync

from jobexec import clock
from jobexec.handlers.context import current_job
from jobexec.handlers.function import JobFunction
from jobexec.identifiers import uuid7
from jobexec.operations.sql.insert import json_text
from jobexec.redaction import secrets_of
from jobexec.sensitive import note_values, redact_text, values_below

from ..definition import Expression, Process
from ..engine.environment import Called, Declared, HandlerCall, Notice, Scope
from ..engine.exceptions import NoValue, StepError
from ..engine.tokens import Tokens
from ..exceptions import UnknownProcess
from ..expressions import EvaluationContext, EvaluationError, parse
from ..models import UserTask
from ..store import definitions, load
from ..store.forms import task_row
from ..store.suspensions import refuse_start, suspension_of
from ..store.timers import local_now
from .context import ListenerContext, TaskContext
from .objects import OF_TASK, Properties, of_execution, with_event
from .registry import declared, find_listener, find_service, functions

#: How long the last call of each handler took in this process, in seconds.
_took: dict[str, float] = {}
_QUICK = 0.003


def is_quick(handler: str) -> bool:
    """Whether the last call of a handler in this process took less than three milliseconds."""
    return _took.get(handler, _QUICK) < _QUICK


class StepEnvironment:
    """What the engine asks for, in one step on one database."""

    def __init__(self, using: str, tenant: str) -> None:
        self.using, self.tenant = using, tenant
        self._of_execution = of_execution(using, tenant)
        self._resolved: dict[Called, str] = {}

    def evaluate(self, expression: Expression, variables: Scope) -> Any:
        return self._evaluate(expression, variables, self._objects(variables))

    def _objects(self, scope: Scope) -> dict[str, Properties]:
        return {"execution": Properties(self._of_execution, scope)}

    def _evaluate(self, expression: Expression, scope: Scope, objects: dict[str, Properties]) -> Any:
        parsed = parse(expression.text, expression.language.value)
        names = definitions.results_of(self.using, scope.definition)
        context = EvaluationContext(functions(), objects, partial(local_now, self.using), items_exist=bool(names))
        try:
            return parsed.evaluate(Lenient(scope, names) if names else scope, context)
        except EvaluationError as error:
            raise NoValue(scope.element_id or scope.definition, str(error)) from error

    def declared(self, handler: str) -> Declared:
        return declared(handler)

    def call(self, call: HandlerCall) -> Any:
        """Run a handler within the step. What it returns is set after the variables that it has changed."""
        assert call.work.handler is not None
        found = find_service(call.work.handler)
        began = clock.monotonic()
        try:
            return _run_function(found, call.arguments) if isinstance(found, JobFunction) else run_service(found, call)
        finally:
            _took[call.work.handler] = clock.monotonic() - began

    def notify(self, notice: Notice) -> None:
        listener, scope = notice.listener, notice.scope
        task = cache(partial(self._task, notice)) if listener.when.is_of_task else None
        if listener.handler is not None:
            find_listener(listener.handler)(ListenerContext(notice, task))
        elif listener.expression is None:
            return
        elif task is not None:
            of_task = Properties(with_event(OF_TASK, listener.when), task)
            self._evaluate(listener.expression, scope, {**self._objects(scope), "task": of_task})
        else:
            of_execution = Properties(with_event(self._of_execution, listener.when), scope)
            self._evaluate(listener.expression, scope, {"execution": of_execution})

    def _task(self, notice: Notice) -> UserTask:
        """As it is stored, or as this step will store it."""
        scope = notice.scope
        if notice.task is None:
            return load.user_task(self.using, scope.execution_id, scope.activity_id)
        columns = {"root_id": scope.instance.root, "definition_id": scope.definition, "tenant_id": self.tenant}
        return task_row(notice.task, self.now(), **columns)

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


def _run_function(function: JobFunction[..., Any], arguments: Any) -> Any:
    """Call a ``@job`` function as in a job of its own, whose row would have its arguments as JSON.

    The step of a caller has no job, and so no context.
    """
    text = json_text(arguments)
    read = function.read(text)
    context = current_job()
    try:
        if context is not None:
            return function.execute(context, read)
        args, kwargs, *_ = read
        return function.function(*([None] if function.takes_context else []), *args, **kwargs)
    except Exception as error:
        note_values(error, secrets_of(function, text))
        raise


def run_service(function: Callable[..., Any], call: HandlerCall) -> Any:
    """Call a function of ``@service_task``; what it sets goes into ``call.changed``. Returns what it returns."""
    if iscoroutinefunction(function):
        return async_to_sync(run_coroutine)(function, call)
    context = TaskContext(call)
    result = function(context)
    call.changed.update(context.variables.changed)
    return result


async def run_coroutine(function: Callable[..., Awaitable[Any]], call: HandlerCall) -> Any:
    """:func:`run_service` for a coroutine function."""
    context = TaskContext(call)
    result = await function(context)
    call.changed.update(context.variables.changed)
    return result


class noting_variables:
    """A failure within the block may quote any variable at hand: the sensitive ones are noted with it.

    They are cut out of the messages of our own errors at once, which callers and clients see.
    """

    __slots__ = ("_tokens",)

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            hide_variables(error, self._tokens)


def hide_variables(error: BaseException, tokens: Tokens) -> None:
    """What :class:`noting_variables` does with a failure."""
    secrets = [value for variables in tokens.variables.values() for value in values_below(variables)]
    note_values(error, secrets)
    if secrets and isinstance(error, StepError | UnknownProcess) and error.args:
        error.args = tuple(redact_text(arg, secrets) if isinstance(arg, str) else arg for arg in error.args)
        if isinstance(error, StepError):
            error.message = redact_text(error.message, secrets)


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
