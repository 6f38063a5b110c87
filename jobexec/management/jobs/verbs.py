"""What the command can do to jobs: verbs of ``jobexec.operations`` with the options that they need."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID

from django.utils.translation import gettext_lazy, ngettext

from jobexec import operations
from jobexec.models import AbstractJob, DeadLetterJob, Job, Scope, SuspendedJob, TimerJob
from jobexec.operations.query import JobQuery
from jobexec.operations.selection import OperationResult

from . import values
from .screen import usage

Tables: TypeAlias = tuple[type[AbstractJob], ...]
Options: TypeAlias = Mapping[str, Any]

WAITING: Tables = (Job, TimerJob, SuspendedJob)
ALL: Tables = (*WAITING, DeadLetterJob)

SCOPES = {name.replace("_id", "").replace("_key", "").replace("_", "-"): name for name in Scope.values if name != "id"}
"""What can be suspended as a whole, as it is written on the command line: the column."""


def _no_options(parser: ArgumentParser) -> None:
    """It needs none."""


def _no_arguments(options: Options) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Verb:
    """One of them. ``operation`` is its name as a batch; ``tables`` are those in which it means something, and
    ``usual`` those that are meant where the options name no state; ``warning`` makes it ask first."""

    name: str
    help: str
    operation: str
    function: Callable[..., Any]
    tables: Tables
    counted: Callable[[int], str]
    usual: Tables = ()
    add_options: Callable[[ArgumentParser], None] = _no_options
    arguments: Callable[[Options], dict[str, Any]] = _no_arguments
    warning: Any = ""
    scoped: Callable[[str, str, str, dict[str, Any]], int] | None = field(default=None)

    def tables_of(self, query: JobQuery) -> Tables:
        """Where the jobs can be that are meant."""
        return self.tables if query.states is not None or not self.usual else self.usual

    def act(self, ids: Sequence[UUID], using: str, arguments: Mapping[str, Any]) -> OperationResult:
        """Do it to these jobs now."""
        result: OperationResult = self.function(list(ids), using=using, **arguments)
        return result

    def done(self, count: int) -> str:
        """What has been done, in words."""
        return self.counted(count) % {"count": count}


def _requeue_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--retries", type=values.count, default=3, metavar="N", help="attempts that they get; default 3"
    )


def _suspend_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    _scope_option(parser, "suspend all of this, also jobs that are created later")
    add("--at", type=values.moment, metavar="MOMENT", help="from then on; default now")
    add("--until", type=values.moment, metavar="MOMENT", help="until then; default without an end")


def _activate_options(parser: ArgumentParser) -> None:
    _scope_option(parser, "activate all of this")
    parser.add_argument("--at", type=values.moment, metavar="MOMENT", help="then; default now")


def _scope_option(parser: ArgumentParser, help: str) -> None:
    parser.add_argument("--scope", nargs=2, metavar=("SCOPE", "VALUE"), help=f"{help}: {', '.join(SCOPES)}")


def _column_of(scope: str) -> str:
    if scope not in SCOPES:
        raise usage(f"--scope: expected one of {', '.join(SCOPES)}, got {scope!r}.")
    return SCOPES[scope]


def _suspend_scope(scope: str, value: str, using: str, arguments: dict[str, Any]) -> int:
    arguments = {_column_of(scope): value, **arguments}
    moved = operations.suspend(using=using, **arguments)
    assert isinstance(moved, int)
    return moved


def _activate_scope(scope: str, value: str, using: str, arguments: dict[str, Any]) -> int:
    arguments = {_column_of(scope): value, **arguments}
    moved = operations.activate(using=using, **arguments)
    assert isinstance(moved, int)
    return moved


def _reschedule_options(parser: ArgumentParser) -> None:
    parser.add_argument("--to", required=True, type=values.moment, metavar="MOMENT", help="when they are due")


def _prioritize_options(parser: ArgumentParser) -> None:
    parser.add_argument("--priority", required=True, type=int, metavar="N", help="higher runs sooner")


def _given(*names: str) -> Callable[[Options], dict[str, Any]]:
    return lambda options: {name: options[name] for name in names if options[name] is not None}


VERBS = (
    Verb(
        "retry",
        "Make waiting retries and timers due at once; their retries stay.",
        "retry_now",
        operations.retry_now,
        WAITING,
        lambda count: ngettext("%(count)d job is due now.", "%(count)d jobs are due now.", count),
        usual=(TimerJob,),
    ),
    Verb(
        "requeue",
        "Give dead letters new attempts and make them executable.",
        "requeue",
        operations.requeue,
        (DeadLetterJob,),
        lambda count: ngettext("%(count)d job requeued.", "%(count)d jobs requeued.", count),
        add_options=_requeue_options,
        arguments=_given("retries"),
    ),
    Verb(
        "suspend",
        "Keep jobs from running, or everything of a tenant, process or handler (--scope).",
        "suspend",
        operations.suspend,
        WAITING,
        lambda count: ngettext("%(count)d job suspended.", "%(count)d jobs suspended.", count),
        usual=(Job, TimerJob),
        add_options=_suspend_options,
        arguments=_given("at", "until"),
        scoped=_suspend_scope,
    ),
    Verb(
        "activate",
        "Let suspended jobs run again, or everything of a tenant, process or handler (--scope).",
        "activate",
        operations.activate,
        WAITING,
        lambda count: ngettext("%(count)d job activated.", "%(count)d jobs activated.", count),
        usual=(SuspendedJob,),
        add_options=_activate_options,
        arguments=_given("at"),
        scoped=_activate_scope,
    ),
    Verb(
        "cancel",
        "Remove jobs that wait, and ask those that run to stop.",
        "cancel",
        operations.cancel,
        WAITING,
        lambda count: ngettext("%(count)d job cancelled.", "%(count)d jobs cancelled.", count),
        warning=gettext_lazy("Jobs that wait are removed and never run; those that run are asked to stop."),
    ),
    Verb(
        "delete",
        "Delete jobs for good, in any state; running ones are left alone.",
        "delete",
        operations.delete_jobs,
        ALL,
        lambda count: ngettext("%(count)d job deleted.", "%(count)d jobs deleted.", count),
        warning=gettext_lazy("Jobs that are deleted never run and cannot be restored."),
    ),
    Verb(
        "reschedule",
        "Choose when jobs are due.",
        "set_due_date",
        operations.set_due_date,
        WAITING,
        lambda count: ngettext("%(count)d job rescheduled.", "%(count)d jobs rescheduled.", count),
        add_options=_reschedule_options,
        arguments=lambda options: {"due_date": options["to"]},
    ),
    Verb(
        "prioritize",
        "Choose who goes first.",
        "set_priority",
        operations.set_priority,
        ALL,
        lambda count: ngettext("%(count)d job has the new priority.", "%(count)d jobs have the new priority.", count),
        add_options=_prioritize_options,
        arguments=_given("priority"),
    ),
)
