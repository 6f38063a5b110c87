"""The options that select jobs: the conditions of :class:`~jobexec.operations.query.job_query.JobQuery`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from django.utils.translation import gettext as _

from jobexec.conf import get_settings
from jobexec.exceptions import InvalidQuery
from jobexec.handlers.registry import OWN, all_handlers
from jobexec.models import Batch, JobDefinition, JobType
from jobexec.operations.query.job_query import STATES, JobQuery

from . import named, values
from .meant import meant, question

_TEXTS = {
    "handler": "the handler's name, or the type of an external job; TEXT* matches a prefix",
    "category": "the category; TEXT* matches a prefix",
    "process-instance": "the process instance",
    "root-process-instance": "the root process instance",
    "execution": "the execution",
    "process-definition": "the process definition, by key",
    "process-definition-version": "the process definition, by id",
    "job-definition": "the job definition",
    "deployment": "the deployment, name:version",
    "correlation": "the correlation id",
    "waits-for": "the name of the message for which it waits",
    "waits-for-key": "the key of that message",
    "exception": "part of the exception's message",
    "fingerprint": "the group of failures; only dead letters have one",
    "failed-activity": "the activity that failed",
    "lock-owner": "the lock owner, name:boot",
    "node": "the name of the node that holds it",
    "worker": "the external worker that held it last",
    "text": "an id, a key, a process instance, a correlation id, or the beginning of a handler's name",
}
_COLUMNS = {
    "process-instance": "process_instance_id",
    "root-process-instance": "root_process_instance_id",
    "execution": "execution_id",
    "process-definition": "process_definition_key",
    "process-definition-version": "process_definition_id",
    "job-definition": "job_definition_id",
    "deployment": "deployment_id",
    "correlation": "correlation_id",
    "exception": "exception_contains",
    "failed-activity": "failed_activity_id",
}
_MOMENTS = {
    "due-before": "due before this moment",
    "due-after": "due after this moment",
    "created-before": "created until this moment",
    "created-after": "created after this moment",
}
_EITHER = {
    "retries_left": (("retries-left", "with attempts left"), ("no-retries-left", "with no attempts left")),
    "attempted": (
        ("attempted", "with an attempt made; a timer then waits for a retry"),
        ("not-attempted", "with no attempt made"),
    ),
    "with_exception": (("with-exception", "with an exception"), ("without-exception", "without an exception")),
    "locked": (("locked", "held by a node or a worker"), ("unlocked", "held by neither")),
    "suspended": (
        ("suspended", "suspended, or to be suspended when its run has ended"),
        ("not-suspended", "neither"),
    ),
    "without_tenant": (
        ("without-tenant", "of no tenant; with --tenant, in addition to it"),
        ("with-tenant", "of any tenant"),
    ),
}
_NAMES = ", ".join(STATES)
_WHICH = "A job must match all of these. A MOMENT is 2026-03-01T12:00, now, +2h or '2h ago'."


def add_filters(parser: ArgumentParser) -> None:
    """Add one option for each condition; a job must meet all of them."""
    group = parser.add_argument_group("which jobs", _WHICH)
    add = group.add_argument
    add(
        "--state", dest="states", action="append", type=_state, metavar="STATE", help=f"{', '.join(STATES)}; repeatable"
    )
    add("--type", choices=JobType.values, help="the type it was created with")
    for name, help in _TEXTS.items():
        add(f"--{name}", dest=_COLUMNS.get(name, name.replace("-", "_")), metavar="TEXT", help=help)
    add("--key", dest="job_key", type=int, metavar="N", help="the key by which external workers know it")
    add("--tenant", dest="tenant_ids", action="append", metavar="TEXT", help="the tenant; repeatable")
    add("--min-priority", dest="priority_min", type=int, metavar="N", help="a priority of at least N")
    add("--max-priority", dest="priority_max", type=int, metavar="N", help="a priority of at most N")
    for name, help in _MOMENTS.items():
        add(f"--{name}", dest=name.replace("-", "_"), type=values.moment, metavar="MOMENT", help=help)
    add("--of-batch", dest="batch_id", metavar="ID", help="the batch that it is a part of")
    for name, words in _EITHER.items():
        either = group.add_mutually_exclusive_group()
        for value, (option, help) in zip((True, False), words, strict=True):
            either.add_argument(f"--{option}", dest=name, action="store_const", const=value, help=help)


def _state(text: str) -> str:
    return text.replace("-", "_").replace(" ", "_")


def query_of(options: Mapping[str, Any], using: str) -> JobQuery:
    """Build the query from the options. Raises :class:`~jobexec.exceptions.InvalidQuery`."""
    names = {each.name for each in fields(JobQuery)} - {"ids"}
    given = {name: options.get(name) for name in names}
    if (batch := named.beginning(given["batch_id"] or "")) is not None:
        given["batch_id"] = named.row_id(batch, Batch, using)
    try:
        return JobQuery(**given)
    except InvalidQuery as error:
        asked = [question(state, STATES) for state in given["states"] or ()]
        raise InvalidQuery(f"{error}{''.join(asked)}") from None


def hints(query: JobQuery, using: str) -> Iterator[str]:
    """Why a query without a result may not be what was meant: names that are like known ones, and are not known."""
    if query.handler and not query.handler.endswith("*") and (found := meant(query.handler, handler_names(using))):
        yield _("There is no handler %(name)s. Did you mean %(meant)s?") % _of(query.handler, found)
    categories = get_settings().categories
    if query.category and not query.category.endswith("*") and query.category not in categories:
        found = meant(query.category, categories)
        text = (
            _("There is no category %(name)s. Did you mean %(meant)s?")
            if found
            else _("There is no category %(name)s.")
        )
        yield text % _of(query.category, found)
    if query.text:
        yield _("--text does not look at arguments and exceptions; --exception looks at the latter.")


def _of(name: str, found: list[str]) -> dict[str, str]:
    return {"name": repr(name), "meant": ", ".join(found)}


def handler_names(using: str) -> set[str]:
    """The names of the handlers of this process, and of those that executors have recorded."""
    names = {handler.name for handler in all_handlers()}
    recorded = JobDefinition.objects.using(using).order_by("pk").values_list("handler_type", flat=True)[:_MOST]
    return {name for name in names.union(recorded) if not name.startswith(OWN)}


_MOST = 1000
