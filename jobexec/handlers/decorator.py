"""``@job``: makes a function a :class:`~jobexec.handlers.function.JobFunction`, and registers it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from jobexec.exceptions import InvalidJob, InvalidSchedule
from jobexec.json_values import shown

from . import registry
from .context import JobContext
from .function import JobFunction
from .options import JobOptions
from .schedules import declaration_of

P = ParamSpec("P")
R = TypeVar("R")


class _JobDecorator:
    """The result of ``@job(...)`` with options; typed so that ``enqueue`` takes the function's own arguments."""

    def __init__(
        self,
        name: str | None,
        aliases: Sequence[str],
        takes_context: bool | None,
        sensitive: Sequence[str],
        schedule: tuple[Any, Any, Any] | None,
        keep_result: bool | str | float | timedelta,
        options: Any,
    ) -> None:
        self.name, self.aliases, self.takes_context, self.options = name, aliases, takes_context, options
        self.sensitive, self.schedule, self.keep_result = sensitive, schedule, keep_result

    @overload
    def __call__(self, function: Callable[Concatenate[JobContext, P], Awaitable[R]]) -> JobFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[JobContext, P], R]) -> JobFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> JobFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> JobFunction[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> JobFunction[..., Any]:
        _check_function(function)
        handler: JobFunction[..., Any] = JobFunction(
            function,
            self.name or _default_name(function),
            self.aliases,
            self._takes_context(function),
            self.options,
            self.sensitive,
            self.keep_result,
        )
        declaration = declaration_of(handler, *self.schedule) if self.schedule else None
        registry.register(handler)
        if declaration is not None:
            registry.schedules[handler.name] = declaration
        return handler

    def _takes_context(self, function: Callable[..., Any]) -> bool:
        if self.takes_context is not None:
            return self.takes_context
        return next(iter(inspect.signature(function).parameters), None) == "context"


def _check_function(function: Any) -> None:
    if not callable(function):
        raise InvalidJob(f"@job: expected a function, got {shown(function)}; options have names: @job(retries=...).")


def _default_name(function: Callable[..., Any]) -> str:
    if not hasattr(function, "__qualname__"):  # a partial, an object that can be called
        raise InvalidJob(f"@job: {shown(function)} has no name; give it one: job(name=...).")
    if "<locals>" in function.__qualname__:
        raise InvalidJob(
            f"@job: {function.__qualname__} is inside another function, so no other process could find it; "
            "move it to a module or give it a name."
        )
    if _needs_object(function):
        raise InvalidJob(
            f"@job: {function.__qualname__} is a method, whose object another process may not have; "
            "make it a function that calls the method, or give it a name."
        )
    return f"{function.__module__}.{function.__qualname__}"


def _needs_object(function: Any) -> bool:
    if inspect.ismethod(function):
        return not inspect.isclass(function.__self__)
    return "." in function.__qualname__ and next(iter(inspect.signature(function).parameters), None) == "self"


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
    schedule: str | None = None,
    timezone: str | None = None,
    misfire: str = "once",
    keep_result: bool | str | float | timedelta = False,
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
    schedule: str | None = None,
    timezone: str | None = None,
    misfire: str = "once",
    keep_result: bool | str | float | timedelta = False,
    **options: Unpack[JobOptions],
) -> Any:
    """Make a function a job: ``@job`` or ``@job(retries="R5/PT5M", category="mail", ...)``.

    ``name`` is stored in rows (default: module and function name). Keep the old names of a renamed job in ``aliases``,
    so that rows in the database still find it. A first parameter called ``context``, or ``takes_context=True``,
    receives a :class:`~jobexec.handlers.context.JobContext`, which callers of ``enqueue`` do not pass. ``sensitive``
    names arguments whose values the admin, the logs and the records of failures do not show. With a ``schedule``,
    executors enqueue the job repeatedly, without arguments. A schedule is a cron expression (``"0 3 * * *"``, in
    ``timezone``, by default the setting TIME_ZONE) or an ISO 8601 cycle (``"R/PT1H"``). ``misfire`` decides about
    missed times: ``"skip"``, ``"once"`` or ``"all"``. ``keep_result`` keeps the return value of the function for
    ``get_result``: a duration (``"P7D"``, a timedelta, seconds), or True for RESULT_TTL. All other keywords are options
    (:class:`~jobexec.handlers.options.JobOptions`); an invalid one raises :class:`~jobexec.exceptions.InvalidJob` at
    import.
    """
    dates = _schedule(schedule, timezone, misfire)
    decorator = _JobDecorator(name, aliases, takes_context, sensitive, dates, keep_result, options)
    return decorator if function is None else decorator(function)


def _schedule(schedule: Any, timezone: Any, misfire: Any) -> tuple[Any, Any, Any] | None:
    if schedule is None and (timezone is not None or misfire != "once"):
        raise InvalidSchedule("timezone and misfire: only valid with a schedule, which is not given.", "expression")
    return None if schedule is None else (schedule, timezone, misfire)
