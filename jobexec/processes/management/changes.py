"""The actions of ``manage.py processes`` that change instances."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError

from jobexec.identifiers import as_id
from jobexec.management.jobs.arguments.named import LEAST, Beginning, beginning, row_id
from jobexec.management.jobs.arguments.values import json_object, moment
from jobexec.management.jobs.output.screen import Exit, ask
from jobexec.management.jobs.output.text import clean
from jobexec.operations.reports.counts import CappedCount
from jobexec.operations.targets.lookup import beginning_with
from jobexec.processes.engine.inputs import Change, Command
from jobexec.processes.models import ProcessDefinition, ProcessInstance
from jobexec.processes.operations.instances import cancel, set_retries
from jobexec.processes.operations.many import cancel_all
from jobexec.processes.operations.modify import command, modify_instance, restart
from jobexec.processes.operations.suspend import Target, activate, suspend
from jobexec.processes.store import definitions

Options = dict[str, Any]

ITS_ID = "the id of the instance, or its first digits; or its business key"
#: How many instances an error about an ambiguous business key lists.
_LISTED = 10


def add_arguments(actions: Any) -> None:
    """Add the actions to the command."""
    cancelled = actions.add_parser("cancel", help="cancel an instance; or all of a process, as a batch of jobs")
    cancelled.add_argument("instance", nargs="?", type=instance, help=ITS_ID)
    cancelled.add_argument(
        "--process", type=_given, metavar="KEY", help="instead of an id: all running instances of this process"
    )
    cancelled.add_argument(
        "--definition",
        type=_given,
        metavar="ID",
        help="instead of an id: all running instances of this version, by the id of its definition",
    )
    cancelled.add_argument("--business-key", type=_given, help="only instances with this business key")
    cancelled.add_argument("--tenant", type=_given, help="only instances of this tenant")
    cancelled.add_argument("--reason", default="")
    cancelled.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    _add_skipping(cancelled)
    for name, told in (
        ("suspend", "suspend an instance or a process"),
        ("activate", "activate an instance or a process that is suspended"),
    ):
        held = actions.add_parser(name, help=told)
        held.add_argument(
            "target", metavar="INSTANCE|KEY", help="an instance's id or its first digits, or a process's key"
        )
        held.add_argument("--version", type=int, help="only this version of the process")
        held.add_argument("--tenant", help="only the process of this tenant; '' for the one without a tenant")
        held.add_argument("--at", type=moment, help="when it takes effect; default: now")
        if name == "suspend":
            held.add_argument("--until", type=moment, help="when the suspension ends; default: no end")
            held.add_argument("--without-instances", action="store_true", help="do not suspend running instances")
    modified = actions.add_parser("modify", help="modify a running instance; the order of the options matters")
    modified.add_argument("instance", type=instance, help=ITS_ID)
    modified.set_defaults(commands=[])
    _add_commands(modified, {"--cancel": Change.CANCEL, "--before": Change.BEFORE, "--after": Change.AFTER})
    modified.add_argument(
        "--variables", type=json_object, default={}, help="a JSON object: variables for the started elements"
    )
    modified.add_argument("--reason", default="")
    _add_skipping(modified)
    again = actions.add_parser("restart", help="restart an instance that has ended")
    again.add_argument("instance", type=instance, help=f"{ITS_ID}; it has ended")
    again.set_defaults(commands=[])
    _add_commands(again, {"--before": Change.BEFORE, "--after": Change.AFTER})
    again.add_argument(
        "--variables",
        type=json_object,
        default={},
        help="a JSON object: variables in addition to those that it ended with",
    )
    retried = actions.add_parser("retry", help="requeue the dead letters of an instance")
    retried.add_argument("instance", type=instance, help=ITS_ID)
    retried.add_argument("--element", help="only those of this element")
    retried.add_argument("--retries", type=int, default=1)


def _given(text: str) -> str:
    """An argparse type. An empty variable of a shell must not select all instances that have no such value."""
    if not text.strip():
        raise ArgumentTypeError("expected a value that is not empty")
    return text


def _add_skipping(parser: ArgumentParser) -> None:
    parser.add_argument("--skip-listeners", action="store_true", help="call no listeners of the model")


def _add_commands(parser: ArgumentParser, options: dict[str, Change]) -> None:
    told = {
        Change.CANCEL: "cancel everything active at the element",
        Change.BEFORE: "start before the element",
        Change.AFTER: "start after the element, as if it were completed",
    }
    for name, change in options.items():
        parser.add_argument(
            name,
            dest="commands",
            action="append",
            type=partial(_pair, change),
            metavar="ELEMENT",
            help=told[change],
        )


def _pair(change: Change, element: str) -> tuple[Change, str]:
    return change, element


def _cancel(using: str, options: Options) -> str:
    filters = {
        "definition_key": options["process"],
        "definition_id": options["definition"],
        "business_key": options["business_key"],
        "tenant_id": options["tenant"],
    }
    wanted = {name: value for name, value in filters.items() if value is not None}
    if (options["instance"] is None) == (not wanted):
        raise CommandError("Expected the id of an instance, or options that select instances.", returncode=2)
    reason, skip = options["reason"], options["skip_listeners"]
    if options["instance"] is not None:
        cancel(instance_in(options, using), reason, skip_listeners=skip, using=using)
        return "Cancelled."
    key, rows = options["process"], ProcessInstance.objects.using(using).filter(**wanted)
    if key is not None and not ProcessDefinition.objects.using(using).filter(key=key).exists():
        raise definitions.unknown(key)
    count = CappedCount.of(rows.active().filter(parent_execution_id=None))
    if not count:
        return "No running instance matches."
    if not (options["yes"] or ask(f"Cancel {count} running instances? This cannot be undone.")):
        raise CommandError("Nothing has been cancelled.", returncode=Exit.LEFT_ALONE)
    batch = cancel_all(rows, reason, skip_listeners=skip)
    return f"The batch {batch.id} cancels {count} instances."


def _suspend(using: str, options: Options) -> str:
    moved = suspend(
        _target(options["target"], using),
        version=options["version"],
        tenant_id=options["tenant"],
        at=options["at"],
        until=options["until"],
        include_instances=not options["without_instances"],
        using=using,
    )
    return f"Suspended. Jobs moved: {moved}."


def _activate(using: str, options: Options) -> str:
    scope: dict[str, Any] = {"version": options["version"], "tenant_id": options["tenant"]}
    moved = activate(_target(options["target"], using), at=options["at"], using=using, **scope)
    return f"Activated. Jobs moved: {moved}."


def _modify(using: str, options: Options) -> str:
    commands: list[Command] = [
        command(change, element, None if change is Change.CANCEL else options["variables"])
        for change, element in options["commands"]
    ]
    instance, skip = instance_in(options, using), options["skip_listeners"]
    modify_instance(instance, commands, options["reason"], skip_listeners=skip, using=using)
    return "Modified."


def _restart(using: str, options: Options) -> str:
    chosen = {kind: [each for change, each in options["commands"] if change is kind] for kind in Change}
    row = restart(
        instance_in(options, using),
        before=chosen[Change.BEFORE],
        after=chosen[Change.AFTER],
        variables=options["variables"],
        using=using,
    )
    return f"{row.pk} {row.state}"


def _retry(using: str, options: Options) -> str:
    count = set_retries(instance_in(options, using), options["retries"], element=options["element"], using=using)
    return f"{count} dead {'letter was' if count == 1 else 'letters were'} requeued."


CHANGES: dict[str, Callable[[str, Options], str]] = {
    "cancel": _cancel,
    "suspend": _suspend,
    "activate": _activate,
    "modify": _modify,
    "restart": _restart,
    "retry": _retry,
}


def instance(text: str) -> UUID | Beginning | str:
    """An argparse type: the id of an instance, its beginning, or a business key."""
    if not text:
        raise ArgumentTypeError("expected the id of an instance, its first digits, or its business key")
    return as_id(text) or beginning(text) or text


def instance_in(options: Options, using: str) -> UUID:
    """The id of the instance that is meant: the only one that runs with a business key, or else that has ended with it.

    Raises CommandError for a business key, or the beginning of an id, of none or of several.
    """
    named, every = options["instance"], ProcessInstance.objects.using(using)
    if isinstance(named, UUID) and every.filter(pk=named).exists():
        return named
    key = named.text if isinstance(named, Beginning) else str(named)
    rows = every.filter(business_key=key).order_by("-pk")
    found = list(rows.active()[: _LISTED + 1]) or list(rows[: _LISTED + 1])
    if found and isinstance(named, Beginning):  # both are meant
        others = every.exclude(pk__in=[row.pk for row in found])
        found += beginning_with(others, named.digits, end=named.end).order_by("pk")[:_LISTED]
    if len(found) == 1:
        return found[0].pk
    if isinstance(named, UUID) and not found:
        raise CommandError(f"There is no process instance {named}.", returncode=Exit.LEFT_ALONE)
    if found:
        lines = [f"  {row.pk}  {row.definition_key}, {row.state}" for row in found[:_LISTED]]
        more = ["  …"] if len(found) > _LISTED else []
        told = f"Several instances have the business key {clean(key)}, or an id that begins so; enter one of these ids:"
        raise CommandError("\n".join([told, *lines, *more]), returncode=2)
    if isinstance(named, str):
        expected = f"expected an id, at least the first {LEAST} digits of one, or a business key"
        raise CommandError(f"No instance has the business key {clean(key)}: {expected}.", returncode=2)
    return row_id(named, ProcessInstance, using)


def _target(text: str, using: str) -> Target:
    id, start = as_id(text), beginning(text)
    if id is not None:
        return id
    if start is None or ProcessDefinition.objects.using(using).filter(key=text).exists():
        return text
    return row_id(start, ProcessInstance, using)
