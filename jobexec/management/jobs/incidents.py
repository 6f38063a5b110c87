"""``jobs incidents``: problems that need an operator."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec import clock
from jobexec.models import JOB_TABLES, Incident, IncidentState
from jobexec.operations.history.incidents import annotate_incident
from jobexec.operations.targets.for_each import OperationResult
from jobexec.operations.values.humanize import NONE, distance
from jobexec.redaction import calls_among

from .arguments import named
from .nested import Group
from .output.outcome import tell
from .output.rows import id_column
from .output.screen import Exit, Screen
from .output.table import Cell, Column

LIMIT = 50


class Annotate:
    """Write a note to an incident, replacing the existing one."""

    name = "annotate"
    help = "Write a note to an incident, replacing the existing one; '' removes it."
    positionals = " ID TEXT"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=named.row, help="the incident")
        parser.add_argument("text", metavar="TEXT", help="the note")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        id = named.row_id(options["id"], Incident, screen.using)
        try:
            annotate_incident(id, options["text"], using=screen.using)
        except Incident.DoesNotExist as error:
            return tell(self.name, _noted, OperationResult(skipped={id: str(error)}), screen, _left)
        return tell(self.name, _noted, OperationResult(changed=[id]), screen)


def _noted(count: int) -> str:
    return ngettext("%(count)d incident annotated.", "%(count)d incidents annotated.", count) % {"count": count}


def _left(count: int) -> str:
    text = ngettext("%(count)d incident was skipped:", "%(count)d incidents were skipped:", count)
    return text % {"count": count}


_NESTED = (Annotate(),)


class Incidents(Group):
    """List incidents, the latest first, or run a nested action."""

    name = "incidents"
    help = "List incidents, the latest first: jobs without attempts left that wait for an operator; or annotate them."
    positionals = " [annotate ID TEXT]"
    nested = _NESTED
    limit = LIMIT

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--state", choices=IncidentState.values, default=IncidentState.OPEN.value, help="default open"
        )
        super().add_options(parser)

    def _list(self, options: Mapping[str, Any], screen: Screen) -> int:
        # By state and time: the table has an index for this.
        rows = Incident.objects.using(screen.using).filter(state=options["state"]).order_by("-timestamp")
        found = list(rows[: options["limit"]])
        if screen.json:
            for incident in found:
                screen.tell({field.name: getattr(incident, field.attname) for field in incident._meta.concrete_fields})
        elif found:
            calls = _calls(found, screen.using)
            screen.table(_columns(found), [_cells(incident, calls, screen) for incident in found])
        else:
            screen.say(_("No incidents."))
        return Exit.DONE


def _calls(found: Sequence[Incident], using: str) -> dict[UUID, str]:
    """The calls of the jobs that have incidents, by their ids; a job that is gone has none."""
    ids = [incident.job_id for incident in found if incident.job_id is not None]
    return calls_among((table._base_manager.using(using).filter(pk__in=ids) for table in JOB_TABLES), using)


def _columns(found: Sequence[Incident]) -> list[Column]:
    return [
        id_column([str(incident.job_id or NONE) for incident in found], _("job")),
        Column(_("since"), right=True),
        Column(_("call"), least=24),
        Column(_("message"), least=14, extra=1),
        Column(_("note"), least=10, extra=2),
        Column(_("tenant"), least=6, extra=3),
        id_column([str(incident.pk) for incident in found], _("incident"), extra=4),
    ]


def _cells(incident: Incident, calls: Mapping[UUID, str], screen: Screen) -> list[Cell | str]:
    since = distance(incident.timestamp, clock.now(screen.using))
    call = calls.get(incident.job_id) if incident.job_id else incident.resource
    known = [str(incident.job_id or NONE), since, call or incident.handler_type]
    return [*known, incident.message, incident.annotation, incident.tenant_id, str(incident.pk)]
