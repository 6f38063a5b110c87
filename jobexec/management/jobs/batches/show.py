"""``jobs batches show``: everything about one batch."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.models import AbstractJob, Batch, BatchFailure
from jobexec.operations.batches.control import BatchProgress, batch_progress
from jobexec.operations.query.job_query import JobQuery
from jobexec.operations.why.facts import HEAVY
from jobexec.redaction import redact_batch

from ..arguments import named, values
from ..output.rows import as_object as job_as_object
from ..output.rows import show_rows
from ..output.screen import Exit, Screen, plain
from ..output.text import clean
from .rows import as_object, say_batches

LIMIT = 20


class ShowBatch:
    """Write the progress and arguments of a batch, whether it has stalled, what it left alone and why, and its jobs."""

    name = "show"
    help = "Show everything about a batch: its progress, what it skipped and why, its own jobs."
    positionals = " ID"

    def add_options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("id", type=named.row, help="the batch")
        most = f"at most N failures and jobs; default {LIMIT}"
        add("--limit", type=values.count, default=LIMIT, metavar="N", help=most)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        id = named.row_id(options["id"], Batch, screen.using)
        batch = Batch.objects.using(screen.using).defer("selection").filter(pk=id).first()
        if batch is not None:
            _show(batch, options["limit"], screen)
            return Exit.DONE
        if not screen.json:
            screen.say(_("There is no such batch."), screen.style.WARNING)
        return Exit.LEFT_ALONE


def _show(batch: Batch, limit: int, screen: Screen) -> None:
    using = screen.using
    failed = BatchFailure.objects.using(using).filter(batch_id=batch.pk).order_by("pk")
    failures = list(failed.values_list("job_id", "reason")[:limit])
    own = JobQuery(process_instance_id=batch.process_instance_id)
    jobs = (JobQuery(batch_id=batch.pk) if batch.of_jobs else own).find(using, limit=limit, defer=HEAVY)
    so_far = batch_progress(batch)
    if screen.json:
        told = {"failures": [{"job_id": id, "reason": reason} for id, reason in failures]}
        screen.tell({**as_object(batch, so_far), **told, "jobs": [job_as_object(job) for job in jobs]})
    else:
        _say(batch, so_far, failures, jobs, screen)


def _say(
    batch: Batch,
    so_far: BatchProgress,
    failures: Sequence[tuple[UUID, str]],
    jobs: Sequence[AbstractJob],
    screen: Screen,
) -> None:
    say_batches([(batch, so_far)], screen)
    if batch.arguments:
        text = json.dumps(redact_batch(batch), ensure_ascii=False, default=plain)
        screen.say(_("Arguments: %(arguments)s") % {"arguments": clean(text)})
    if so_far.stalled:
        screen.say(_stalled(), screen.style.ERROR)
    if failures:
        _head(screen, _("Skipped"))
        for id, reason in failures:
            screen.say(f"  {id}  {clean(_(reason))}")
    if jobs:
        _head(screen, _("its jobs") if batch.of_jobs else _("jobs that carry it out"))
        show_rows(screen, jobs, clock.now(screen.using), indent=2)


def _stalled() -> str:
    return _(
        "The batch has stalled: the job that continues it is missing or a dead letter. Activate the batch to restore "
        "that job, or cancel the batch."
    )


def _head(screen: Screen, title: str) -> None:
    screen.say()
    screen.say(title, screen.style.MIGRATE_HEADING)
