"""The verbs of the command on jobs: verbs of ``jobexec.operations`` with their options."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from jobexec import operations
from jobexec.conf import get_settings
from jobexec.handlers.registry import known_names
from jobexec.models import (
    HANDLER_TABLES,
    JOB_TABLES,
    RUNNABLE_TABLES,
    BlockedJob,
    JobDefinition,
    SuspendedJob,
    Suspension,
    SuspensionScope,
    TimerJob,
)
from jobexec.operations.manage.verbs import VERBS, Tables, Verb, scope_activated, scope_not_suspended, scope_suspended
from jobexec.operations.query.job_query import JobQuery
from jobexec.operations.rows.suspension_cover import scope_of

from ..arguments import values
from ..arguments.meant import question
from ..output.screen import Exit, usage

Options: TypeAlias = Mapping[str, Any]

SCOPES = {
    "process-instance": SuspensionScope.PROCESS_INSTANCE.value,
    "process-definition": SuspensionScope.PROCESS_DEFINITION.value,
    "process-definition-version": SuspensionScope.PROCESS_DEFINITION_VERSION.value,
    "job-definition": SuspensionScope.JOB_DEFINITION.value,
    "category": SuspensionScope.CATEGORY.value,
    "tenant": SuspensionScope.TENANT.value,
}
"""The scopes that can be suspended as a whole: name on the command line to column."""


def _no_options(parser: ArgumentParser) -> None:
    """Add no options."""


def _no_arguments(options: Options) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Subcommand:
    """A verb as a subcommand. ``verb`` is its name in :data:`~jobexec.operations.manage.verbs.VERBS`.

    ``usual`` are the tables that are searched if the options name no state; ``among`` is a condition that its jobs
    meet besides those of the options. A verb with a warning asks for confirmation.
    """

    name: str
    help: str
    verb: str
    usual: Tables = ()
    add_options: Callable[[ArgumentParser], None] = _no_options
    arguments: Callable[[Options], dict[str, Any]] = _no_arguments
    scoped: Callable[[str, str, str, dict[str, Any]], tuple[int, str]] | None = field(default=None)
    among: Mapping[str, Any] = field(default_factory=dict)

    @property
    def registered(self) -> Verb:
        """The verb itself."""
        return VERBS[self.verb]

    def tables_of(self, query: JobQuery) -> Tables:
        """The tables in which its jobs can be."""
        return self.registered.tables if query.states is not None or not self.usual else self.usual

    def narrowed(self, query: JobQuery) -> JobQuery:
        """The query among the jobs to which the verb applies at all; conditions from the options take precedence."""
        return JobQuery(**{**self.among, **query.given})


def _requeue_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--retries", type=values.count, default=3, metavar="N", help="number of new attempts; default 3"
    )


def _suspend_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    _scope_option(parser, "suspend the whole scope, including jobs that are created later")
    add("--at", type=values.moment, metavar="MOMENT", help="when the suspension begins; default now")
    add("--until", type=values.moment, metavar="MOMENT", help="when it ends; default: no end")
    add("--new-jobs-only", action="store_true", help="with --scope: only jobs that are created from then on")


def _suspend_arguments(options: Options) -> dict[str, Any]:
    arguments = _given("at", "until")(options) | _of_tenant(options)
    if options["new_jobs_only"]:
        if options["scope"] is None:
            raise usage(_("--new-jobs-only needs --scope: jobs that you name already exist."))
        arguments["include_jobs"] = False
    return arguments


def _activate_options(parser: ArgumentParser) -> None:
    _scope_option(parser, "activate the whole scope")
    parser.add_argument("--at", type=values.moment, metavar="MOMENT", help="when; default now")


def _activate_arguments(options: Options) -> dict[str, Any]:
    return _given("at")(options) | _of_tenant(options)


def _of_tenant(options: Options) -> dict[str, Any]:
    tenant = options["of_tenant"]
    if tenant is None:
        return {}
    if not options["scope"] or options["scope"][0] != "process-definition":
        raise usage(_("--of-tenant needs --scope process-definition."))
    return {"tenant_id": tenant}


def _scope_option(parser: ArgumentParser, help: str) -> None:
    parser.add_argument("--scope", nargs=2, metavar=("SCOPE", "VALUE"), help=f"{help}: {', '.join(SCOPES)}")
    help = "with --scope process-definition: only the jobs of this tenant; '' for those without one"
    parser.add_argument("--of-tenant", metavar="TENANT", help=help)


def _column_of(scope: str) -> str:
    if scope not in SCOPES:
        raise usage(f"--scope: expected one of {', '.join(SCOPES)}, got {scope!r}.{question(scope, SCOPES)}")
    return SCOPES[scope]


def _suspend_scope(scope: str, value: str, using: str, arguments: dict[str, Any]) -> tuple[int, str]:
    column = _column_of(scope)
    named, _whole = _scope(column, value, arguments)
    known = _is_known(column, value, using)
    moved = operations.suspend(using=using, **{**arguments, column: value})
    assert isinstance(moved, int)
    told = scope_suspended(named, _shown(value, arguments), moved, arguments)
    return moved, told if known else " ".join([told, _("No job has this value now.")])


def _activate_scope(scope: str, value: str, using: str, arguments: dict[str, Any]) -> tuple[int, str]:
    column = _column_of(scope)
    named, whole = _scope(column, value, arguments)
    was = Suspension.objects.using(using).filter(scope=named, value=whole, live=True).exists()
    moved = operations.activate(using=using, **{**arguments, column: value})
    assert isinstance(moved, int)
    shown = _shown(value, arguments)
    told = scope_activated(named, shown, moved, arguments) if was else scope_not_suspended(named, shown)
    return moved, told


def _shown(value: str, arguments: Mapping[str, Any]) -> str:
    tenant = arguments.get("tenant_id")
    return value if tenant is None else f"{value} ({tenant or '-'})"


def _scope(column: str, value: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    """The scope of a suspension, and its value."""
    try:
        return scope_of(**{"tenant_id": arguments.get("tenant_id"), column: value})
    except ValueError as error:
        raise usage(f"--scope: {error}") from error


def _is_known(column: str, value: str, using: str) -> bool:
    """Whether any job has this value, or may have it soon: who mistypes one believes it to be stopped.

    Refuses a category, and a job definition, of which nobody has heard.
    """
    known: set[str] = set()
    if column == SuspensionScope.CATEGORY.value:
        known = {*get_settings().categories, *JobDefinition.objects.using(using).values_list("category", flat=True)}
    elif column == SuspensionScope.JOB_DEFINITION.value:
        known = {*known_names(), *JobDefinition.objects.using(using).values_list("pk", flat=True)}
    if value in known:
        return True
    if any(table._base_manager.using(using).filter(**{column: value}).exists() for table in JOB_TABLES):
        return True
    if known:
        told = _("--scope: no %(label)s %(value)r is known, and nothing has been suspended.")
        text = told % {"label": SuspensionScope(column).label, "value": value}
        raise CommandError(text + question(value, known), returncode=Exit.LEFT_ALONE)
    return False


def _reschedule_options(parser: ArgumentParser) -> None:
    parser.add_argument("--to", required=True, type=values.moment, metavar="MOMENT", help="the new due date")


def _prioritize_options(parser: ArgumentParser) -> None:
    parser.add_argument("--priority", required=True, type=int, metavar="N", help="higher values run sooner")


def _bury_options(parser: ArgumentParser) -> None:
    parser.add_argument("--reason", metavar="TEXT", help="replaces the message of the last failure")


def _recalculate_options(parser: ArgumentParser) -> None:
    parser.add_argument("--from-creation", action="store_true", help="from the creation of the jobs; default: from now")


def _reencrypt_options(parser: ArgumentParser) -> None:
    parser.add_argument("--plain", action="store_true", help="also encrypt jobs that are not encrypted yet")


def _given(*names: str) -> Callable[[Options], dict[str, Any]]:
    return lambda options: {name: options[name] for name in names if options[name] is not None}


SUBCOMMANDS = (
    Subcommand(
        "retry",
        "Make waiting retries and timers due immediately; their number of retries does not change.",
        "retry_now",
        usual=(TimerJob,),
    ),
    Subcommand(
        "requeue",
        "Give dead letters new attempts and make them executable.",
        "requeue",
        add_options=_requeue_options,
        arguments=_given("retries"),
    ),
    Subcommand(
        "suspend",
        "Keep jobs from running, or everything of a tenant, process, handler or category (--scope).",
        "suspend",
        usual=RUNNABLE_TABLES,
        add_options=_suspend_options,
        arguments=_suspend_arguments,
        scoped=_suspend_scope,
    ),
    Subcommand(
        "activate",
        "Let suspended jobs run again, or everything of a tenant, process, handler or category (--scope).",
        "activate",
        usual=(SuspendedJob,),
        add_options=_activate_options,
        arguments=_activate_arguments,
        scoped=_activate_scope,
    ),
    Subcommand("cancel", "Remove waiting jobs, and ask running jobs to stop.", "cancel"),
    Subcommand("delete", "Delete jobs in any state for good; running ones are skipped.", "delete"),
    Subcommand(
        "reschedule",
        "Set the due date of jobs.",
        "set_due_date",
        add_options=_reschedule_options,
        arguments=lambda options: {"due_date": options["to"]},
    ),
    Subcommand(
        "prioritize",
        "Set the priority of jobs.",
        "set_priority",
        add_options=_prioritize_options,
        arguments=_given("priority"),
    ),
    Subcommand(
        "recalculate",
        "Restart the wait of waiting retries, for as long as their retry plan specifies.",
        "recalculate_due_date",
        usual=(TimerJob,),
        add_options=_recalculate_options,
        arguments=_given("from_creation"),
        among={"attempted": True},
    ),
    Subcommand(
        "unlock",
        "Release jobs whose owners are gone; jobs of a living owner are skipped. Jobs of external workers only if"
        " they are named, or with --state external_worker.",
        "unlock",
        usual=HANDLER_TABLES,
        among={"locked": True},
    ),
    Subcommand(
        "end-wait",
        "Continue jobs that wait for a message without it, as if their wait had timed out.",
        "end_wait",
        usual=(BlockedJob,),
    ),
    Subcommand(
        "bury",
        "Turn jobs into dead letters, whatever retries they have left.",
        "move_to_dead_letter",
        add_options=_bury_options,
        arguments=_given("reason"),
    ),
)

REENCRYPT = Subcommand(
    "reencrypt",
    "Encrypt the arguments of encrypted jobs with the newest key, so that an old one can be removed.",
    "reencrypt",
    add_options=_reencrypt_options,
    arguments=lambda options: {"plain": True} if options["plain"] else {},
)
