"""A function as a handler, and the ways to enqueue it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime, timedelta
from functools import cache
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from asgiref.sync import async_to_sync, sync_to_async
from django.db import router

from jobexec.conf import Settings, get_settings
from jobexec.encryption import Hidden
from jobexec.exceptions import DoNotRetry, InvalidJob
from jobexec.retry import RetryPlan

from . import deferred, encrypted, many, results, unique
from .arguments import Arguments
from .base import BeginGroup
from .calls import Call, JobCall
from .context import JobContext
from .keys import resource_of, wait_of
from .options import (
    JobOptions,
    check_options,
    check_together,
    due_date,
    end_of_wait,
    expires_at,
    kept_for,
    now_of,
    owned,
    to_columns,
)
from .results import KeptResult
from .signatures import check_name, check_runs, checked_aliases

if TYPE_CHECKING:
    from uuid import UUID

    from jobexec.models import Job
    from jobexec.operations.enqueue.create import Pattern
    from jobexec.operations.values.failure import Failure
    from jobexec.operations.values.inserted_rows import AnyJob, Own

P = ParamSpec("P")
R = TypeVar("R")

_WITH_OPTIONS = "call enqueue(…), or using(…).enqueue(…) for options"
#: What to call instead of the methods that other libraries give to their functions.
_HINTS = {
    "delay": _WITH_OPTIONS,
    "apply_async": _WITH_OPTIONS,
    "send": _WITH_OPTIONS,
    "send_with_options": _WITH_OPTIONS,
    "defer": _WITH_OPTIONS,
    "configure": "call using(…).enqueue(…)",
    "defer_async": "call aenqueue(…)",
    "delay_on_commit": "call enqueue(…), which takes part in the transaction",
    "signature": "call s(…)",
    "si": "call s(…)",
    "AsyncResult": "call get_result(…)",
}


class JobFunction(Generic[P, R]):
    """A function that can be enqueued: the result of ``@job``. A call runs the function directly.

    The API follows django.tasks, so that moving between the two is a change of import.
    """

    #: Whether its return values are kept (``keep_result``), and how long, if not for RESULT_TTL.
    keeps_result = False
    keep_for: timedelta | None = None
    #: Makes several of its atomic jobs share a transaction.
    begin_group: BeginGroup | None = None
    #: Called with the context and the arguments when an atomic run has ended after its timeout, and is rolled back.
    after_timeout: Callable[[JobContext, Any], None] | None = None
    #: What is shown in place of the call of a job, if its arguments mean nothing to people; '' for the call after all.
    #: Reads the columns of :data:`jobexec.redaction.PLACE` alone.
    shown_call: Callable[[Any], str] | None = None

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        aliases: Sequence[str],
        takes_context: bool,
        options: JobOptions,
        sensitive: Sequence[str] = (),
        keep_result: bool | str | float | timedelta = False,
    ) -> None:
        check_name("@job: name", name)
        check_options(options)
        check_together(options)
        check_runs(name, function)
        self.function = function
        self.name = name
        self.aliases = checked_aliases(name, aliases)
        self.takes_context = takes_context
        self.options: JobOptions = owned(options)
        self.retry_plan = RetryPlan.parse(options["retries"]) if "retries" in options else None
        #: Its arguments; shared by the copies made by :meth:`using`, for they have the same function.
        self.arguments = Arguments(function, name, takes_context, sensitive)
        self.is_async = inspect.iscoroutinefunction(function)
        if keep_result is not False:
            self.keeps_result, self.keep_for = True, kept_for(keep_result)
        self._made: tuple[Settings, str, Pattern] | None = None

    def __repr__(self) -> str:
        return f"<job {self.name}>"

    if not TYPE_CHECKING:  # a type checker finds unknown attributes by itself

        def __getattr__(self, name: str) -> Any:
            # Called only for what does not exist; and for a copy that is not complete yet, without its own name.
            hint = f": {_HINTS[name]}" if name in _HINTS else ""
            own = self.__dict__.get("name", type(self).__name__)
            raise AttributeError(f"{own!r} has no attribute {name!r}{hint}", name=name, obj=self)

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]

    def using(self, **options: Unpack[JobOptions]) -> JobFunction[P, R]:
        """Return a copy with other options for the calls made through it. Does not change this job.

        Raises :class:`~jobexec.exceptions.InvalidJob` for an unknown option or a wrong value.
        """
        check_options(options)
        if "retries" in options and not str(RetryPlan.parse(options["retries"])):
            raise InvalidJob("retries: a callable plan cannot be stored with a job; give it to @job(retries=...).")
        merged: Any = dict(self.options)
        for one, other in (("delay", "run_after"), ("run_after", "delay")):
            if one in options:
                merged.pop(other, None)
        merged |= owned(options)
        check_together(merged)
        changed = copy(self)  # the same function, so the same signature
        changed.options, changed._made = merged, None
        if "retries" in options:
            changed.retry_plan = RetryPlan.parse(options["retries"])
        return changed

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> AnyJob:
        """Insert one job in the current transaction. Returns the saved row.

        It is rolled back with the caller's data and becomes visible with it. Raises
        :class:`~jobexec.exceptions.InvalidJob`, with nothing inserted, for arguments that do not fit the function or
        are not JSON.

        With the option ``unique``, the row may be that of an existing job, with ``row.is_duplicate`` true, or
        :class:`~jobexec.exceptions.DuplicateJob` is raised.
        """
        if self.encrypted:
            call = Hidden(args, kwargs)
            del args, kwargs
            return encrypted.enqueue(self, call)
        encoded, configuration = self._encode(args, kwargs), {"args": list(args), "kwargs": dict(kwargs)}
        create = self._create(self._pattern_of(args, kwargs), args, kwargs)
        return create(configuration, encoded, due_date=self._due_date())

    @property
    def encrypted(self) -> bool:
        """Whether the arguments and results of its jobs are encrypted in the database."""
        return self.options.get("encrypted", get_settings().encrypt_arguments)

    def _pattern_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Pattern:
        """The columns of the job of a call, whose arguments have been checked. Raises NotAuthorized."""
        pattern = self._pattern()
        if self.makes_options:
            pattern = pattern.of_call(self.made_of(args, kwargs))
        pattern.authorize()
        return pattern

    def _create(self, pattern: Pattern, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[..., AnyJob]:
        """The function that inserts the job of a call with these columns."""
        if not self.options.get("unique"):
            return pattern.create
        return unique.creating(self, pattern, unique.key_for(self, args, kwargs))

    @property
    def makes_options(self) -> bool:
        """Whether options are made from the arguments of each call: its resource, or the message for which it waits."""
        return callable(self.options.get("resource")) or callable(self.options.get("wait_for"))

    @property
    def makes_from_arguments(self) -> bool:
        """Whether an option is made from the arguments of each call."""
        return self.makes_options or bool(self.options.get("unique"))

    def made_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Own:
        """The values that the options compute from the checked arguments of a call. RESOURCES covers the resource."""
        from jobexec.operations.enqueue.create import check_resource
        from jobexec.operations.values.inserted_rows import Own

        wait = self.options.get("wait_for")
        name = self.resource_for(args, kwargs) if callable(self.options.get("resource")) else None
        check_resource(name)
        return Own(
            name,
            wait_of(wait, self.arguments, args, kwargs, secret=self.encrypted) if callable(wait) else None,
        )

    def resource_for(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """The resource of a call by the option ``resource``. Whether RESOURCES covers it is not checked."""
        resource = self.options.get("resource")
        return resource_of(resource, self.arguments, args, kwargs) if callable(resource) else resource

    def s(self, *args: P.args, **kwargs: P.kwargs) -> JobCall:
        """Return this call as a value. Insert it later by its ``enqueue()``, in a batch, or in a flow.

        Raises :class:`~jobexec.exceptions.InvalidJob` for arguments that do not fit the function or are not JSON.
        """
        return JobCall.of(self, args, kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> AnyJob:
        """:meth:`enqueue` for async callers."""
        if self.encrypted:
            call = Hidden(args, kwargs)
            del args, kwargs
            return await sync_to_async(encrypted.enqueue, thread_sensitive=True)(self, call)
        return await sync_to_async(self.enqueue, thread_sensitive=True)(*args, **kwargs)

    def enqueue_many(self, calls: Iterable[Call]) -> Sequence[AnyJob]:
        """Insert many jobs in one transaction and few statements. Returns the rows in order.

        Each call is a tuple or list of positional arguments, or a mapping of keyword arguments. The calls of a list or
        a tuple are all checked before the first is inserted. Any other iterable may be of any length: it is read and
        inserted page by page, and its items are not kept. An error names the call that caused it, and nothing is
        inserted.

        The result reads like a list whose instances are created on access; ``list(result)`` is one. With more than
        a page, and with the option ``unique``, they are loaded then, in their state at that time.
        """
        if self.encrypted:
            hidden = Hidden(calls)
            del calls
            return encrypted.enqueue_many(self, hidden)
        return many.enqueue_many(self, calls)

    def enqueue_on_commit(self, *args: P.args, **kwargs: P.kwargs) -> UUID:
        """Insert one job after the commit of a transaction of another database. Returns the id that it will have.

        The transaction is on the alias in the option ``transaction``, by default "default". Without a transaction the
        job is inserted immediately; after a rollback, never. Errors in the arguments are raised immediately, as by
        :meth:`enqueue`.

        If the insert fails, the commit has already happened: the error is logged with the name of the job and its id,
        and raised where the transaction ends. If you must not lose a job at that point, keep it in the same database.
        """
        if self.encrypted:
            call = Hidden(args, kwargs)
            del args, kwargs
            return encrypted.enqueue_on_commit(self, call)
        return deferred.enqueue_on_commit(self, args, kwargs)

    def get_result(self, result_id: UUID | str) -> KeptResult[R]:
        """The state and the result of a call, by the id of its job. Needs ``keep_result``.

        Raises :class:`~jobexec.exceptions.ResultDoesNotExist`: also for a job of another function, for one that was
        enqueued before the function kept its results, and for a result that is no longer kept.
        """
        return results.find(result_id, self._database(), (self.name, *self.aliases))

    async def aget_result(self, result_id: UUID | str) -> KeptResult[R]:
        """:meth:`get_result` for async callers."""
        return await sync_to_async(self.get_result, thread_sensitive=True)(result_id)

    def _database(self) -> str:
        return self.options.get("database") or router.db_for_write(_table())

    def _due_date(self) -> datetime | None:
        return due_date(self.options, lambda: now_of(self._database()))

    def _pattern(self) -> Pattern:
        """The common part of all jobs of this function, made once for these settings and this database."""
        settings, database, made = get_settings(), self._database(), self._made
        if made is None or made[0] is not settings or made[1] != database:
            from jobexec.operations.enqueue.create import Pattern

            if "expires" in self.options or "wait_timeout" in self.options:
                return self._pattern_of_now(Pattern, database, self._columns(settings))
            self._made = made = settings, database, Pattern(database, self._columns(settings))
        return made[2]

    def _pattern_of_now(self, make: type[Pattern], database: str, columns: dict[str, Any]) -> Pattern:
        """With times that count from the call, so that it is for this one only."""
        until = end_of_wait(self.options, lambda: now_of(database))
        if "expires" in self.options:
            columns["expires_at"] = expires_at(self.options, lambda: now_of(database))
        if columns.get("waits_for") is not None:
            columns["waits_until"] = until
        return make(database, columns, until)

    def _columns(self, settings: Settings) -> dict[str, Any]:
        from jobexec.models import KEPT_BY_JOB
        from jobexec.operations.values.inserted_rows import without_defaults

        columns: dict[str, Any] = {"atomic": settings.atomic_jobs} | to_columns(self.options)
        if "retries" not in columns:
            columns["retries"] = RetryPlan.parse(settings.default_retry_plan).attempts
        if "timeout" not in self.options and settings.default_timeout is not None:
            columns["timeout"] = settings.default_timeout
        if "resource" not in self.options and (tenant := columns.get("tenant_id")):
            columns["resource"] = settings.resources.of_tenant(tenant)
        if self.keeps_result:
            columns["task_backend"] = KEPT_BY_JOB
        return without_defaults(columns) | {"handler_type": self.name}

    def _encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The JSON of these arguments for a row. Raises InvalidJob if they do not fit or are not JSON."""
        return self.arguments.encode(args, kwargs, secret=self.encrypted)

    # The interface to the executor (JobHandler).

    def definition(self) -> dict[str, Any]:
        """The columns of this handler's JobDefinition."""
        options = self.options
        return {
            "id": self.name,
            "handler_type": self.name,
            "process_definition_key": options.get("process_definition_key", ""),
            "category": options.get("category", "default"),
            "priority": options.get("priority", 0),
            "retry_plan": str(self.retry_plan or ""),
            "exclusive": options.get("exclusive", True),
            "atomic": options.get("atomic", get_settings().atomic_jobs),
            "sensitive": list(self.sensitive_names()),
        }

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The arguments declared sensitive."""
        return self.arguments.sensitive

    def sensitive_names(self) -> list[str]:
        """The arguments declared sensitive, and those whose names match SENSITIVE_ARGUMENTS."""
        return self.arguments.sensitive_names()

    def names_of(self, count: int) -> list[str]:
        """The names of ``count`` positional arguments; those taken by ``*args`` have its name."""
        return self.arguments.names_of(count)

    def read(self, configuration: str) -> tuple[list[Any], dict[str, Any]]:
        """The arguments in a row's JSON; raises UnreadableJob if :meth:`enqueue` could not have written it."""
        return self.arguments.read(configuration)

    def call_with(self, context: JobContext, arguments: Any) -> tuple[list[Any], dict[str, Any]]:
        args, kwargs = arguments
        return [context, *args] if self.takes_context else args, kwargs

    def execute(self, context: JobContext, arguments: tuple[list[Any], dict[str, Any]]) -> Any:
        """Call the function; an ``async def`` runs to its end on an event loop of this thread."""
        args, kwargs = self.call_with(context, arguments)
        result = self.function(*args, **kwargs)
        if result is None:
            return None
        # Checked on the result: a decorator may hide an async function in a sync one; nothing else would await it.
        if inspect.iscoroutine(result):
            return async_to_sync(_finish)(context, result)
        if isinstance(result, GeneratorType | AsyncGeneratorType):
            raise DoNotRetry(f"{self.name} returned a generator, and what is in it would not run.")
        return result

    def execute_async(self, context: JobContext, arguments: tuple[list[Any], dict[str, Any]]) -> Awaitable[Any]:
        """Call the function, which is an ``async def``, on the running event loop."""
        args, kwargs = self.call_with(context, arguments)
        return _finish(context, self.function(*args, **kwargs))

    def encode_result(self, value: Any) -> str:
        """The JSON of the return value. Raises DoNotRetry if there is none, or it is too long."""
        from jobexec.operations.tasks.return_values import encode_return_value

        return encode_return_value(value, f"return value of {self.name}")

    def finished(self, work: Any, using: str, failure: Failure | None) -> None:
        """No signal is sent: callers ask :meth:`get_result`."""


@cache
def _table() -> type[Job]:
    from jobexec.models import Job  # models load later than functions are decorated

    return Job


async def _finish(context: JobContext, coroutine: Awaitable[Any]) -> Any:
    """Await it; unlike a thread it can be cancelled at its timeout."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    if task is not None:
        context.on_interrupt(lambda: loop.call_soon_threadsafe(task.cancel))
    try:
        return await coroutine
    finally:
        context.on_interrupt(None)
