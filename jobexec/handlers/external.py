"""Jobs for external workers: outside of Django, in any language, anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

from django.views.decorators.debug import sensitive_variables

from jobexec.conf import get_settings
from jobexec.exceptions import HandlerNotFound, InvalidJob
from jobexec.json_values import check_json, check_storable, shown
from jobexec.retry import RetryPlan
from jobexec.sensitive import HIDDEN

from .calls import stored_columns
from .function import JobFunction
from .options import check_options, due_date, kept_for, now_of, to_columns, unknown_option
from .registry import get_handler
from .signatures import check_name

if TYPE_CHECKING:
    from jobexec.operations.external.create import AnyExternal

#: The job that follows when a worker has ended one: a ``@job`` function or its name, or a pair with keyword arguments.
Callback: TypeAlias = JobFunction[..., Any] | str | tuple[JobFunction[..., Any] | str, Mapping[str, Any]]


class ExternalOptions(TypedDict, total=False):
    """The options of an external job beside its type and its variables."""

    headers: Mapping[str, Any]
    on_complete: Callback
    on_error: Callback | Mapping[str, Callback]
    retries: int | str | list[str] | list[timedelta] | RetryPlan
    priority: int
    tags: Sequence[str]
    tenant_id: str
    process_instance_id: str
    process_definition_id: str
    process_definition_key: str
    root_process_instance_id: str
    execution_id: str
    business_key: str
    element_id: str
    exclusive: bool
    run_after: datetime | timedelta
    delay: timedelta | float | str
    max_deliveries: int
    correlation_id: str
    deployment: str | None
    resource: str | None
    keep_result: bool | str | float | timedelta
    encrypted: bool
    database: str


@sensitive_variables("variables", "options")
def external_job(
    type: str, *, variables: Mapping[str, Any] | None = None, **options: Unpack[ExternalOptions]
) -> AnyExternal:
    """Insert one job for external workers in the current transaction. Returns the saved row.

    Workers in any language fetch jobs of this ``type`` through the gateways (Camunda 7: the topic of an external task;
    Zeebe: the type of a service task). ``variables`` is their input, a JSON object. ``headers`` are metadata for them
    (Zeebe: custom headers; Camunda 7: extension properties).

    ``on_complete`` runs in the executor when a worker has completed the job, as an ordinary job with the same id. It
    gets the keyword argument ``variables``: those of the job, overridden by those that the worker sent. ``on_error``
    runs when a worker throws an error, with ``variables``, ``error_code`` and ``error_message``. It is one job for all
    codes, or a mapping from codes to jobs ('' for all other codes). A job is a ``@job`` function or its name, or a pair
    of it and further keyword arguments: ``(ship, {"order_id": 5})``. Without ``on_error`` an error is an incident.

    ``retries`` is how often it may fail: a number (3), or a retry plan as for :func:`~jobexec.job` (``"R5/PT1M"``). A
    worker that reports a failure decides how many retries are left and how long the job waits; if it names no pause, or
    0, the plan decides. A plan cannot be a function: the row keeps it, as the job has no handler in the project.
    ``exclusive``: at most one job of its process instance is worked on at a time (True, if it has a process instance).
    ``max_deliveries``: how often workers may fetch it and let its deadline pass before it becomes an incident; None for
    the setting EXTERNAL_MAX_DELIVERIES. ``run_after`` or ``delay``: no worker gets it earlier. ``deployment`` restricts
    which nodes may run ``on_complete`` and ``on_error``, as for other jobs (None: any); not given: the function's
    option, or the setting DEPLOYMENT of this process. ``resource`` is a name that RESOURCES covers: workers get the job
    when that has a permit. ``encrypted``: whether its variables are encrypted in the database; not given: the setting
    ENCRYPT_ARGUMENTS, and always if it keeps fixed arguments of an encrypted function. Workers get them decrypted.
    ``keep_result`` keeps the variables that the worker completes it with, for :func:`~jobexec.get_result`: a duration,
    or True for RESULT_TTL; not with ``on_complete``, whose job has a result of its own. ``database`` is where it is
    inserted, by default where Django's routers write its table.

    Raises :class:`~jobexec.exceptions.InvalidJob`, with nothing inserted.
    """
    return external_jobs(type, [variables or {}], **options)[0]


@sensitive_variables("variables", "options", "configurations", "common")
def external_jobs(
    type: str, variables: Iterable[Mapping[str, Any]], **options: Unpack[ExternalOptions]
) -> list[AnyExternal]:
    """Insert many jobs for external workers in one transaction and few statements: one for each of ``variables``.

    The other arguments apply to all of them; see :func:`external_job`.
    """
    return insert_external(type, variables, options, {})


def insert_external(
    type: str, variables: Iterable[Mapping[str, Any]], options: ExternalOptions, more: dict[str, Any]
) -> list[AnyExternal]:
    """:func:`external_jobs`, with ``more`` columns."""
    from jobexec.operations.external.create import create_external_jobs

    _check_names(options)
    using = _database(options)
    columns = _columns(type, options) | more
    encrypted = options.get("encrypted", get_settings().encrypt_arguments)
    common = _common(options, secret=encrypted)
    if not encrypted and (kept := _encrypted_callback(common)):
        if "encrypted" in options:
            raise InvalidJob(f"encrypted: expected True, as the fixed arguments of {kept} would be stored as they are.")
        encrypted = True
    configurations = [
        {"variables": _object(f"variables of job {n}", each, secret=encrypted)} | common
        for n, each in enumerate(variables)
    ]
    return create_external_jobs(using, columns, configurations, due_date=_due_date(options, using), encrypted=encrypted)


#: What to do instead of options that only other jobs have.
_HINTS = {
    "category": "Workers fetch external jobs by their type.",
    "timeout": "A worker sets the time limit when it fetches the job.",
    "expires": "An external job waits until a worker fetches it, or it is cancelled.",
    **dict.fromkeys(
        ("unique", "unique_while", "on_conflict"),
        "External jobs have no unique keys: enqueue a @job function with one, and insert the external job there.",
    ),
}


def _check_names(options: Mapping[str, Any]) -> None:
    unknown = options.keys() - ExternalOptions.__annotations__.keys()
    if unknown:
        raise unknown_option(min(unknown), ExternalOptions.__annotations__, _HINTS)


def _database(options: ExternalOptions) -> str:
    from django.db import router

    from jobexec.models import ExternalWorkerJob  # models load later than functions are decorated

    return options.get("database") or router.db_for_write(ExternalWorkerJob)


_TEXTS = ("process_definition_id", "execution_id", "business_key", "element_id")
_LENGTHS = {"execution_id": 64}
#: Options with the same meaning and checks as for other jobs.
_AS_EVER = (
    "headers",
    "priority",
    "tenant_id",
    "process_instance_id",
    "process_definition_key",
    "root_process_instance_id",
    "exclusive",
    "correlation_id",
    "resource",
    "encrypted",
    "database",
)


def _columns(type: str, options: ExternalOptions) -> dict[str, Any]:
    from jobexec.models import KEPT_BY_JOB  # models load later than functions are decorated

    check_name("type", type)
    given: Mapping[str, Any] = options
    ordinary = {name: given[name] for name in _AS_EVER if given.get(name) is not None}
    if "deployment" in given:
        ordinary["deployment"] = given["deployment"]
    check_options(ordinary)
    if callable(ordinary.get("resource")):  # no function has the variables as its arguments
        raise InvalidJob(f"resource: expected a string or None for an external job, got {shown(ordinary['resource'])}.")
    columns = {"handler_type": type, **_retries(options.get("retries", 3))} | to_columns(ordinary)
    for name in ("process_definition_id", "execution_id"):
        if given.get(name):
            columns[name] = _short_text(name, given[name])
    if "resource" not in given and options.get("tenant_id"):
        columns["resource"] = get_settings().resources.of_tenant(options["tenant_id"])
    if given.get("keep_result", False) is not False:
        columns["task_backend"] = KEPT_BY_JOB
    return columns


def _retries(value: Any) -> dict[str, Any]:
    """The columns of a number of attempts, or of a plan."""
    if isinstance(value, int):
        return {"retries": _number("retries", value)}
    if not isinstance(value, str | list | tuple | RetryPlan) or getattr(value, "function", None):
        raise InvalidJob(f"retries: expected a number or a retry plan that is not a function, got {shown(value)}.")
    check_options({"retries": value})
    return to_columns({"retries": value})


def _common(options: ExternalOptions, *, secret: bool) -> dict[str, Any]:
    """The common part of all their configurations."""
    common: dict[str, Any] = {}
    for name in ("element_id", "business_key"):
        if options.get(name):
            common[name] = _short_text(name, options[name])
    if options.get("tags"):
        common["tags"] = _tags(options["tags"])
    if options.get("max_deliveries") is not None:
        common["max_deliveries"] = _number("max_deliveries", options["max_deliveries"])
    if options.get("keep_result", False) is not False:
        common |= _kept(options)
    return common | _callbacks(options, secret)


def _kept(options: ExternalOptions) -> dict[str, Any]:
    """How long its result is kept, in seconds, if not for RESULT_TTL."""
    if options.get("on_complete") is not None:
        raise InvalidJob("keep_result: with on_complete, its function keeps the result; give it to its @job.")
    keep_for = kept_for(options["keep_result"])
    return {"keep_result": keep_for.total_seconds()} if keep_for else {}


def _callbacks(options: ExternalOptions, secret: bool) -> dict[str, Any]:
    """The callbacks for when a worker has ended them."""
    found: dict[str, Any] = {}
    if options.get("on_complete") is not None:
        found["on_complete"] = _callback("on_complete", options["on_complete"], ("variables",), secret)
    if options.get("on_error") is not None:
        given = options["on_error"]
        by_code = given if isinstance(given, Mapping) else {"": given}
        found["on_error"] = {_code(code): _on_error(code, each, secret) for code, each in by_code.items()}
    if "deployment" in options:  # then the row's deployment applies
        for each in (found.get("on_complete"), *found.get("on_error", {}).values()):
            if each:
                each["columns"].pop("deployment_id", None)
    return found


def _on_error(code: str, given: Callback, secret: bool) -> dict[str, Any]:
    name = f"on_error[{code!r}]" if code else "on_error"
    return _callback(name, given, ("variables", "error_code", "error_message"), secret)


def _code(code: Any) -> str:
    if not isinstance(code, str):
        raise InvalidJob(f"on_error: expected error codes (strings) as keys, got {shown(code)}.")
    check_storable("on_error", code)
    return code


def _callback(name: str, given: Any, brought: Sequence[str], secret: bool) -> dict[str, Any]:
    """A callback as stored in a row: the handler, its fixed arguments, and the columns of its job."""
    handler, fixed = given if isinstance(given, tuple) and len(given) == 2 else (given, {})
    function = _function(name, handler)
    secret = secret or function.encrypted
    fixed = _object(f"{name}: arguments", fixed, secret=secret)
    taken = sorted(fixed.keys() & set(brought))
    if taken:
        raise InvalidJob(f"{name}: {', '.join(taken)} comes from the worker and cannot be fixed.")
    try:
        function.arguments.encode((), {**fixed, **dict.fromkeys(brought, "")}, secret=secret)
    except InvalidJob as error:
        raise InvalidJob(f"{name}: {error}") from None
    if function.options.get("wait_for") is not None:
        raise InvalidJob(f"{name}: expected a function without wait_for, but {function.name} waits for a message.")
    if callable(function.options.get("resource")):
        made = f"{function.name} computes it from its arguments"
        raise InvalidJob(f"{name}: expected a function whose resource is a name, but {made}.")
    columns = stored_columns(function) | ({"encrypted": True} if function.encrypted else {})
    return {"handler": function.name, "kwargs": fixed, "columns": columns}


def _encrypted_callback(common: Mapping[str, Any]) -> str:
    """The name of an encrypted function with fixed arguments among the callbacks; empty if there is none."""
    for each in (common.get("on_complete"), *common.get("on_error", {}).values()):
        if each and each["kwargs"] and each["columns"].get("encrypted"):
            return str(each["handler"])
    return ""


def _function(name: str, given: Any) -> JobFunction[..., Any]:
    try:
        found = get_handler(given) if isinstance(given, str) else given
    except HandlerNotFound as error:
        raise InvalidJob(f"{name}: {error}") from None
    if not isinstance(found, JobFunction):
        expected = "a function with @job or its name, or a pair of one and keyword arguments"
        raise InvalidJob(f"{name}: expected {expected}, got {shown(given)}.")
    return found


@sensitive_variables("value")
def _object(name: str, value: Any, *, secret: bool = False) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        got = HIDDEN if secret else shown(value)
        raise InvalidJob(f"{name}: expected a mapping with strings as keys, got {got}.")
    try:
        check_json(name, value)
    except InvalidJob:
        if not secret:
            raise
        raise InvalidJob(f"{name}: expected JSON, got {HIDDEN}.") from None
    return dict(value)


def _number(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**31:
        raise InvalidJob(f"{name}: expected a whole number of at least 1, got {shown(value)}.")
    return value


def _short_text(name: str, value: Any) -> str:
    longest = _LENGTHS.get(name, 255)
    if not isinstance(value, str) or len(value) > longest:
        raise InvalidJob(f"{name}: expected a string of at most {longest} characters, got {shown(value)}.")
    check_storable(name, value)
    return value


def _tags(value: Any) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidJob(f"tags: expected strings, got {shown(value)}.")
    return [_short_text("tags", tag) for tag in value]


def _due_date(options: ExternalOptions, using: str) -> datetime | None:
    given: Mapping[str, Any] = options
    when = {name: given[name] for name in ("run_after", "delay") if given.get(name) is not None}
    check_options(when)
    return due_date(when, lambda: now_of(using))
