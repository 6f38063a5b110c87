"""``jobs definitions``: registered handlers, and changes to all jobs of one."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec import clock, operations
from jobexec.identifiers import OWN
from jobexec.models import Batch, DeadLetterJob, JobDefinition
from jobexec.operations.reports.counts import CappedCount
from jobexec.operations.values.humanize import NONE, distance

from .arguments import values
from .nested import Group
from .output.outcome import tell, user
from .output.screen import Exit, Screen
from .output.table import Cell, Column
from .stats.as_text import number


class Override:
    """Override the priority of the code."""

    name = "override"
    help = "Give this priority to jobs that are created from now on, whatever their code says."
    positionals = " ID PRIORITY"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", help="the definition")
        parser.add_argument("priority", type=int, metavar="PRIORITY", help="higher values run sooner")
        parser.add_argument("--cascade", action="store_true", help="also change existing jobs")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        id, priority = options["id"], options["priority"]
        try:
            count = operations.override_priority(id, priority, cascade=options["cascade"], using=screen.using)
        except JobDefinition.DoesNotExist as error:
            return _unknown(error, screen)
        if screen.json:
            screen.tell({"operation": self.name, "definition": id, "priority": priority, "changed": count})
            return Exit.DONE
        text = _("New jobs of %(id)s have priority %(priority)d.") % {"id": id, "priority": priority}
        screen.say(text, screen.style.SUCCESS)
        if options["cascade"]:
            changed = ngettext("%(count)d job has the new priority.", "%(count)d jobs have the new priority.", count)
            screen.say(changed % {"count": count})
        return Exit.DONE


class Clear:
    """Restore the priority of the code."""

    name = "clear"
    help = "Restore the priority of the code for jobs that are created from now on."
    positionals = " ID"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", help="the definition")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        id = options["id"]
        try:
            operations.clear_overriding_priority(id, using=screen.using)
        except JobDefinition.DoesNotExist as error:
            return _unknown(error, screen)
        if screen.json:
            screen.tell({"operation": self.name, "definition": id})
        else:
            screen.say(
                _("New jobs of %(id)s have the priority of their code again.") % {"id": id}, screen.style.SUCCESS
            )
        return Exit.DONE


class Retries:
    """Requeue all dead letters of a definition."""

    name = "retries"
    help = "Requeue all dead letters with N attempts, by a batch if there are many."
    positionals = " ID N"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", help="the definition")
        parser.add_argument("retries", type=values.count, metavar="N", help="number of new attempts")
        parser.add_argument("--dry-run", action="store_true", help="only show how many dead letters it has")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        id, using = options["id"], screen.using
        if options["dry_run"]:
            return self._dry(id, screen)
        result = operations.set_retries_by_definition(id, options["retries"], using=using, user=user())
        if not isinstance(result, Batch):
            return tell(self.name, _requeued, result, screen)
        if screen.json:
            screen.tell({"operation": self.name, "batches": [result.pk]})
        else:
            screen.say(_("Batch %(id)s has been started.") % {"id": result.pk}, screen.style.SUCCESS)
        return Exit.DONE

    def _dry(self, id: str, screen: Screen) -> int:
        count = CappedCount.of(DeadLetterJob.objects.using(screen.using).filter(job_definition_id=id))
        if screen.json:
            at_least = ["dead_letter"] if count.capped else []
            matching = {"dead_letter": int(count)}
            screen.tell({"operation": self.name, "dry_run": True, "matching": matching, "at_least": at_least})
        else:
            screen.say(f"{number(count):>10} {DeadLetterJob._meta.verbose_name_plural}")
            screen.say(_("Nothing has been changed."))
        return Exit.DONE


def _requeued(count: int) -> str:
    return ngettext("%(count)d job requeued.", "%(count)d jobs requeued.", count) % {"count": count}


def _unknown(error: JobDefinition.DoesNotExist, screen: Screen) -> int:
    if screen.json:
        screen.tell({"error": str(error)})
    else:
        screen.say(str(error), screen.style.WARNING)
    return Exit.LEFT_ALONE


_NESTED = (Override(), Clear(), Retries())


class Definitions(Group):
    """List job definitions by id, the project's before jobexec's own; or run a nested action."""

    name = "definitions"
    help = "List registered handlers with their priorities; or override one, requeue all dead letters of a handler."
    positionals = " [override ID PRIORITY|clear ID|retries ID N]"
    nested = _NESTED

    def _list(self, options: Mapping[str, Any], screen: Screen) -> int:
        rows = JobDefinition.objects.using(screen.using).order_by("id")
        found = sorted(rows, key=lambda row: row.handler_type.startswith(OWN))  # the project's come first
        if screen.json:
            for each in found:
                screen.tell({field.name: getattr(each, field.attname) for field in each._meta.concrete_fields})
        elif found:
            screen.table(_columns(), [_cells(each, screen) for each in found])
        else:
            screen.say(_("No definitions."))
        return Exit.DONE


def _columns() -> list[Column]:
    return [
        Column(_("definition"), least=12, keep_end=True),
        Column(_("priority"), right=True),
        Column(_("overridden by"), right=True),
        Column(_("category"), least=8, extra=1),
        Column(_("retry plan"), least=8, extra=3),
        Column(_("registered"), right=True, extra=2),
    ]


def _cells(row: JobDefinition, screen: Screen) -> list[Cell | str]:
    other = NONE if row.overriding_priority is None else Cell(str(row.overriding_priority), screen.style.WARNING)
    seen = distance(row.last_registered, clock.now(screen.using))
    return [row.id, str(row.priority), other, row.category, row.retry_plan or NONE, seen]
