"""``jobs schedules add``: add a schedule."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from jobexec.models import Misfire, Schedule
from jobexec.operations.schedules.manage import save_schedule, upcoming

from ..arguments import values
from ..output.screen import Exit, Screen
from .rows import as_object, say_times

TIMES = 5


class AddSchedule:
    """Insert a schedule, or replace all its values."""

    name = "add"
    help = "Add a schedule; EXPRESSION is cron, such as '0 3 * * *', or an ISO 8601 cycle, such as R/PT1H."
    positionals = " NAME HANDLER EXPRESSION"

    def add_options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("schedule", metavar="NAME", help="the schedule")
        add("handler", metavar="HANDLER", help="the handler of its jobs")
        add("expression", metavar="EXPRESSION", help="when it fires")
        add("--timezone", metavar="ZONE", help="of a cron expression, such as Europe/Berlin; default TIME_ZONE")
        add("--misfire", choices=Misfire.values, default=Misfire.ONCE.value, help="for missed times; default once")
        by_name = "by name: an object; or by position: a list"
        add("--arguments", type=values.json_object_or_list, default={}, metavar="JSON", help=by_name)
        more = "options of its jobs: an object"
        add("--options", type=values.json_object, default={}, metavar="JSON", help=more)
        add("--disabled", action="store_true", help="create the schedule disabled")
        add("--replace", action="store_true", help="change an existing schedule as a whole")
        add("--dry-run", action="store_true", help="only check it and show when it would fire")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        table = Schedule.objects.using(screen.using)
        name = options["schedule"]
        if not options["replace"] and table.filter(name=name).exists():
            return self._there(name, screen)
        given = {key: options[key] for key in ("expression", "timezone", "misfire", "options")}
        arguments = options["arguments"]
        given["args"], given["kwargs"] = (arguments, {}) if isinstance(arguments, list) else ([], arguments)
        with transaction.atomic(using=screen.using):
            enabled = not options["disabled"]
            row = save_schedule(screen.using, name=name, handler_type=options["handler"], enabled=enabled, **given)
            times = upcoming(row, TIMES)
            transaction.set_rollback(options["dry_run"], using=screen.using)
        self._tell(row, times, options["dry_run"], screen)
        return Exit.DONE

    def _there(self, name: str, screen: Screen) -> int:
        if screen.json:
            screen.tell({"operation": self.name, "changed": [], "skipped": {name: _("it already exists")}})
        else:
            text = _("The schedule %(name)s already exists; --replace changes it.") % {"name": name}
            screen.say(text, screen.style.WARNING)
        return Exit.LEFT_ALONE

    def _tell(self, row: Schedule, times: Any, dry_run: bool, screen: Screen) -> None:
        if screen.json:
            screen.tell({"operation": self.name, "dry_run": dry_run, **as_object(row), "upcoming": times})
            return
        text = _("The schedule %(name)s fires:") if row.enabled else _("When enabled, the schedule %(name)s fires:")
        screen.say(text % {"name": row.name}, screen.style.SUCCESS)
        say_times(times, screen)
        if dry_run:
            screen.say(_("Nothing has been changed."))
