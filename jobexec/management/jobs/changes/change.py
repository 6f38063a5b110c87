"""Actions that change jobs: by id, or all jobs that meet conditions; many jobs by a batch."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec import clock
from jobexec.models import AbstractJob, Batch
from jobexec.operations.query.job_query import STATES, JobQuery
from jobexec.operations.reports.counts import CappedCount
from jobexec.operations.targets.for_each import OperationResult
from jobexec.operations.targets.lookup import find_states
from jobexec.operations.why.facts import HEAVY

from ..arguments import named
from ..arguments.filters import add_filters, hints, query_of
from ..output.outcome import tell, user
from ..output.rows import show_rows
from ..output.screen import Exit, Screen, ask, usage
from ..stats.as_text import number
from .subcommands import Subcommand

#: Up to this many jobs are changed directly; more become a batch.
AT_ONCE = 1000
_SHOWN = 10


class Change:
    """One subcommand on the selected jobs."""

    positionals = " [ID ...]"

    def __init__(self, subcommand: Subcommand) -> None:
        self.subcommand, self.verb = subcommand, subcommand.registered
        self.name, self.help = subcommand.name, subcommand.help

    def add_options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("ids", nargs="*", type=named.job, metavar="ID", help="the ids or keys of the jobs")
        add("--all-matching", action="store_true", help="instead of ids: all jobs that match the options below")
        if self.verb.in_batches:
            add("--batch", action="store_true", help=f"use a batch even for {AT_ONCE} jobs or fewer")
        add("--dry-run", action="store_true", help="only show which jobs would be affected")
        if self.verb.warning:
            add("--yes", action="store_true", help="do not ask for confirmation")
        self.subcommand.add_options(parser)
        add_filters(parser)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        arguments, query = self.subcommand.arguments(options), query_of(options, screen.using)
        if self.subcommand.scoped is not None and (scope := options["scope"]) is not None:
            if query.given:
                raise usage(_("Give --scope or conditions, not both: %(names)s.") % {"names": ", ".join(query.given)})
            return self._scope(scope, arguments, options, screen)
        if options["all_matching"]:
            return self._matching(self.subcommand.narrowed(query), arguments, options, screen)
        if not options["ids"]:
            raise usage(_("Give the ids of jobs, or --all-matching for all jobs that match the options."))
        if query.given:
            raise usage(_("Give ids or conditions, not both: %(names)s.") % {"names": ", ".join(query.given)})
        ids = [named.id_of(each, screen.using) for each in options["ids"]]
        return self._named(list(dict.fromkeys(ids)), arguments, options, screen)

    def _named(self, ids: list[UUID], arguments: dict[str, Any], options: Mapping[str, Any], screen: Screen) -> int:
        if options["dry_run"]:
            return self._dry_named(ids, screen)
        if not self._sure(len(ids), options):
            return Exit.LEFT_ALONE
        if self._by_batch(len(ids), options):
            return self._batches([ids], arguments, screen)
        return self._act(ids, arguments, screen)

    def _matching(self, query: JobQuery, arguments: dict[str, Any], options: Mapping[str, Any], screen: Screen) -> int:
        tables = [table for table in query.tables if table in self.subcommand.tables_of(query)]
        rows = {table: query.queryset(table, screen.using) for table in tables}
        counts = {table: CappedCount.of(rows[table]) for table in tables}
        if options["dry_run"]:
            return self._dry(query, counts, screen)
        count = CappedCount.total(*counts.values())
        if not count:
            for hint in () if screen.json else hints(query, screen.using):
                screen.say(hint, screen.style.WARNING)
            return self._tell(OperationResult(), arguments, screen)
        if not self._sure(count, options):
            return Exit.LEFT_ALONE
        if self._by_batch(count, options):
            return self._batches([rows[table] for table in tables if counts[table]], arguments, screen)
        # Read all ids first: a job that moves to another table must not be selected there again.
        most = AT_ONCE if self.verb.in_batches else None
        ids = [pk for each in rows.values() for pk in each.values_list("pk", flat=True)[:most]]
        return self._act(ids, arguments, screen)

    def _act(self, ids: Sequence[UUID], arguments: dict[str, Any], screen: Screen) -> int:
        return self._tell(self.verb.act(list(ids), arguments, screen.using), arguments, screen)

    def _tell(self, result: OperationResult, arguments: dict[str, Any], screen: Screen) -> int:
        return tell(self.name, lambda count: self.verb.done(count, arguments), result, screen)

    def _scope(self, scope: Sequence[str], arguments: Any, options: Mapping[str, Any], screen: Screen) -> int:
        if options["ids"] or options["all_matching"] or options["batch"] or options["dry_run"]:
            raise usage(_("--scope cannot be combined with ids, --all-matching, --batch or --dry-run."))
        assert self.subcommand.scoped is not None
        moved, told = self.subcommand.scoped(scope[0], scope[1], screen.using, arguments)
        if screen.json:
            screen.tell({"operation": self.name, "scope": scope[0], "value": scope[1], "moved": moved})
        else:
            screen.say(told, screen.style.SUCCESS)
        return Exit.DONE

    def _by_batch(self, count: int, options: Mapping[str, Any]) -> bool:
        return self.verb.in_batches and (options["batch"] or count > AT_ONCE)

    def _sure(self, count: int, options: Mapping[str, Any]) -> bool:
        if not self.verb.warning or options["yes"]:
            return True
        affected = ngettext("This affects %(count)s job.", "This affects %(count)s jobs.", count)
        question = _("Are you sure?")
        return ask(f"{affected % {'count': number(count)}} {self.verb.warning} {question}")

    def _batches(self, targets: Sequence[Any], arguments: dict[str, Any], screen: Screen) -> int:
        from jobexec.operations.batches.control import start_batch

        start: dict[str, Any] = {"arguments": arguments, "using": screen.using, "user": user()}
        batches: list[Batch] = [start_batch(self.subcommand.verb, target, **start) for target in targets]
        if screen.json:
            screen.tell({"operation": self.name, "batches": [batch.pk for batch in batches]})
            return Exit.DONE
        for batch in batches:
            screen.say(_("Batch %(id)s has been started.") % {"id": batch.pk}, screen.style.SUCCESS)
        return Exit.DONE

    def _dry(self, query: JobQuery, counts: dict[type[AbstractJob], CappedCount], screen: Screen) -> int:
        names = {table: name for name, table in STATES.items()}
        if screen.json:
            found = {names[table]: int(count) for table, count in counts.items()}
            at_least = [names[table] for table, count in counts.items() if count.capped]
            screen.tell({"operation": self.name, "dry_run": True, "matching": found, "at_least": at_least})
            return Exit.DONE
        for table, count in counts.items():
            screen.say(f"{number(count):>10} {table._meta.verbose_name_plural}")
        states = {"states": [names[table] for table in counts]}
        if any(counts.values()):
            meant = JobQuery(**{**query.given, **states})
            show_rows(screen, meant.find(screen.using, limit=_SHOWN, defer=HEAVY), clock.now(screen.using))
        screen.say(_("Nothing has been changed."))
        return Exit.DONE

    def _dry_named(self, ids: list[UUID], screen: Screen) -> int:
        states = find_states(ids, screen.using)
        able = [id for id in ids if states.get(id) in self.verb.tables]
        if screen.json:
            told = {str(id): states[id].state.replace(" ", "_") if id in states else None for id in ids}
            screen.tell({"operation": self.name, "dry_run": True, "states": told})
        else:
            for id in ids:
                word = _(states[id].state) if id in states else _("there is no such job")
                screen.say(f"{id}  {word}")
            screen.say(_("Nothing has been changed."))
        return Exit.DONE if len(able) == len(ids) else Exit.LEFT_ALONE
