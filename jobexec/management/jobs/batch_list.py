"""``jobs batches``: operations on many jobs, and how far they are."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.models import Batch
from jobexec.operations.batches import BatchProgress, batch_progress
from jobexec.operations.wording import distance

from . import values
from .screen import Exit, Screen
from .stats_text import number
from .table import Cell, Column

LIMIT = 20


class Batches:
    """Batches, the latest first."""

    name = "batches"
    help = "List batches, the latest first, with their progress."
    positionals = ""

    def add_options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--limit", type=values.count, default=LIMIT, metavar="N", help=f"at most N; default {LIMIT}")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        rows = Batch.objects.using(screen.using).defer("selection").order_by("-create_time")[: options["limit"]]
        found = [(batch, batch_progress(batch)) for batch in rows]
        if screen.json:
            for batch, so_far in found:
                screen.tell(_object(batch, so_far))
        elif found:
            screen.table(_columns(), [_cells(batch, so_far, screen) for batch, so_far in found])
        else:
            screen.say(_("No batches."))
        return Exit.DONE


def _object(batch: Batch, so_far: BatchProgress) -> dict[str, Any]:
    names = ("id", "type", "arguments", "state", "tenant_id", "create_user", "create_time", "end_time")
    return {**{name: getattr(batch, name) for name in names}, **so_far._asdict()}


def _columns() -> list[Column]:
    return [
        Column(_("batch")),
        Column(_("operation"), least=8),
        Column(_("state")),
        Column(_("total"), right=True),
        Column(_("done"), right=True),
        Column(_("left alone"), right=True, extra=1),
        Column(_("failed"), right=True, extra=2),
        Column(_("started"), right=True, extra=3),
        Column(_("by"), least=6, extra=4),
    ]


def _cells(batch: Batch, so_far: BatchProgress, screen: Screen) -> list[Cell | str]:
    failed = Cell(number(so_far.failed_jobs), screen.style.ERROR if so_far.failed_jobs else str)
    numbers = [number(count) for count in (so_far.total, so_far.changed, so_far.skipped)]
    started = distance(batch.create_time, clock.now(screen.using))
    named = [str(batch.pk), batch.type, str(batch.get_state_display())]
    return [*named, *numbers, failed, started, batch.create_user]
