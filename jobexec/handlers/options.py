"""The options of ``@job`` and ``using``, checked and converted to columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Literal, TypedDict
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.conf import values as conf_values
from jobexec.conf.messages import check_duration, check_moment
from jobexec.exceptions import InvalidJob, InvalidRetryPlan
from jobexec.json_values import check_json, check_storable, shown
from jobexec.retry import RetryPlan

from .keys import check_key, check_resource_name, check_wait


class CommonOptions(TypedDict, total=False):
    """Options of jobs and of tasks of django.tasks."""

    retries: str | list[str] | list[timedelta] | RetryPlan | Callable[..., Any]
    exclusive: bool
    process_instance_id: str
    root_process_instance_id: str
    process_definition_key: str
    process_definition_id: str
    tenant_id: str
    correlation_id: str
    deployment: str | None
    atomic: bool
    encrypted: bool
    resource: str | Callable[..., str | None] | None
    timeout: timedelta | float | str | None
    headers: Mapping[str, Any]
    unique: bool | str | Callable[..., str]
    unique_while: Literal["waiting", "active", "existing"]
    unique_for: timedelta | float | str
    on_conflict: Literal["return", "ignore", "replace", "raise"]


class JobOptions(CommonOptions, total=False):
    """Options of a job: defaults in ``@job(...)``, or for single calls in ``using(...)``."""

    run_after: datetime | timedelta
    delay: timedelta | float | str
    expires: datetime | timedelta | float | str
    wait_for: tuple[str, str | int | UUID] | Callable[..., tuple[str, str | int | UUID] | None] | None
    wait_timeout: timedelta | float | str | None
    priority: int
    category: str
    database: str
    transaction: str


_TEXTS = {
    "category": 128,
    "process_instance_id": 255,
    "root_process_instance_id": 255,
    "process_definition_key": 255,
    "process_definition_id": 255,
    "tenant_id": 64,
    "correlation_id": 255,
    "database": 255,
    "transaction": 255,
}
_CHOICES = {
    "unique_while": ("waiting", "active", "existing"),
    "on_conflict": ("return", "ignore", "replace", "raise"),
}
_BOOLEANS = ("exclusive", "atomic", "encrypted")


#: What other libraries call an option, or one that other functions here have.
_WORDS = {
    "countdown": ("delay", "run_after"),
    "eta": ("run_after",),
    "queue": ("category", "queue_name"),
    "queue_name": ("category",),
    "autoretry_for": ("retries",),
    "retry_backoff": ("retries",),
    "default_retry_delay": ("retries",),
    "time_limit": ("timeout",),
    "soft_time_limit": ("timeout",),
    "job_timeout": ("timeout",),
    "rate_limit": ("resource",),
    "lock": ("unique",),
    "queueing_lock": ("unique",),
    "singleton": ("unique",),
    "using": ("database",),
    "backend": ("database",),
    "routing_key": ("category", "queue_name"),
    "task_id": (),
    "job_id": (),
}
_OF_ALL_CALLS = ("keep_result", "takes_context", "name", "aliases", "sensitive", "schedule", "timezone", "misfire")
#: What to do instead of options of other libraries that have no counterpart among the options.
_HINTS = {
    "bind": "A function whose first parameter is called 'context' receives the context of its job.",
    "acks_late": "It is always on: a job is in its table until it has ended.",
    "ignore_result": "It is the default: results are kept only with @job(keep_result=...).",
    "link": "A flow runs one job after another: jobexec.processes.flow.",
    "link_error": "A flow runs a job after the failure of another: jobexec.processes.flow.",
    "task_id": "enqueue() assigns the id of a job; the option 'unique' prevents duplicates.",
    "job_id": "enqueue() assigns the id of a job; the option 'unique' prevents duplicates.",
    "base": "A middleware runs around each job: see the setting MIDDLEWARE.",
    "throws": "A job that raises DoNotRetry becomes a dead letter without further attempts.",
    "serializer": "Arguments and results are JSON.",
} | {
    name: f"It applies to all calls of a function: give it to @job({name}=...)."  # @job takes it out of its options
    for name in _OF_ALL_CALLS
}


def unknown_option(name: str, known: Collection[str], hints: Mapping[str, str] = _HINTS) -> InvalidJob:
    """The error for an option that is not ``known``, with the one that is probably meant, or what to do instead."""
    if name in hints:
        return InvalidJob(f"Unknown option {name!r}. {hints[name]}")
    if name in _WORDS:  # whatever resembles it means something else
        meant = [word for word in _WORDS[name] if word in known]
    else:
        meant = get_close_matches(str(name), known, n=1)
    return InvalidJob(f"Unknown option {name!r}." + (f" Did you mean {meant[0]!r}?" if meant else ""))


def misplaced_option(names: Iterable[str]) -> str:
    """What to do about the first of these arguments that is an option of jobexec or of another library."""
    for name in names:
        meant = [word for word in (name, *_WORDS.get(name, ())) if word in JobOptions.__annotations__]
        if meant:
            return f" Options of a job are not arguments: using({meant[0]}=...).enqueue(...)."
    return ""


def check_options(options: Mapping[str, Any]) -> None:
    """Raise :class:`~jobexec.exceptions.InvalidJob`, naming the option, if one is unknown or has a wrong value."""
    for name, value in options.items():
        if name not in JobOptions.__annotations__:
            raise unknown_option(name, JobOptions.__annotations__)
        _check(name, value)
    if "delay" in options and "run_after" in options:
        raise InvalidJob("Expected either delay or run_after, got both.")


def owned(options: Mapping[str, Any]) -> Any:
    """A copy of checked options that does not change if the caller changes the headers or a list later."""
    copied = {name: value.copy() if isinstance(value, list) else value for name, value in options.items()}
    if "headers" in copied:
        copied["headers"] = json.loads(json.dumps(copied["headers"], cls=DjangoJSONEncoder))
    return copied


def check_together(options: Mapping[str, Any]) -> None:
    """Raise InvalidJob for options that have no effect without another one. Expects all options of a job."""
    if options.get("wait_timeout") is not None and options.get("wait_for") is None:
        raise InvalidJob("wait_timeout: only valid with the option wait_for, which is not given.")
    _check_can_start(options)
    if "unique" in options:
        return
    for name in ("unique_while", "unique_for", "on_conflict"):
        if name in options:
            raise InvalidJob(f"{name}: only valid with the option unique, which is not given.")


def _check_can_start(options: Mapping[str, Any]) -> None:
    """A job that expires before it is due would never run. Dates and durations are not compared with each other."""
    name = "delay" if "delay" in options else "run_after"
    expires: Any = options.get("expires")
    due: Any = options.get(name)
    if expires is None or due is None or isinstance(expires, datetime) != isinstance(due, datetime):
        return
    if not isinstance(due, datetime):
        expires, due = seconds("expires", expires), seconds(name, due)
    if due > expires:
        raise InvalidJob(f"expires: expected no time before {name}, {shown(due)}; got {shown(expires)}.")


def _check(name: str, value: Any) -> None:
    if name in _TEXTS:
        _check_text(name, value, _TEXTS[name])
    elif name in _BOOLEANS and not isinstance(value, bool):
        raise InvalidJob(f"{name}: expected True or False, got {value!r}.")
    elif name == "priority" and (not isinstance(value, int) or isinstance(value, bool)):
        raise InvalidJob(f"priority: expected a whole number, got {value!r}.")
    elif name in _CHECKS:
        _CHECKS[name](name, value)


def _check_text(name: str, value: Any, longest: int) -> None:
    if not isinstance(value, str) or len(value) > longest:
        raise InvalidJob(f"{name}: expected a string of at most {longest} characters, got {shown(value)}.")
    check_storable(name, value)


def _check_duration(name: str, value: Any) -> None:
    seconds(name, value)


def _check_timeout(name: str, value: Any) -> None:
    if value is not None:
        check_duration(name, value)


def _check_expires(name: str, value: Any) -> None:
    if isinstance(value, datetime):
        check_moment(name, value)
    else:
        seconds(name, value)


def _check_run_after(name: str, value: Any) -> None:
    if isinstance(value, timedelta):
        return
    if not isinstance(value, datetime):
        raise InvalidJob(f"run_after: expected an aware datetime or a timedelta, got {value!r}.")
    check_moment(name, value)


def _check_retries(name: str, value: Any) -> None:
    try:
        RetryPlan.parse(value)
    except InvalidRetryPlan as error:
        raise InvalidJob(f"retries: {error}") from None


def _check_deployment(name: str, value: Any) -> None:
    try:
        conf_values.deployment(value)
    except ValueError as error:
        raise InvalidJob(f"deployment: expected {error} for any node, got {shown(value)}.") from None


def _check_headers(name: str, value: Any) -> None:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidJob(f"headers: expected a mapping with strings as keys, got {shown(value)}.")
    check_json("headers", value)
    size = len(json.dumps(value, cls=DjangoJSONEncoder))
    if size > conf_values.SMALLEST_LIMIT and size > (limit := get_settings().arguments_max_size):
        raise InvalidJob(
            f"headers: expected at most {limit:,} bytes of JSON (setting ARGUMENTS_MAX_SIZE), got {size:,}; store "
            "large data in a model or a file, and pass its key."
        )


def _check_unique(name: str, value: Any) -> None:
    if isinstance(value, str):
        check_key(name, value)
    elif not isinstance(value, bool) and not callable(value):
        raise InvalidJob(f"unique: expected True, a string or a function of the arguments, got {shown(value)}.")


def _check_choice(name: str, value: Any) -> None:
    if value not in _CHOICES[name]:
        raise InvalidJob(f"{name}: expected one of {', '.join(_CHOICES[name])}, got {shown(value)}.")


def _check_resource(name: str, value: Any) -> None:
    if isinstance(value, str):
        check_resource_name(name, value)
    elif value is not None and not callable(value):
        raise InvalidJob(f"resource: expected a string, a function of the arguments or None, got {shown(value)}.")


def _check_wait_for(name: str, value: Any) -> None:
    if value is not None and not callable(value):
        check_wait(name, value)


_CHECKS: dict[str, Callable[[str, Any], None]] = {
    "delay": _check_duration,
    "timeout": _check_timeout,
    "expires": _check_expires,
    "run_after": _check_run_after,
    "retries": _check_retries,
    "headers": _check_headers,
    "deployment": _check_deployment,
    "unique": _check_unique,
    "resource": _check_resource,
    "wait_for": _check_wait_for,
    "wait_timeout": _check_timeout,
    "unique_for": _check_duration,
    "unique_while": _check_choice,
    "on_conflict": _check_choice,
}


def kept_for(value: Any) -> timedelta | None:
    """How long ``keep_result`` keeps a result; None for as long as RESULT_TTL says."""
    if value is True:
        return None
    try:
        found: timedelta = conf_values.duration()(value)
    except ValueError as error:
        expected = f"True, False or {error}"
        raise InvalidJob(f"keep_result: expected {expected}, got {shown(value)}.") from None
    return found


def seconds(name: str, value: Any) -> timedelta:
    """A duration given as timedelta, as seconds or as an ISO 8601 text; at least 0."""
    duration = conf_values.to_timedelta(value)
    if duration is None or duration < timedelta(0):
        raise InvalidJob(f"{name}: expected {conf_values.DURATION}, at least 0, got {shown(value)}.")
    return duration


def to_columns(options: Mapping[str, Any]) -> dict[str, Any]:
    """The job columns of checked options, except for the due date and options about where and whether to insert."""
    columns = {name: options[name] for name in _COPIED if name in options}
    if "deployment" in options:
        columns["deployment_id"] = options["deployment"] or ""
    if "headers" in options:
        columns["custom_headers"] = dict(options["headers"])
    if isinstance(options.get("resource"), str):
        columns["resource"] = options["resource"]
    if (wait := options.get("wait_for")) is not None and not callable(wait):
        columns["waits_for"], columns["waits_for_key"] = check_wait("wait_for", wait)
    if "timeout" in options:
        timeout = options["timeout"]
        columns["timeout"] = None if timeout is None else seconds("timeout", timeout)
    if "retries" in options:
        plan = RetryPlan.parse(options["retries"])
        columns |= {"retries": plan.attempts, "retry_plan": str(plan)}
    return columns


_COPIED = (
    "priority",
    "category",
    "exclusive",
    "process_instance_id",
    "root_process_instance_id",
    "process_definition_key",
    "process_definition_id",
    "tenant_id",
    "correlation_id",
    "atomic",
)


def now_of(using: str) -> datetime:
    """The time of a database, from which delays count: the clock of the enqueueing process may be wrong."""
    from jobexec.operations.sql.server_time import keep_time  # models load later than functions are decorated

    keep_time(using)
    return clock.now(using)


def due_date(options: Mapping[str, Any], now: Callable[[], datetime] = clock.now) -> datetime | None:
    """When a job of checked options is due; None for at once."""
    name = "delay" if "delay" in options else "run_after"
    when = options.get(name)
    if isinstance(when, datetime) or when is None:
        return when
    try:
        return now() + (seconds(name, when) if name == "delay" else when)
    except OverflowError:
        raise InvalidJob(f"{name}: {shown(when)} from now is past the year 9999.") from None


def expires_at(options: Mapping[str, Any], now: Callable[[], datetime]) -> datetime:
    """When a job of checked options, with ``expires``, is no longer started."""
    when = options["expires"]
    try:
        return when if isinstance(when, datetime) else now() + seconds("expires", when)
    except OverflowError:
        raise InvalidJob(f"expires: {shown(when)} from now is past the year 9999.") from None


def end_of_wait(options: Mapping[str, Any], now: Callable[[], datetime]) -> datetime | None:
    """When a job of checked options no longer waits for its message; None for never."""
    timeout = options.get("wait_timeout")
    if timeout is None:
        return None
    try:
        return now() + check_duration("wait_timeout", timeout)
    except OverflowError:
        raise InvalidJob(f"wait_timeout: {shown(timeout)} from now is past the year 9999.") from None
