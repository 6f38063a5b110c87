"""Batches as rows of a table, and as JSON objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.models import Batch
from jobexec.operations.batches.control import BatchProgress, batch_progress
from jobexec.operations.values.humanize import distance
from jobexec.redaction import redact_batch

from ..output.screen import Screen
from ..output.table import Cell, Column
from ..output.text import clean
from ..stats.as_text import number


def tell_batches(batches: Sequence[Batch], screen: Screen) -> bool:
    """Write batches with their progress. Return True if there are any, or with ``--json``."""
    found = [(batch, batch_progress(batch)) for batch in batches]
    if screen.json:
        for batch, so_far in found:
            screen.tell(as_object(batch, so_far))
    elif found:
        say_batches(found, screen)
    return bool(found) or screen.json


def say_batches(found: Sequence[tuple[Batch, BatchProgress]], screen: Screen) -> None:
    """Write a table of batches."""
    screen.table(_columns(), [_cells(batch, so_far, screen) for batch, so_far in found])


def as_object(batch: Batch, so_far: BatchProgress) -> dict[str, Any]:
    names = ("id", "type", "name", "state", "tenant_id", "create_user", "create_time", "end_time", "deadline")
    told = {name: getattr(batch, name) for name in names}
    return {**told, "arguments": redact_batch(batch), **so_far._asdict()}


def _columns() -> list[Column]:
    return [
        Column(_("batch")),
        Column(_("operation"), least=8),
        Column(_("state")),
        Column(_("total"), right=True),
        Column(_("done"), right=True),
        Column(_("skipped"), right=True, extra=1),
        Column(_("failed"), right=True, extra=2),
        Column(_("started"), right=True, extra=3),
        Column(_("by"), least=6, extra=4),
    ]


def _cells(batch: Batch, so_far: BatchProgress, screen: Screen) -> list[Cell | str]:
    failed = Cell(number(so_far.failed_jobs), screen.style.ERROR if so_far.failed_jobs else str)
    numbers = [number(count) for count in (so_far.total, so_far.changed, so_far.skipped)]
    started = distance(batch.create_time, clock.now(screen.using))
    state = Cell(_("stalled"), screen.style.ERROR) if so_far.stalled else str(batch.get_state_display())
    named: list[Cell | str] = [str(batch.pk), clean(batch.title), state]
    return [*named, *numbers, failed, started, batch.create_user]
