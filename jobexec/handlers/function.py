"""``@job``: a function as a handler, and the ways to enqueue it."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, overload

from asgiref.sync import async_to_sync, sync_to_async
from django.core.serializers.json import DjangoJSONEncoder
from django.db import router

from jobexec import clock
from jobexec.conf import Settings, get_settings
from jobexec.exceptions import InvalidJob, UnreadableJob
from jobexec.json_values import check_json, encode_json
from jobexec.retry import RetryPlan
from jobexec.sensitive import HIDDEN, is_sensitive, may_be_within, values_below

from . import registry
from .context import JobContext
from .options import JobOptions, check_options, due_date, to_columns
from .signatures import checked_names, names_by_position, positions

if TYPE_CHECKING:
    from datetime import datetime

    from jobexec.models import Job, TimerJob
    from jobexec.operations.create import Pattern

P = ParamSpec("P")
R = TypeVar("R")

_SHAPES = 1000  # a function with **kwargs may be called in any number of ways


_decode = json.JSONDecoder().raw_decode


class JobFunction(Generic[P, R]):
    """A function that can be enqueued; what ``@job`` makes of it. Calling it runs the function at once, as it is.

    The spelling is that of django.tasks, so that moving between the two is a change of import.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        aliases: Sequence[str],
        takes_context: bool,
        options: JobOptions,
        sensitive: Sequence[str] = (),
    ) -> None:
        check_options(options)
        self.function = function
        self.name = name
        self.aliases = tuple(aliases)
        self.takes_context = takes_context
        self.options = options
        self.retry_plan = RetryPlan.parse(options["retries"]) if "retries" in options else None
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())
        self._signature = signature.replace(parameters=parameters[1:] if takes_context else parameters)
        self.sensitive = checked_names(name, sensitive, self._signature)
        #: So many arguments by position fit without a closer look.
        self._least, self._most = positions(self._signature)
        self.is_async = inspect.iscoroutinefunction(function)
        #: Numbers of positional arguments and names of keyword arguments that fit the signature.
        self._fitting: set[tuple[int, tuple[str, ...]]] = set()
        self._made: tuple[Settings, str, Pattern] | None = None

    def __repr__(self) -> str:
        return f"<job {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]

    def using(self, **options: Unpack[JobOptions]) -> JobFunction[P, R]:
        """The same job with other options for the calls made through the result; this one stays as it is.

        Raises :class:`~jobexec.exceptions.InvalidJob` for an unknown option or a wrong value.
        """
        check_options(options)
        if "retries" in options and not str(RetryPlan.parse(options["retries"])):
            raise InvalidJob("retries: a callable plan cannot be stored with a job; give it to @job(retries=...).")
        merged: Any = dict(self.options)
        for one, other in (("delay", "run_after"), ("run_after", "delay")):
            if one in options:
                merged.pop(other, None)
        changed = copy(self)  # the same function, so the same signature
        changed.options, changed._made = merged | options, None
        if "retries" in options:
            changed.retry_plan = RetryPlan.parse(options["retries"])
        return changed

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job | TimerJob:
        """Insert one job in the current transaction and return the row as saved.

        It is rolled back with the caller's data and becomes visible with it. Raises
        :class:`~jobexec.exceptions.InvalidJob`, with nothing inserted, for arguments that do not fit the function or
        are not JSON.
        """
        encoded = self._encode(args, kwargs)
        return self._pattern().create({"args": list(args), "kwargs": dict(kwargs)}, encoded, due_date=self._due_date())

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job | TimerJob:
        """:meth:`enqueue` for async callers."""
        return await sync_to_async(self.enqueue, thread_sensitive=True)(*args, **kwargs)

    def enqueue_many(self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]) -> Sequence[Job | TimerJob]:
        """Insert many jobs in one transaction and few statements; returns the rows in order.

        Each call is a tuple or list of positional arguments, or a mapping of keyword arguments. All are checked
        before the first is inserted. The result reads like a list whose instances are made when they are looked at;
        ``list(result)`` is one.
        """
        encoded = [self._encode(*_split(call)) for call in calls]
        return self._pattern().create_many(encoded, due_date=self._due_date())

    def _database(self) -> str:
        from jobexec.models import Job  # models load later than functions are decorated

        return self.options.get("database") or router.db_for_write(Job)

    def _due_date(self) -> datetime | None:
        return due_date(self.options, lambda: clock.now(self._database()))

    def _pattern(self) -> Pattern:
        """What all jobs of this function have in common, made once for these settings and this database."""
        settings, database, made = get_settings(), self._database(), self._made
        if made is None or made[0] is not settings or made[1] != database:
            from jobexec.operations.create import Pattern

            self._made = made = settings, database, Pattern(database, self._columns(settings))
        return made[2]

    def _columns(self, settings: Settings) -> dict[str, Any]:
        from jobexec.operations.created import without_defaults

        columns = {"atomic": settings.atomic_jobs} | to_columns(self.options)
        if "retries" not in columns:
            columns["retries"] = RetryPlan.parse(settings.default_retry_plan).attempts
        return without_defaults(columns) | {"handler_type": self.name}

    def _encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The JSON that a row holds of these arguments. Raises InvalidJob if they do not fit or are no JSON."""
        try:
            self._bind(args, kwargs)
        except TypeError as error:
            raise InvalidJob(f"{self.name}: {error}.") from None
        configuration = {"args": args, "kwargs": dict(kwargs)}
        encoded = encode_json(configuration)
        if encoded is None:
            self._check_arguments(args, kwargs)
            encoded = json.dumps(configuration, cls=DjangoJSONEncoder)
        return encoded

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise TypeError if the arguments do not fit the function. Their values do not matter for that."""
        shape = len(args), tuple(kwargs)
        if shape not in self._fitting:
            self._signature.bind(*args, **kwargs)
            if len(self._fitting) < _SHAPES:
                self._fitting.add(shape)

    def _check_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        for name, value in self._signature.bind(*args, **kwargs).arguments.items():
            try:
                check_json(f"{self.name}: argument {name!r}", value)
            except InvalidJob:
                if not self._is_secret(name, value):
                    raise
                # Without the reason, which quotes the value.
                raise InvalidJob(f"{self.name}: argument {name!r}: expected JSON, got {HIDDEN}.") from None

    def _is_secret(self, name: str, value: Any) -> bool:
        try:
            return is_sensitive(name, self.sensitive) or any(True for _ in values_below(value, self.sensitive))
        except RecursionError:  # endless; its beginning is quoted
            return bool(self.sensitive)

    # What the executor asks of a handler (JobHandler).

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

    def sensitive_names(self) -> list[str]:
        """The arguments that were called sensitive, and those whose names are by SENSITIVE_ARGUMENTS."""
        return [
            *self.sensitive,
            *(name for name in self._signature.parameters if is_sensitive(name) and name not in self.sensitive),
        ]

    def names_of(self, count: int) -> list[str]:
        """The names of so many arguments by position; those that ``*args`` takes have its name."""
        return names_by_position(self._signature, count)

    def read(self, configuration: str) -> tuple[list[Any], dict[str, Any]]:
        """The arguments in a row's JSON; raises UnreadableJob if it is not what :meth:`enqueue` writes."""
        try:
            value, end = _decode(configuration)
            if end != len(configuration):
                value = json.loads(configuration)  # white space, or an error that says where
            args, kwargs = value["args"], value["kwargs"]
            if not isinstance(args, list) or not isinstance(kwargs, dict):
                raise TypeError("args is no list or kwargs is no object")
            if kwargs or not self._least <= len(args) <= self._most:
                self._signature.bind(*args, **kwargs)
        except (ValueError, TypeError, KeyError) as error:
            hidden = self.sensitive_names() or may_be_within(configuration)
            got = HIDDEN if hidden else configuration[:200]
            message = f"The arguments in the row cannot be read for {self.name}: {error!r}. Got: {got}"
            raise UnreadableJob(message) from error
        return args, kwargs

    def execute(self, context: JobContext, arguments: tuple[list[Any], dict[str, Any]]) -> Any:
        """Call the function; an ``async def`` runs to its end on an event loop of this thread."""
        args, kwargs = arguments
        if self.takes_context:
            args = [context, *args]
        result = self.function(*args, **kwargs)
        # Asked of the result: a decorator may hide an async function in one that is not; nobody else would await it.
        return async_to_sync(_finish)(context, result) if inspect.iscoroutine(result) else result

    def execute_async(self, context: JobContext, arguments: tuple[list[Any], dict[str, Any]]) -> Awaitable[Any]:
        """Call the function, which is an ``async def``, on the event loop that runs."""
        args, kwargs = arguments
        if self.takes_context:
            args = [context, *args]
        return _finish(context, self.function(*args, **kwargs))


async def _finish(context: JobContext, coroutine: Awaitable[Any]) -> Any:
    """Await it; unlike a thread it can be cancelled when its time is over."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    if task is not None:
        context.on_interrupt(lambda: loop.call_soon_threadsafe(task.cancel))
    try:
        return await coroutine
    finally:
        context.on_interrupt(None)


def _split(call: Sequence[Any] | Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
    if isinstance(call, Mapping):
        return (), call
    if isinstance(call, tuple | list):
        return call, {}
    raise InvalidJob(f"enqueue_many: expected tuples of arguments or mappings of keyword arguments, got {call!r}.")


class _JobDecorator:
    """What ``@job(...)`` with options returns; typed so that ``enqueue`` takes the function's own arguments."""

    def __init__(
        self,
        name: str | None,
        aliases: Sequence[str],
        takes_context: bool | None,
        sensitive: Sequence[str],
        options: Any,
    ) -> None:
        self.name, self.aliases, self.takes_context, self.options = name, aliases, takes_context, options
        self.sensitive = sensitive

    @overload
    def __call__(self, function: Callable[Concatenate[JobContext, P], Awaitable[R]]) -> JobFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[JobContext, P], R]) -> JobFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> JobFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> JobFunction[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> JobFunction[..., Any]:
        handler: JobFunction[..., Any] = JobFunction(
            function,
            self.name or _default_name(function),
            self.aliases,
            self._takes_context(function),
            self.options,
            self.sensitive,
        )
        registry.register(handler)
        return handler

    def _takes_context(self, function: Callable[..., Any]) -> bool:
        if self.takes_context is not None:
            return self.takes_context
        return next(iter(inspect.signature(function).parameters), None) == "context"


def _default_name(function: Callable[..., Any]) -> str:
    if "<locals>" in function.__qualname__:
        raise InvalidJob(
            f"@job: {function.__qualname__} is inside another function, so no other process could find it; "
            "move it to a module or give it a name."
        )
    return f"{function.__module__}.{function.__qualname__}"


@overload
def job(function: Callable[Concatenate[JobContext, P], Awaitable[R]], /) -> JobFunction[P, R]: ...
@overload
def job(function: Callable[Concatenate[JobContext, P], R], /) -> JobFunction[P, R]: ...
@overload
def job(function: Callable[P, Awaitable[R]], /) -> JobFunction[P, R]: ...
@overload
def job(function: Callable[P, R], /) -> JobFunction[P, R]: ...
@overload
def job(
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    takes_context: bool | None = None,
    sensitive: Sequence[str] = (),
    **options: Unpack[JobOptions],
) -> _JobDecorator: ...
def job(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    takes_context: bool | None = None,
    sensitive: Sequence[str] = (),
    **options: Unpack[JobOptions],
) -> Any:
    """Make a function a job: ``@job`` or ``@job(retries="R5/PT5M", category="mail", ...)``.

    ``name`` is what rows hold (default: module and function name); a handler that is renamed keeps its old names in
    ``aliases``, so that rows in the database still find it. A first parameter called ``context``, or
    ``takes_context=True``, receives a :class:`~jobexec.handlers.context.JobContext`, which callers of ``enqueue`` do
    not pass. ``sensitive`` names arguments whose values are not shown, neither in the admin nor in logs nor in what a
    failure leaves behind. All other keywords are options (:class:`~jobexec.handlers.options.JobOptions`); a wrong one
    raises :class:`~jobexec.exceptions.InvalidJob` at import.
    """
    decorator = _JobDecorator(name, aliases, takes_context, sensitive, options)
    return decorator if function is None else decorator(function)
