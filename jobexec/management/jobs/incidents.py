"""``jobs incidents``: what needs a person."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.models import Incident, IncidentState
from jobexec.operations.wording import distance

from . import values
from .screen import Exit, Screen
from .table import Cell, Column

LIMIT = 50


class Incidents:
    """Incidents, the latest first."""

    name = "incidents"
    help = "List incidents, the latest first: jobs without attempts left, which wait for a person."
    positionals = ""

    def add_options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--state", choices=IncidentState.values, default=IncidentState.OPEN.value, help="default open")
        add("--limit", type=values.count, default=LIMIT, metavar="N", help=f"at most N; default {LIMIT}")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        # By state and time: that is what the index of the table is for.
        rows = Incident.objects.using(screen.using).filter(state=options["state"]).order_by("-timestamp")
        found = list(rows[: options["limit"]])
        if screen.json:
            for incident in found:
                screen.tell({field.name: getattr(incident, field.attname) for field in incident._meta.concrete_fields})
        elif found:
            screen.table(_columns(), [_cells(incident, screen) for incident in found])
        else:
            screen.say(_("No incidents."))
        return Exit.DONE


def _columns() -> list[Column]:
    return [
        Column(_("job")),
        Column(_("since"), right=True),
        Column(_("handler"), least=12, keep_end=True),
        Column(_("message"), least=14, extra=1),
        Column(_("note"), least=10, extra=2),
        Column(_("tenant"), least=6, extra=3),
        Column(_("incident"), extra=4),
    ]


def _cells(incident: Incident, screen: Screen) -> list[Cell | str]:
    since = distance(incident.timestamp, clock.now(screen.using))
    named = [str(incident.job_id), since, incident.handler_type]
    return [*named, incident.message, incident.annotation, incident.tenant_id, str(incident.pk)]
