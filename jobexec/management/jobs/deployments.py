"""``jobs deployments``: versions of the code and their registrations."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.db.models import Count, Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec import clock, operations
from jobexec.models import Deployment
from jobexec.operations.targets.for_each import OperationResult
from jobexec.operations.values.humanize import distance

from .arguments import values
from .nested import Group
from .output.outcome import tell
from .output.screen import Exit, Screen, usage
from .output.table import Cell, Column


class Retire:
    """Delete deployments or registrations that are no longer needed."""

    name = "retire"
    help = "Delete deployments that no job and no living node needs, or the registrations of nodes that are gone."
    positionals = " [ID ...]"

    def add_options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("ids", nargs="*", metavar="ID", help="the deployments, name:version")
        add("--superseded-for", type=values.length, metavar="LENGTH", help="all superseded for this long")
        add("--node", metavar="NAME", help="the registrations of this node, which is gone: of the IDs, or all")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        ids, age, node = options["ids"], options["superseded_for"], options["node"]
        if node is not None and age is None:
            count = operations.retire_registrations(node, ids or None, using=screen.using)
            return tell(self.name, _forgotten, OperationResult(changed=[node] * count), screen)
        if node is not None or bool(ids) == (age is not None):
            raise usage(_("Expected either deployments, or --superseded-for, or --node."))
        result = operations.retire_deployments(ids or None, superseded_for=age, using=screen.using)
        result.skipped = {id: _(reason) for id, reason in result.skipped.items()}
        return tell(self.name, _retired, result, screen, _left)


def _retired(count: int) -> str:
    return ngettext("%(count)d deployment retired.", "%(count)d deployments retired.", count) % {"count": count}


def _forgotten(count: int) -> str:
    return ngettext("%(count)d registration retired.", "%(count)d registrations retired.", count) % {"count": count}


def _left(count: int) -> str:
    text = ngettext("%(count)d deployment was skipped:", "%(count)d deployments were skipped:", count)
    return text % {"count": count}


_NESTED = (Retire(),)


class Deployments(Group):
    """List deployments, the newest first, or run a nested action."""

    name = "deployments"
    help = "List versions of the code, the newest first; or retire those that are no longer needed."
    positionals = " [retire [ID ...]]"
    nested = _NESTED

    def _list(self, options: Mapping[str, Any], screen: Screen) -> int:
        rows = Deployment.objects.using(screen.using).order_by("-deploy_time", "pk")
        found = list(rows.annotate(nodes=Count("registrations", filter=Q(registrations__registered=True))))
        if screen.json:
            for each in found:
                row = {field.name: getattr(each, field.attname) for field in each._meta.concrete_fields}
                screen.tell({**row, "nodes": each.nodes})
        elif found:
            screen.table(_columns(), [_cells(each, screen) for each in found])
        else:
            screen.say(_("No deployments."))
        return Exit.DONE


def _columns() -> list[Column]:
    return [
        Column(_("deployment"), least=12, keep_end=True),
        Column(_("since"), right=True),
        Column(_("handlers"), right=True, extra=2),
        Column(_("nodes"), right=True, extra=1),
    ]


def _cells(row: Any, screen: Screen) -> list[Cell | str]:
    return [row.id, distance(row.deploy_time, clock.now(screen.using)), str(len(row.handlers)), str(row.nodes)]
