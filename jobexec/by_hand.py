"""Jobs that operators enqueue: any registered function, and a job once more with other arguments."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_variables

from jobexec.encryption import envelope_of, unseal
from jobexec.exceptions import InvalidJob
from jobexec.handlers.external import external_job
from jobexec.handlers.function import JobFunction
from jobexec.handlers.options import to_columns
from jobexec.handlers.registry import OWN, all_handlers, get_handler
from jobexec.models import KEPT_BY_JOB, AbstractJob
from jobexec.operations import audit
from jobexec.operations.external.create import create_external_jobs
from jobexec.operations.rows.routing import LEASE, is_external
from jobexec.redaction import by_name, redact_job
from jobexec.sensitive import HIDDEN, is_sensitive

_OPTIONS_KEPT = (
    "priority",
    "category",
    "exclusive",
    "atomic",
    "tenant_id",
    "process_instance_id",
    "root_process_instance_id",
    "process_definition_key",
    "process_definition_id",
    "correlation_id",
)
_COLUMNS_KEPT = ("handler_type", "execution_id", "custom_headers", "resource", *_OPTIONS_KEPT)
_EXTERNAL_RETRIES = 3
#: What the workers of an external job have left in its configuration.
_OF_ITS_FAILURES = ("failures", "local", LEASE)

_WORDS: dict[Any, Any] = {
    int: gettext_lazy("a whole number"),
    float: gettext_lazy("a number"),
    bool: gettext_lazy("true or false"),
    str: gettext_lazy("a string"),
    list: gettext_lazy("a list"),
    dict: gettext_lazy("an object"),
    type(None): gettext_lazy("null"),
}


class InvalidArguments(InvalidJob):
    """Arguments that do not fit a function; ``errors`` has a text for each of them."""

    def __init__(self, handler: str, errors: Mapping[str, str]) -> None:
        super().__init__(f"{handler}: " + " ".join(f"{name}: {text}" for name, text in errors.items()))
        self.errors = dict(errors)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function, for a form."""

    name: str
    #: As in the code; '' without an annotation.
    annotation: str
    #: As in the code; None for one that is required.
    default: str | None
    #: For ``*args`` and ``**kwargs``.
    takes: Literal["one", "list", "object"]
    sensitive: bool
    #: The classes that its annotation permits, of JSON's; None for an annotation of another kind.
    classes: tuple[type, ...] | None

    @property
    def required(self) -> bool:
        return self.default is None and self.takes == "one"

    @property
    def is_text(self) -> bool:
        """Whether only a text fits, apart from null."""
        return self.classes is not None and set(self.classes) - {type(None)} == {str}

    def error(self, value: Any) -> str | None:
        """Why a value does not fit the annotation; without the value, which may be a secret."""
        classes = {"list": (list,), "object": (dict,)}.get(self.takes, self.classes)
        if classes is None or any(_is_of(value, each) for each in classes):
            return None
        expected = " / ".join(str(_WORDS[each]) for each in classes)
        return _("Expected %(expected)s.") % {"expected": expected}


def _is_of(value: Any, wanted: type) -> bool:
    if isinstance(value, bool):
        return wanted is bool
    return isinstance(value, int | float if wanted is float else wanted)


def function_named(handler_type: str) -> JobFunction[..., Any]:
    """The function of a handler. Raises HandlerNotFound, and InvalidJob for what operators may not enqueue."""
    handler = get_handler(handler_type)
    if handler.name.startswith(OWN):
        raise InvalidJob(f"{handler.name!r} is an internal job of jobexec.")
    if not isinstance(handler, JobFunction):
        raise InvalidJob(f"{handler.name!r} is not a function, and cannot be enqueued by hand.")
    return handler


def function_names() -> list[str]:
    """The names of the functions of this process that operators may enqueue."""
    handlers = (each for each in all_handlers() if isinstance(each, JobFunction))
    return sorted(each.name for each in handlers if not each.name.startswith(OWN))


def parameters_of(function: JobFunction[..., Any]) -> list[Parameter]:
    """The parameters of a function, without the context."""
    hints: dict[str, Any] = {}
    with suppress(Exception):  # a name that is imported only for type checkers
        hints = typing.get_type_hints(inspect.unwrap(function.function))
    hidden = function.sensitive_names()
    found = []
    for each in function.arguments.signature.parameters.values():
        text = "" if each.annotation is each.empty else inspect.formatannotation(each.annotation).strip("'")
        takes: Literal["one", "list", "object"] = "one"
        if each.kind is each.VAR_POSITIONAL:
            takes = "list"
        elif each.kind is each.VAR_KEYWORD:
            takes = "object"
        secret = is_sensitive(each.name, hidden)
        default = None if each.default is each.empty else (HIDDEN if secret else repr(each.default))
        found.append(Parameter(each.name, text, default, takes, secret, _classes(hints.get(each.name))))
    return found


def _classes(annotation: Any) -> tuple[type, ...] | None:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        below = [_classes(each) for each in typing.get_args(annotation)]
        return None if None in below else tuple(each for one in below for each in one or ())
    if origin is Literal:
        found = {type(each) for each in typing.get_args(annotation)}
        return tuple(found) if found <= _WORDS.keys() else None
    known = origin or annotation
    return (known,) if isinstance(known, type) and known in _WORDS else None


@sensitive_variables()
def call_of(function: JobFunction[..., Any], given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The call with these arguments by name; ``*args`` and ``**kwargs`` under their names, too.

    Raises :class:`InvalidArguments`, whose texts quote no value.
    """
    parameters, left = parameters_of(function), dict(given)
    _check(function.name, parameters, given)
    more = [left.pop(each.name, {}) for each in parameters if each.takes == "object"]
    rest = [value for each in parameters if each.takes == "list" for value in left.pop(each.name, [])]
    args: list[Any] = []
    for each in function.arguments.signature.parameters.values():
        if each.kind is each.POSITIONAL_ONLY and each.name in left:
            args.append(left.pop(each.name))
        elif rest and each.kind is each.POSITIONAL_OR_KEYWORD:  # what is behind it has a position, so it has one, too
            args.append(left.pop(each.name, each.default))
    return [*args, *rest], {**(more[0] if more else {}), **left}


def _check(handler: str, parameters: Sequence[Parameter], given: Mapping[str, Any]) -> None:
    errors: dict[str, str] = {}
    for each in parameters:
        if each.name in given and (error := each.error(given[each.name])):
            errors[each.name] = error
        elif each.name not in given and each.required:
            errors[each.name] = _("This argument is required.")
    if not any(each.takes == "object" for each in parameters):
        known = [each.name for each in parameters]
        text = (
            _("There is no such argument; the handler takes %(names)s.")
            if known
            else _("The handler takes no arguments.")
        )
        errors |= {name: text % {"names": ", ".join(known)} for name in given if name not in known}
    if errors:
        raise InvalidArguments(handler, errors)


def named_arguments(function: JobFunction[..., Any], arguments: Any) -> dict[str, Any]:
    """Arguments by name from an object, or from a list by position. Raises InvalidJob."""
    if isinstance(arguments, Mapping):
        return dict(arguments)
    if not isinstance(arguments, Sequence) or isinstance(arguments, str):
        raise InvalidJob(f"{function.name}: expected arguments by name, an object, or by position, a list.")
    return _named(function, list(arguments), {})


def _named(function: JobFunction[..., Any], args: list[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """A call as :func:`call_of` takes it."""
    try:
        bound = function.arguments.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidJob(f"{function.name}: {error}.") from None
    return {name: list(value) if isinstance(value, tuple) else value for name, value in bound.arguments.items()}


@sensitive_variables()
def enqueue(
    handler_type: str, arguments: Mapping[str, Any], options: Mapping[str, Any], *, using: str, external: bool = False
) -> AbstractJob:
    """Insert a job of a registered function, or with ``external`` of a type of external workers, as an operator.

    ``arguments`` are by name, or the variables. ``options`` are those of ``using()``, or of ``external_job()``. The
    audit log records it, the policy in AUTHORIZATION is asked as for each enqueue. Raises HandlerNotFound, InvalidJob,
    :class:`InvalidArguments`, and DuplicateJob for a unique key that another job has.
    """
    with audit.changing("enqueue"), audit.part(using):
        if external:
            more: Any = {**options, "database": using}
            job: AbstractJob = external_job(handler_type, variables=arguments, **more)
        else:
            job = _insert(function_named(handler_type), arguments, options, using)
        _note(job, using, {})
    return job


@sensitive_variables()
def rerun(job: AbstractJob, arguments: Mapping[str, Any], *, using: str, keep: bool = True) -> AbstractJob:
    """Insert a new job like this one, with these arguments by name; ``"●●●"`` stands for what the old one has there.

    ``keep``: with the other arguments of the old job, too. The old job stays as it is. Raises as :func:`enqueue`.
    """
    with audit.changing("rerun"), audit.part(using):
        configuration = _configuration(job)
        function = None if is_external(job) else function_named(job.handler_type)
        stored = _variables(configuration) if function is None else _stored_arguments(function, configuration)
        given = {**(stored if keep else {}), **_restored(arguments, stored)}
        if function is None:
            made = _external_again(job, {**configuration, "variables": given}, using)
        else:
            made = _insert(function, given, _options_of(job, function), using)
        _note(made, using, {"rerun_of": str(job.pk)})
    return made


def shown_arguments(job: AbstractJob) -> dict[str, Any]:
    """The arguments of a job by name, for a form: without sensitive values; of an encrypted job all are hidden."""
    hidden = bool(envelope_of(job.handler_configuration))
    if is_external(job):
        return {} if hidden else _variables(redact_job(job))
    if hidden:
        return dict.fromkeys(function_named(job.handler_type).arguments.signature.parameters, HIDDEN)
    shown = redact_job(job)
    return _stored_arguments(function_named(job.handler_type), shown)


def _configuration(job: AbstractJob) -> Any:
    configuration = job.handler_configuration
    return unseal(configuration, job.handler_type, job.pk) if envelope_of(configuration) else configuration


def _stored_arguments(function: JobFunction[..., Any], configuration: Any) -> dict[str, Any]:
    args, kwargs = list(configuration.get("args") or ()), configuration.get("kwargs") or {}
    try:
        return _named(function, args, kwargs)
    except InvalidJob:  # they were enqueued for another signature
        return by_name(function.name, args, kwargs)


def _restored(given: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Hidden values as the old job has them at the same place; a whole argument that it does not have is left out."""
    found = {}
    for name, value in given.items():
        if value == HIDDEN and name not in stored:
            continue
        found[name] = restored(value, stored.get(name))
        if _hides(found[name]):
            raise InvalidArguments("arguments", {name: _("Enter hidden values (●●●) again here.")})
    return found


def restored(given: Any, stored: Any) -> Any:
    """Replace hidden values in what was given by the stored values at the same place."""
    if given == HIDDEN:
        return HIDDEN if stored is None else stored
    if isinstance(given, dict):
        below = stored if isinstance(stored, dict) else {}
        return {key: restored(value, below.get(key)) for key, value in given.items()}
    if isinstance(given, list):
        rows = stored if isinstance(stored, list) else []
        return [restored(value, rows[at] if at < len(rows) else None) for at, value in enumerate(given)]
    return given


def _hides(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_hides, value.values()))
    return any(map(_hides, value)) if isinstance(value, list) else bool(value == HIDDEN)


@sensitive_variables()
def _insert(
    function: JobFunction[..., Any], arguments: Mapping[str, Any], options: Mapping[str, Any], using: str
) -> AbstractJob:
    args, kwargs = call_of(function, arguments)
    changed: Any = {**options, "database": using}
    if "delay" in options:
        changed.pop("run_after", None)
    if function.options.get("unique") and "on_conflict" not in options:
        changed["on_conflict"] = "raise"  # the operator gets an error if there is such a job
    return function.using(**changed).enqueue(*args, **kwargs)


def _options_of(job: AbstractJob, function: JobFunction[..., Any]) -> dict[str, Any]:
    """The options of a new job like this one: what its row says, where the function does not make it of arguments."""
    found = {name: getattr(job, name) for name in _OPTIONS_KEPT}
    found |= {"headers": job.custom_headers} if job.custom_headers else {}
    found |= {"timeout": job.timeout} if job.timeout is not None else {}
    found |= {"retries": job.retry_plan} if job.retry_plan else {}
    found |= {"encrypted": True} if envelope_of(job.handler_configuration) else {}
    if job.resource and not callable(function.options.get("resource")):
        found["resource"] = job.resource
    return found


def _variables(configuration: Any) -> dict[str, Any]:
    return dict(configuration.get("variables") or {})


@sensitive_variables()
def _external_again(job: AbstractJob, configuration: Mapping[str, Any], using: str) -> AbstractJob:
    columns = {name: getattr(job, name) for name in _COLUMNS_KEPT} | {"retries": _EXTERNAL_RETRIES}
    columns |= to_columns({"retries": job.retry_plan}) if job.retry_plan else {}
    columns |= {"task_backend": KEPT_BY_JOB} if job.task_backend else {}
    anew = {name: value for name, value in configuration.items() if name not in _OF_ITS_FAILURES}
    encrypted = bool(envelope_of(job.handler_configuration))
    (made,) = create_external_jobs(using, columns, [anew], encrypted=encrypted)
    return made


def _note(job: AbstractJob, using: str, more: dict[str, Any]) -> None:
    new = {"handler_type": job.handler_type, "arguments": redact_job(job), **more}
    new |= {name: getattr(job, name) for name in ("category", "priority", "due_date") if getattr(job, name)}
    audit.note(using, str(job._meta.model_name), job.pk, new=new, tenant=job.tenant_id)
