"""Which handler a step calls, with which arguments and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobexec.exceptions import InvalidJob
from jobexec.handlers.calls import JobCall
from jobexec.handlers.function import JobFunction
from jobexec.handlers.registry import registered

from ..definition import InvalidProcess, JobOptions, Problem, Value
from .terms import replaced

#: Options of ``using()`` that belong to an activity. All others are those of the function's declaration.
_OF_ACTIVITY = ("priority", "category", "retries", "exclusive")


@dataclass(frozen=True)
class Work:
    """A call: ``arguments`` are ``{"args": […], "kwargs": {…}}`` and may contain terms."""

    handler: str
    arguments: Value
    atomic: bool
    jobs: JobOptions


@dataclass(frozen=True)
class StepCall:
    """A call whose arguments may contain results; see :func:`call`."""

    job: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def call(job: Any, /, *args: Any, **kwargs: Any) -> StepCall:
    """A call as a part of a flow. Unlike ``job.s(…)``, its arguments may contain results, such as ``previous``."""
    return StepCall(job, args, kwargs)


def work_of(job: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Work:
    """The call of a job function, of a task of django.tasks, or of what ``.s()`` made. Raises InvalidProcess."""
    function, options = _function(job)
    if function is None:
        message = f"Expected a function with @job or @task, or a call made by .s(), got {job!r}."
        raise InvalidProcess([Problem("flow", message)])
    if options.get("encrypted"):
        message = "Expected a function that is not encrypted: what steps are given and return is stored as variables."
        raise InvalidProcess([Problem(named(function.name), message)])
    if is_call(job):  # it has arguments of its own; these come after them
        own_args, own_kwargs = arguments_of(job)
        args, kwargs = (*own_args, *args), {**own_kwargs, **kwargs}
    known = replaced({"args": args, "kwargs": dict(kwargs)}, lambda term: None)
    try:
        function.arguments.encode(known["args"], known["kwargs"])
    except InvalidJob as error:
        raise InvalidProcess([Problem(named(function.name), str(error))]) from None
    arguments = {"args": list(args), "kwargs": dict(kwargs)}
    atomic = bool(function.options.get("atomic", False))
    return Work(function.name, arguments, atomic, _job_options(function, options))


def named(handler: str) -> str:
    """The last part of a handler's name."""
    return handler.rpartition(".")[2]


def is_call(job: Any) -> bool:
    """Whether it is what ``.s()`` or :func:`call` made."""
    return isinstance(job, JobCall | StepCall)


def arguments_of(call: JobCall | StepCall) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The positional and the keyword arguments of a call."""
    if isinstance(call, StepCall):
        return call.args, call.kwargs
    return call.arguments["args"], call.arguments["kwargs"]


def _function(job: Any) -> tuple[JobFunction[Any, Any] | None, Mapping[str, Any]]:
    if isinstance(job, JobFunction):
        return job, job.options
    if is_call(job):
        return _function(job.job)
    handler = registered(getattr(job, "module_path", ""))
    if isinstance(handler, JobFunction):
        return handler, handler.options
    return None, {}


def _job_options(function: JobFunction[Any, Any], options: Mapping[str, Any]) -> JobOptions:
    """What the call has beyond the declaration of its function."""
    declared = registered(function.name)
    usual = declared.options if isinstance(declared, JobFunction) else {}
    given = {name: value for name, value in options.items() if usual.get(name) != value}
    for name in given:
        if name not in _OF_ACTIVITY:
            message = (
                f"The option {name!r} belongs to the function's declaration; steps can have {', '.join(_OF_ACTIVITY)}."
            )
            raise InvalidProcess([Problem(named(function.name), message)])
    return JobOptions(
        # Branches of a flow are there to run side by side, and their steps cannot conflict.
        exclusive=bool(given.get("exclusive", usual.get("exclusive", False))),
        retry_plan=str(function.retry_plan) if "retries" in given else None,
        priority=given.get("priority"),
        category=given.get("category"),
    )
