"""The arguments and results of jobs without sensitive values: for the admin, for commands, for records of failures."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from jobexec.encryption import envelope_of, key_of, shown_envelope, unseal_result
from jobexec.exceptions import HandlerNotFound
from jobexec.handlers.base import JobHandler, NamesArguments
from jobexec.handlers.registry import get_handler
from jobexec.models import AbstractJob, Batch, TaskResult
from jobexec.operations.rows.redaction_by_definition import (
    callbacks_of,
    hide_by_definition,
    named_by_definition,
    names_by_definitions,
)
from jobexec.operations.rows.routing import is_external
from jobexec.sensitive import HIDDEN, hide, is_sensitive, may_be_within, values_below


def redact(handler_type: str, configuration: Any, using: str | None = None) -> Any:
    """``handler_configuration`` for display: a copy, with "●●●" in place of sensitive values, however deep.

    Positional arguments have the names of the handler's parameters. If the handler is not known, as on a web server
    without its code, the job definition written by an executor in ``using`` lists the sensitive names; if there are
    any, or there is no definition, all positional arguments are hidden, because their names are not known here.
    Encrypted arguments stay encrypted; the id of their key is shown.
    """
    if envelope_of(configuration):
        return shown_envelope(configuration)
    try:
        handler = get_handler(handler_type)
    except HandlerNotFound:
        return hide_by_definition(handler_type, configuration, using or "default")
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
    try:
        return _named_by(get_handler(handler_type))
    except HandlerNotFound:
        return named_by_definition(handler_type, using)


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
    found: dict[str, Collection[str]] = {}
    for name in {row.handler_type for row in rows}:
        with suppress(HandlerNotFound):
            found[name] = _named_by(get_handler(name))
    missing = {row.handler_type for row in rows} - found.keys()
    found |= names_by_definitions(missing, using) if missing else {}
    for row in rows:
        if key_of(row.return_value) is not None:
            yield row, shown_envelope(row.return_value)
        else:
            yield row, hide(unseal_result(row.return_value, row.pk), found.get(row.handler_type, ()))


def _named_by(handler: JobHandler | None) -> Sequence[str]:
    return handler.sensitive_names() if isinstance(handler, NamesArguments) else ()


def _names_of(handler: JobHandler | None, count: int) -> Sequence[str]:
    return handler.names_of(count) if isinstance(handler, NamesArguments) else [""] * count


def _args(configuration: Any) -> list[Any]:
    args = configuration.get("args") if isinstance(configuration, dict) else None
    return args if isinstance(args, list) else []


def _with_args(configuration: Any, args: list[Any]) -> Any:
    return {**configuration, "args": args} if args else configuration
