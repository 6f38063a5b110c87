"""``jobs resource``: list and show resources."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.models import Resource
from jobexec.operations.reports.resources import ResourceStatus, holders, resource_names, resource_status
from jobexec.operations.values.humanize import both

from ..arguments.meant import no_such
from ..nested import Group
from ..output.rows import show_rows
from ..output.screen import Exit, Screen
from ..output.text import clean
from .change import CHANGES
from .rows import tell_resources


class ListResources:
    """List resources by name."""

    name = "list"
    help = "List the resources that the settings name, that were used or that jobs wait for; the default action."
    positionals = ""

    def add_options(self, parser: ArgumentParser) -> None:
        """Add no options."""

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        found = resource_status(screen.using, resource_names(screen.using))
        if not tell_resources(found, screen):
            screen.say(_("No resources."))
        return Exit.DONE


class ShowResource:
    """Show one resource, with its breaker and the jobs that hold permits."""

    name = "show"
    help = "Show a resource: its limits, why its breaker is open, which jobs hold its permits."
    positionals = " NAME"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("resource", metavar="NAME", help="the resource")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        (status,) = resource_status(screen.using, [options["resource"]])
        row = Resource.objects.using(screen.using).filter(pk=status.name).first()
        if row is not None or status.entry or status.in_use or status.waiting:
            _show(status, row or Resource(name=status.name), screen)
            return Exit.DONE
        if not screen.json:
            text = no_such(_("There is no such resource."), options["resource"], resource_names(screen.using))
            screen.say(text, screen.style.WARNING)
        return Exit.LEFT_ALONE


def _show(status: ResourceStatus, row: Resource, screen: Screen) -> None:
    jobs = holders(screen.using, status.name)
    if screen.json:
        shown = [{"id": job.pk, "handler_type": job.handler_type, "lock_owner": job.lock_owner} for job in jobs]
        screen.tell({**status.as_json(), "breaker_time": row.breaker_time, "hold_until": row.hold_until, "jobs": shown})
        return
    tell_resources([status], screen)
    if status.rate_words:
        screen.say(_("The rate allows: %(jobs)s") % {"jobs": status.rate_words})
    if status.reason:
        screen.say(_("Reason: %(reason)s") % {"reason": clean(status.reason)})
    if row.breaker_time is not None:
        text = _("The breaker last changed: %(time)s")
        screen.say(text % {"time": both(row.breaker_time, clock.now(screen.using))})
    if jobs:
        screen.say()
        screen.say(_("Permits in use"), screen.style.MIGRATE_HEADING)
        show_rows(screen, jobs, clock.now(screen.using), indent=2)


_NESTED = (ListResources(), ShowResource(), *CHANGES)


class Resources(Group):
    """List resources by name, or run a nested action."""

    name = "resource"
    help = "List resources with their permits, waiting jobs and breakers; or show, limit, hold, release one."
    positionals = " [list|show NAME|set NAME|reset NAME|hold NAME|release NAME]"
    nested = _NESTED
