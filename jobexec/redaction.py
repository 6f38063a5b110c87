"""The arguments and results of jobs without sensitive values: for the admin, for commands, for records of failures."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from jobexec.encryption import envelope_of, key_of, shown_envelope, unseal_result
from jobexec.handlers.base import JobHandler, NamesArguments
from jobexec.handlers.registry import find_handler
from jobexec.models import AbstractJob, Batch, TaskResult
from jobexec.operations.rows.redaction_by_definition import (
    Known,
    callbacks_of,
    hide_as_known,
    hide_by_definition,
    known_by_definitions,
    named_by_definition,
    names_by_definitions,
)
from jobexec.operations.rows.routing import is_external
from jobexec.operations.values.acquired_job import short_configuration
from jobexec.sensitive import HIDDEN, hide, is_sensitive, may_be_within, values_below

#: Arguments whose JSON has more characters are not loaded for a list of calls.
LONGEST_CALL = 2000


def redact(handler_type: str, configuration: Any, using: str | None = None) -> Any:
    """``handler_configuration`` for display: a copy, with "●●●" in place of sensitive values, however deep.

    Positional arguments have the names of the handler's parameters. If the handler is not known, as on a web server
    without its code, the job definition written by an executor in ``using`` lists the sensitive names; if there are
    any, or there is no definition, all positional arguments are hidden, because their names are not known here.
    Encrypted arguments stay encrypted; the id of their key is shown.
    """
    if envelope_of(configuration):
        return shown_envelope(configuration)
    handler = find_handler(handler_type)
    if handler is None:
        return hide_by_definition(handler_type, configuration, using or "default")
    return _hide_as_declared(handler, configuration)


def _hide_as_declared(handler: JobHandler, configuration: Any) -> Any:
    named = _named_by(handler)
    shown = hide(configuration, named)
    names = _names_of(handler, len(_args(shown)))
    pairs = zip(names, _args(shown), strict=False)
    return _with_args(shown, [HIDDEN if is_sensitive(name, named) else value for name, value in pairs])


def redact_job(job: AbstractJob) -> Any:
    """The configuration of a job for display.

    That of an external job contains its variables, which follow no handler's parameters; the sensitive names of the
    handlers that run afterwards and get these variables apply as well.
    """
    using = job._state.db or "default"
    if not is_external(job) or envelope_of(job.handler_configuration):
        return redact(job.handler_type, job.handler_configuration, using)
    configuration = job.handler_configuration
    named = {name for handler in callbacks_of(configuration) for name in _sensitive_of(handler, using)}
    return hide(configuration, named)


def redact_batch(batch: Batch) -> dict[str, Any]:
    """The arguments of a batch for display; those of a batch of jobs are the calls that follow it, by name."""
    if not batch.of_jobs:
        return dict(batch.arguments)
    using, given = batch._state.db or "default", batch.arguments
    named = {name: given[name] for name in ("on_success", "on_failure") if given.get(name)}
    calls = {**named, **(given.get("when") or {})}
    shown = {
        name: {"handler": call["handler"], **redact(call["handler"], call["configuration"], using)}
        for name, call in calls.items()
    }
    made = {"called": given["fired"]} if given.get("fired") else {}
    return {**shown, **made, **({"grows": True} if given.get("grows") else {})}


def _sensitive_of(handler_type: str, using: str) -> Collection[str]:
    handler = find_handler(handler_type)
    return named_by_definition(handler_type, using) if handler is None else _named_by(handler)


def secrets_of(handler: JobHandler | None, text: str | None) -> list[Any]:
    """The sensitive values in the arguments of a job, given as the JSON of its row; empty if it is not JSON.

    Raises RecursionError for JSON that is nested deeper than Python reads: its content is unknown.
    Costs almost nothing for a handler and arguments without sensitive names.
    """
    named = _named_by(handler)
    if not (text and (named or may_be_within(text))):
        return []
    try:
        configuration = json.loads(text)
    except ValueError:
        return []
    args = _args(configuration)
    positional = zip(_names_of(handler, len(args)), args, strict=False)
    hidden = [value for name, value in positional if is_sensitive(name, named)]
    return [*hidden, *values_below(configuration, named)]


def redact_results(rows: Iterable[TaskResult], using: str) -> Iterator[tuple[TaskResult, Any]]:
    """Each result with its return value for display, without the values of sensitive names of its handler.

    Executors recorded the names of handlers that are unknown here (one statement). An encrypted value stays encrypted.
    """
    rows = list(rows)
    handlers = {name: find_handler(name) for name in {row.handler_type for row in rows}}
    found: dict[str, Collection[str]] = {name: _named_by(each) for name, each in handlers.items() if each is not None}
    missing = handlers.keys() - found.keys()
    found |= names_by_definitions(missing, using) if missing else {}
    for row in rows:
        if key_of(row.return_value) is not None:
            yield row, shown_envelope(row.return_value)
        else:
            yield row, hide(unseal_result(row.return_value, row.pk), found.get(row.handler_type, ()))


#: The columns of a job that say where in a process it belongs.
PLACE = ("process_definition_key", "failed_activity_id", "job_definition_id")


def with_short_arguments(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The rows with what :func:`calls_of` needs in place of their arguments, which may be a megabyte each."""
    found: QuerySet[Any] = rows.annotate(short_arguments=short_configuration(LONGEST_CALL))
    return found


def calls_of(rows: Sequence[Any], using: str) -> Iterator[tuple[Any, str]]:
    """Each row with its call as text, without sensitive values: ``charge_card(order_id=17)``.

    For jobs and task results of :func:`with_short_arguments`. Without their arguments if these are encrypted or long.
    A handler may have something else to show. At most two statements, and none if all handlers are known here.
    """
    names = {row.handler_type for row in rows if isinstance(row, AbstractJob)}
    instead = {name: shown for name in names if (shown := getattr(find_handler(name), "shown_call", None))}
    for row, arguments in arguments_of(rows, using):
        if row.handler_type in instead and (text := instead[row.handler_type](row)):
            yield row, text
            continue
        name = row.handler_type.rpartition(".")[2] or row.handler_type
        yield row, f"{name}({arguments})" if isinstance(arguments, str) else call(name, arguments)


def arguments_of(rows: Sequence[Any], using: str) -> Iterator[tuple[Any, Mapping[str, Any] | str]]:
    """Each row of :func:`with_short_arguments` with its arguments by name, or a word that stands for them."""
    given = {row.pk: _parsed(row.short_arguments) for row in rows}
    outside = {row.pk for row in rows if isinstance(row, AbstractJob) and is_external(row)}
    names = {row.handler_type for row in rows if row.pk not in outside}
    names |= {name for id in outside for name in callbacks_of(given[id])}
    handlers = {name: find_handler(name) for name in names}
    missing = [name for name, handler in handlers.items() if handler is None]
    known = known_by_definitions(missing, using) if missing else {}
    for row in rows:
        configuration, handler = given[row.pk], handlers.get(row.handler_type)
        if configuration is None:
            yield row, "…"
        elif key_of(configuration) is not None:
            yield row, _("encrypted")
        elif row.pk in outside:
            sensitive = {each for name in callbacks_of(configuration) for each in _known_names(name, handlers, known)}
            yield row, _mapping(hide(configuration, sensitive).get("variables"))
        elif handler is None:
            yield row, _arguments(None, hide_as_known(configuration, known[row.handler_type]))
        else:
            yield row, _arguments(handler, _hide_as_declared(handler, configuration))


def has_argument(arguments: Any, values: Sequence[Any], name: str | None = None) -> bool:
    """Whether one of the JSON values is among these arguments, at any depth; with a name only below that."""
    wanted = {json.dumps(value) for value in values}  # 1 == True
    left = [(name is None, arguments)]
    while left:
        named, value = left.pop()
        if isinstance(value, dict):
            left += [(named or key == name, inner) for key, inner in value.items()]
        elif isinstance(value, list | tuple):
            left += [(named, inner) for inner in value]
        elif named and json.dumps(value) in wanted:
            return True
    return False


def load_calls(jobs: Sequence[AbstractJob], using: str) -> dict[UUID, str]:
    """The calls of jobs that were loaded without their arguments, by their ids; one statement for each table."""
    ids: dict[type[AbstractJob], list[UUID]] = {}
    for job in jobs:
        ids.setdefault(type(job), []).append(job.pk)
    return calls_among((table._base_manager.using(using).filter(pk__in=ids[table]) for table in ids), using)


def calls_among(parts: Iterable[QuerySet[Any]], using: str) -> dict[UUID, str]:
    """The calls of these rows of job tables, by their ids: one statement for each table, and those of ``calls_of``."""
    found: dict[UUID, str] = {}
    for rows in parts:
        wanted = with_short_arguments(rows.only("pk", "handler_type", "job_key", *PLACE))
        found |= {row.pk: text for row, text in calls_of(list(wanted), using)}
    return found


def call(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as text; the arguments are those that may be shown."""
    return f"{name}({', '.join(shown_arguments(arguments))})"


def shown_arguments(arguments: Mapping[str, Any]) -> list[str]:
    """The arguments as in a call: those without a name by their position alone."""
    pairs = ((name, _spelled(value)) for name, value in arguments.items())
    return [text if name.startswith("[") else f"{name}={text}" for name, text in pairs]


def by_name(handler_type: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name. Those of an unknown function, and those taken by ``*args``, are named by position."""
    return _by_name(find_handler(handler_type), args, kwargs)


def _by_name(handler: JobHandler | None, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    names = list(_names_of(handler, len(args)))
    several = {name for name in names if names.count(name) > 1}
    positions = [name if name and name not in several else f"{name}[{number}]" for number, name in enumerate(names)]
    return {**dict(zip(positions, args, strict=True)), **kwargs}


def _arguments(handler: JobHandler | None, configuration: Any) -> dict[str, Any]:
    """The arguments in a configuration; one of another form, as of a handler that is no function, is shown as it is."""
    if not isinstance(configuration, dict):
        return {"[0]": configuration}
    given = configuration
    if "args" in given or "kwargs" in given:
        return _by_name(handler, _args(given), _mapping(given.get("kwargs")))
    return given


def _parsed(text: str | None) -> Any:
    """None for JSON that is not given, is broken, or is nested deeper than Python reads."""
    with suppress(ValueError, RecursionError):
        return None if text is None else json.loads(text)
    return None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _spelled(value: Any) -> str:
    return HIDDEN if isinstance(value, str) and value == HIDDEN else repr(value)


def _known_names(name: str, handlers: Mapping[str, JobHandler | None], known: Mapping[str, Known]) -> Collection[str]:
    return known[name].named if handlers[name] is None else _named_by(handlers[name])


def _named_by(handler: JobHandler | None) -> Sequence[str]:
    return handler.sensitive_names() if isinstance(handler, NamesArguments) else ()


def _names_of(handler: JobHandler | None, count: int) -> Sequence[str]:
    return handler.names_of(count) if isinstance(handler, NamesArguments) else [""] * count


def _args(configuration: Any) -> list[Any]:
    args = configuration.get("args") if isinstance(configuration, dict) else None
    return args if isinstance(args, list) else []


def _with_args(configuration: Any, args: list[Any]) -> Any:
    return {**configuration, "args": args} if args else configuration
