"""The handler of a task: run by executors, and used to convert its calls to rows."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping, Sequence
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from asgiref.sync import sync_to_async

from jobexec.conf import get_settings
from jobexec.encryption import seal
from jobexec.handlers.base import NotBegun
from jobexec.handlers.context import JobContext
from jobexec.handlers.function import JobFunction
from jobexec.identifiers import uuid7
from jobexec.json_values import first_fault

from . import events
from .compat import TaskResultStatus, normalize_json
from .config import BackendOptions
from .context import JobExecutorTaskContext
from .lookup import backends_on
from .options import Delayed, of_job
from .results import LiveTaskResult
from .task import rebuilt

if TYPE_CHECKING:
    from jobexec.conf import Settings
    from jobexec.operations.values.acquired_job import AcquiredJob
    from jobexec.operations.values.failure import Failure

#: The key beside ``args`` and ``kwargs`` in ``handler_configuration``, for a queue not named like its category.
QUEUE = "queue_name"


class TaskArguments(NamedTuple):
    """A task's call as stored in its row; ``queue_name`` is None if it is that of its category."""

    args: list[Any]
    kwargs: dict[str, Any]
    queue_name: str | None


class TaskFunction(JobFunction[Any, Any]):
    """The function of a task as a job handler; its name is the path of the task.

    ``task`` is the declared task, ``alias`` the backend of its jobs. Also made for calls: then ``task`` is the one
    enqueued.
    """

    #: Its return value is stored, see :class:`jobexec.handlers.base.ResultHandler`.
    keeps_result = True

    def __init__(self, task: Any, alias: str, config: BackendOptions) -> None:
        options, category = config.merged(task), config.category(task.queue_name)
        made: Any = of_job(options) | {"priority": task.priority, "category": category}
        if config.database is not None:
            made["database"] = config.database
        aliases, sensitive = options.get("aliases", ()), options.get("sensitive", ())
        super().__init__(task.func, task.module_path, aliases, task.takes_context, made, sensitive)
        self.task, self.alias = task, alias
        #: Stored beside the arguments, because the columns of a row do not contain it.
        self._extra = "" if task.queue_name == category else f', "{QUEUE}": {json.dumps(task.queue_name)}'

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def at(self, run_after: datetime | None) -> TaskFunction:
        """A copy for a call that is to run at that time, or after its delay, which counts from now."""
        if run_after is None:
            return self
        self._pattern()  # the common part of all calls, cached before copying
        later = copy(self)
        delay = run_after.delay if isinstance(run_after, Delayed) else None
        later.options = {**self.options, "run_after": run_after if delay is None else delay}
        return later

    def _columns(self, settings: Settings) -> dict[str, Any]:
        return super()._columns(settings) | {"task_backend": self.alias}

    def _encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        text = super()._encode(args, kwargs)
        return f"{text[:-1]}{self._extra}}}" if self._extra else text

    def job_columns(self, args: Sequence[Any], kwargs: Mapping[str, Any], id: UUID | None = None) -> dict[str, Any]:
        """The columns of a call's job, for code that inserts it otherwise. Raises InvalidJob as ``enqueue``.

        Without what the options make of the arguments, see :meth:`made_of`.
        """
        self._pattern()  # raises if the category or the engine does not exist
        configuration, id = json.loads(self._encode(args, kwargs)), id or uuid7()
        if self.encrypted:
            configuration = seal(configuration, self.name, id)
        return {**self._columns(get_settings()), "handler_configuration": configuration, "id": id}

    # The interface to the executor.

    def read(self, configuration: str) -> TaskArguments:  # type: ignore[override]
        """The arguments in a row's JSON; raises UnreadableJob if a call could not have written it."""
        args, kwargs = super().read(configuration)
        queue_name = json.loads(configuration).get(QUEUE) if f'"{QUEUE}"' in configuration else None
        return TaskArguments(args, kwargs, queue_name)

    def call_with(self, context: JobContext, arguments: Any) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of the function's call, after sending the signal of its start."""
        if isinstance(arguments, _Prepared):
            return arguments
        result = self._running(context, arguments)
        events.started(result, self._sender(context.using), context.using)
        if self.takes_context and self.is_async:
            _load(result)  # loaded now as for an event loop, on which it will run
        return self._prepared(context, arguments, result)

    def execute_async(self, context: JobContext, arguments: Any) -> Awaitable[Any]:
        """Call the function, which is an ``async def``, on the running event loop."""
        return self._execute_async(context, arguments)

    async def _execute_async(self, context: JobContext, arguments: TaskArguments) -> Any:
        result = self._running(context, arguments)
        await events.astarted(result, self._sender(context.using))
        if self.takes_context:
            await sync_to_async(_load)(result)  # on an event loop, attributes cannot query the database
        return await super().execute_async(context, self._prepared(context, arguments, result))

    def _prepared(self, context: JobContext, arguments: TaskArguments, result: LiveTaskResult) -> _Prepared:
        if self.takes_context:
            result.doubt_task()
        given = [JobExecutorTaskContext(task_result=result, job=context)] if self.takes_context else []
        return _Prepared([*given, *arguments.args], arguments.kwargs)

    def _running(self, context: JobContext, arguments: TaskArguments) -> LiveTaskResult:
        work = context.work
        return LiveTaskResult.make(
            work.using,
            **self._known(work, arguments.queue_name or work.category),
            status=TaskResultStatus.RUNNING,
            args=arguments.args,
            kwargs=arguments.kwargs,
            last_attempted_at=context.started_at,
        )

    def _known(self, work: AcquiredJob, queue_name: str) -> dict[str, Any]:
        """The values known without the task's row; the alias of its backend only if its engine has just one."""
        aliases = [backend.alias for backend in backends_on(work.using)]
        backend = {"backend": aliases[0]} if len(aliases) == 1 else {}
        task = rebuilt(self.task, queue_name=queue_name, priority=work.priority, **backend)
        return {"task": task, "id": str(work.id), **backend}

    def _sender(self, using: str) -> type[Any]:
        return next((type(backend) for backend in backends_on(using)), type(self))

    def encode_result(self, value: Any) -> str:
        """The JSON of the return value, by the rules of django.tasks. Raises DoNotRetry if there is none."""
        from jobexec.operations.tasks.return_values import encode_return_value, not_stored

        name = f"return value of {self.name}"
        try:
            normalised = normalize_json(value)
        except (TypeError, ValueError, RecursionError) as error:
            path, part = first_fault(value, normalize_json)
            problem = f"{name}{path}: expected JSON, got a {type(part).__name__} ({error})."
            raise not_stored(problem) from error
        return encode_return_value(normalised, name)

    def finished(self, work: AcquiredJob, using: str, failure: Failure | None = None) -> None:
        """Send the signal for the end of a task, after the commit; ``failure`` is the last one, None on success."""
        own = self.options.get("category") == work.category
        known = self._known(work, self.task.queue_name if own else work.category)
        status = TaskResultStatus.FAILED if failure else TaskResultStatus.SUCCESSFUL
        result = LiveTaskResult.make(using, **known, status=status)
        events.finished(result, self._sender(using), self._showable(failure))

    def _showable(self, failure: Failure | None) -> BaseException | None:
        """The error of a failure; None if its text, which would be logged, may contain a sensitive argument."""
        error = failure.error if failure else None
        if failure is None or error is None or self.sensitive_names():
            return None
        return error if failure.message == f"{type(error).__name__}: {error}" else None


def _load(result: LiveTaskResult) -> None:
    """Load the result. Raises NotBegun if the database is away: that is not a failure of the task."""
    try:
        result.load()
    except Exception as error:
        from jobexec.operations.sql.session import is_of_connection  # tasks are declared before models are loaded

        if not is_of_connection(error):
            raise
        raise NotBegun(f"The task's result could not be read: {error}") from error


class _Prepared(NamedTuple):
    """The arguments of a function's call."""

    args: list[Any]
    kwargs: dict[str, Any]
