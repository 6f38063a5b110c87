"""``jobs schedules``: list and show schedules."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.exceptions import InvalidSchedule
from jobexec.models import Schedule, ScheduleFiring
from jobexec.operations.schedules.manage import schedule_problem, upcoming
from jobexec.operations.values.humanize import both

from ..arguments import values
from ..arguments.meant import no_such
from ..nested import Group
from ..output.screen import Exit, Screen, plain
from ..output.text import clean
from .add import AddSchedule
from .change import CHANGES
from .rows import as_object, say_times, some_names, tell_schedules

LIMIT, TIMES, FIRINGS = 100, 5, 5


class ListSchedules:
    """List all schedules by name."""

    name = "list"
    help = "List schedules by name; the default action."
    positionals = ""

    def add_options(self, parser: ArgumentParser) -> None:
        """Add no options."""

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        rows = Schedule.objects.using(screen.using).order_by("name")[: options["limit"]]
        if not tell_schedules(list(rows), screen):
            screen.say(_("No schedules."))
        return Exit.DONE


class ShowSchedule:
    """Show one schedule: its next times, its arguments, its latest jobs, and why it might not fire."""

    name = "show"
    help = "Show everything about a schedule: its next times, its arguments, its latest jobs."
    positionals = " NAME"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("schedule", metavar="NAME", help="the schedule")
        most = f"number of next times; default {TIMES}"
        parser.add_argument("--times", type=values.count, default=TIMES, metavar="N", help=most)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        row = Schedule.objects.using(screen.using).filter(name=options["schedule"]).first()
        if row is not None:
            _show(row, options["times"], screen)
            return Exit.DONE
        if not screen.json:
            text = no_such(_("There is no such schedule."), options["schedule"], some_names(screen.using))
            screen.say(text, screen.style.WARNING)
        return Exit.LEFT_ALONE


def _show(row: Schedule, count: int, screen: Screen) -> None:
    found = ScheduleFiring.objects.using(screen.using).filter(schedule_id=row.pk).order_by("-fire_time")
    firings = list(found.values_list("fire_time", "job_id")[:FIRINGS])
    try:
        times = upcoming(row, count, clock.now(screen.using))
    except InvalidSchedule:  # schedule_problem reports it
        times = []
    problem = schedule_problem(row)
    if screen.json:
        fired = [{"fire_time": time, "job_id": id} for time, id in firings]
        screen.tell({**as_object(row), "upcoming": times, "firings": fired, "problem": problem})
        return
    tell_schedules([row], screen)
    _say_jobs(as_object(row), screen)
    if problem:
        text = _("This process could not fire the schedule: %(problem)s") % {"problem": clean(problem)}
        screen.say(text, screen.style.WARNING)
    if times:
        _head(_("Next times"), screen)
        say_times(times, screen)
    if firings:
        _head(_("Last firings"), screen)
        now = clock.now(screen.using)
        for time, id in firings:
            screen.say(f"  {both(time, now)}  {id}")


def _say_jobs(shown: Mapping[str, Any], screen: Screen) -> None:
    for title, value in ((_("Arguments"), shown["handler_configuration"]), (_("Options"), shown["options"])):
        screen.say(f"{title}: {clean(json.dumps(value, ensure_ascii=False, default=plain))}")


def _head(title: str, screen: Screen) -> None:
    screen.say()
    screen.say(title, screen.style.MIGRATE_HEADING)


_NESTED = (ListSchedules(), ShowSchedule(), AddSchedule(), *CHANGES)


class Schedules(Group):
    """List schedules by name, or run a nested action."""

    name = "schedules"
    help = "List schedules with their next times; or show, add, enable, disable, fire, delete them."
    positionals = " [list|show NAME|add NAME HANDLER EXPRESSION|enable|disable|fire|delete NAME ...]"
    nested = _NESTED
    limit = LIMIT
