"""``jobs groups``: groups of similar failures, and the users who deal with them."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from jobexec import clock, operations
from jobexec.operations.manage import failure_group_words as words
from jobexec.operations.reports.failure_groups import GroupOfFailures, failure_groups
from jobexec.operations.targets.for_each import OperationResult
from jobexec.operations.values.humanize import NONE, distance

from .arguments import values
from .nested import Group
from .output.outcome import tell
from .output.screen import Exit, Screen, usage
from .output.table import Cell, Column
from .stats.as_text import number

LIMIT = 20


def _no_options(parser: ArgumentParser) -> None:
    """Add no options."""


def _assign_options(parser: ArgumentParser) -> None:
    parser.add_argument("--to", required=True, metavar="USER", help="the user who deals with them; '' for none")


def _snooze_options(parser: ArgumentParser) -> None:
    parser.add_argument("--until", type=values.moment, metavar="MOMENT", help="when the snooze ends")
    parser.add_argument("--failures", type=int, metavar="N", help="or it ends after more than N further failures")


def _snooze_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    if options["until"] is None and options["failures"] is None:
        raise usage(_("Expected --until or --failures."))
    return {"until": options["until"], "failures": options["failures"]}


@dataclass(slots=True)
class Decide:
    """A decision about groups, named by their fingerprints."""

    name: str
    help: str
    verb: Callable[..., OperationResult]
    told: Callable[[int, Mapping[str, Any]], str]
    add: Callable[[ArgumentParser], None] = _no_options
    arguments: Callable[[Mapping[str, Any]], dict[str, Any]] = field(default=lambda options: {})
    positionals: str = " FINGERPRINT [FINGERPRINT ...]"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("fingerprints", nargs="+", metavar="FINGERPRINT", help="the groups")
        self.add(parser)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        result = self.verb(options["fingerprints"], using=screen.using, **self.arguments(options))
        result.skipped = {name: _(reason) for name, reason in result.skipped.items()}
        return tell(self.name, lambda count: self.told(count, options), result, screen, _left)


def _left(count: int) -> str:
    text = ngettext("%(count)d group was skipped:", "%(count)d groups were skipped:", count)
    return text % {"count": count}


_NESTED: Sequence[Decide] = (
    Decide(
        "assign",
        "Assign groups to a user.",
        operations.assign_failure_groups,
        lambda count, options: words.assigned(count, options["to"]),
        _assign_options,
        lambda options: {"assigned_to": options["to"]},
    ),
    Decide(
        "acknowledge",
        "Keep groups quiet until they are reopened.",
        operations.acknowledge_failure_groups,
        lambda count, options: words.acknowledged(count),
    ),
    Decide(
        "snooze",
        "Keep groups quiet until a moment, or until more than a number of further failures.",
        operations.snooze_failure_groups,
        lambda count, options: words.snoozed(count),
        _snooze_options,
        _snooze_arguments,
    ),
    Decide(
        "reopen",
        "End an acknowledgement or a snooze.",
        operations.reopen_failure_groups,
        lambda count, options: words.reopened(count),
    ),
)


class Groups(Group):
    """List groups of failures, the latest first, or run a nested action."""

    name = "groups"
    help = "List groups of failures, the latest first; or assign, acknowledge, snooze or reopen them."
    positionals = " [assign|acknowledge|snooze|reopen FINGERPRINT ...]"
    nested = _NESTED
    limit = LIMIT

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--all", action="store_true", help="also those that are acknowledged or snoozed")
        super().add_options(parser)

    def _list(self, options: Mapping[str, Any], screen: Screen) -> int:
        now = clock.now(screen.using)
        found = failure_groups(screen.using, limit=options["limit"], loud_at=None if options["all"] else now)
        if screen.json:
            for each in found:
                columns = {column.name: getattr(each.group, column.attname) for column in each.group._meta.fields}
                columns |= {"dead_letters": int(each.dead_letters), "quiet": each.group.quiet(now)}
                screen.tell(columns)
        elif found:
            shown = _shown(found, options)
            heads, rows = _columns(), [_cells(each, screen) for each in found]
            screen.table([heads[at] for at in shown], [[row[at] for at in shown] for row in rows])
        else:
            screen.say(_("No groups of failures."))
        return Exit.DONE


def _shown(found: Sequence[GroupOfFailures], options: Mapping[str, Any]) -> list[int]:
    """The columns in which rows can differ: without --all, all groups are open; most are assigned to nobody."""
    without = {_ATTENTION} if not options["all"] else set()
    if not any(each.group.assigned_to for each in found):
        without.add(_ASSIGNED)
    return [at for at in range(len(_columns())) if at not in without]


_ATTENTION, _ASSIGNED = 4, 6


def _columns() -> list[Column]:
    return [
        Column(_("fingerprint"), least=8),
        Column(_("last"), right=True),
        Column(_("total"), right=True),
        Column(pgettext("dead letters", "dead"), right=True),
        Column(_("attention"), extra=2),
        Column(_("group"), least=20),
        Column(_("assigned to"), least=8, extra=1),
        Column(_("message"), least=14, extra=3),
    ]


def _cells(found: GroupOfFailures, screen: Screen) -> list[Cell | str]:
    group, now = found.group, clock.now(screen.using)
    standing: Cell | str = Cell(_("open"), screen.style.WARNING)
    if group.quiet(now):
        standing = _("snoozed") if group.acknowledged_at is None else _("acknowledged")
    return [
        group.fingerprint,
        distance(group.last_time, now),
        number(group.count),
        number(found.dead_letters),
        standing,
        str(group),
        group.assigned_to or NONE,
        group.message,
    ]
