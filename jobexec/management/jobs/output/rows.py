"""Jobs as rows of a table, and as JSON objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.models import (
    AbstractJob,
    BlockedJob,
    DeadLetterJob,
    ExternalWorkerJob,
    HistoryJob,
    Job,
    SuspendedJob,
    TimerJob,
)
from jobexec.operations.nodes.names import names_of
from jobexec.operations.values.humanize import NONE, distance, duration
from jobexec.operations.values.messages import shown_message
from jobexec.operations.why.facts import HEAVY
from jobexec.redaction import load_calls

from .screen import Screen
from .table import Cell, Column
from .text import MORE

#: The lease token proves that a worker was the last to fetch the job, so only that worker may know it.
SECRET = ("lease_token",)
#: The characters of an id that are the millisecond of its creation, with their hyphen.
LEAST = 13
#: If more of an id must be shown, its last characters, of which the last eight are random, say the same in less room.
_TAIL, _LONGEST_TAIL = 6, 12


def columns(jobs: Sequence[AbstractJob]) -> list[Column]:
    """The columns of a list of jobs (retries left, attempts made, ...); a narrow terminal shows the important ones."""
    return [
        id_column([str(job.pk) for job in jobs]),
        Column(_("state"), least=11),
        Column(_("call"), least=28),
        Column(_("due"), extra=2),
        Column(_("age"), right=True, extra=3),
        Column(_("left"), right=True, extra=4),
        Column(_("made"), right=True, extra=4),
        Column(_("category"), least=8, extra=5),
        Column(_("priority"), right=True, extra=7),
        Column(_("process instance"), least=10, keep_end=True, extra=6),
        Column(_("held by"), least=8, extra=8),
        Column(_("last exception"), least=18, extra=1),
    ]


def id_column(ids: Sequence[str], title: str = "", extra: int = 0) -> Column:
    """A column that is cut so far that it still tells these ids apart: those of a millisecond differ at their ends."""
    different = len(set(ids))
    begin = next(length for length in range(LEAST, 37) if len({id[:length] for id in ids}) == different)
    tail = next(size for size in range(_TAIL, 37) if len({(id[:LEAST], id[-size:]) for id in ids}) == different)
    if begin <= LEAST + tail or tail > _LONGEST_TAIL:
        tail = 0
    least = (LEAST + tail if tail else begin) + len(MORE)
    return Column(title or _("id"), least=least, tail=tail, first=True, extra=extra)


def cells(job: AbstractJob, call: str, holder: str, now: datetime, style: Any) -> list[Cell | str]:
    word, paint = standing(job, style)
    return [
        str(job.pk),
        Cell(word, paint),
        call,
        distance(job.due_date, now) if job.due_date else NONE,
        duration((now - job.create_time).total_seconds()),
        str(job.retries),
        str(job.attempts),
        job.category,
        str(job.priority),
        job.process_instance_id or NONE,
        holder,
        job.exception_message or NONE,
    ]


def _holders(jobs: Sequence[AbstractJob], using: str) -> dict[UUID, str]:
    """The nodes and workers that hold jobs."""
    held = {job.pk: job.lock_owner for job in jobs if job.lock_owner and job.locked}
    workers = {job.pk for job in jobs if isinstance(job, ExternalWorkerJob)}
    nodes = names_of(using, (owner for pk, owner in held.items() if pk not in workers))
    return {pk: owner if pk in workers else nodes[owner] for pk, owner in held.items()}


def show_rows(
    screen: Screen, jobs: Sequence[AbstractJob], now: datetime, indent: int = 0, *, of_one_state: bool = False
) -> None:
    """Write the jobs as a table; ``of_one_state``: without their states, if these are all the same."""
    calls, holders = load_calls(jobs, screen.using), _holders(jobs, screen.using)
    rows = [
        cells(job, calls.get(job.pk, job.handler_type), holders.get(job.pk, NONE), now, screen.style) for job in jobs
    ]
    heads = columns(jobs)
    if of_one_state and len({standing(job, screen.style)[0] for job in jobs}) == 1:
        heads, rows = [heads[0], *heads[2:]], [[row[0], *row[2:]] for row in rows]
    screen.table(heads, rows, indent)


def standing(job: AbstractJob, style: Any) -> tuple[str, Any]:
    """The most important fact about the state of a job, and its colour."""
    if isinstance(job, DeadLetterJob):
        return _("dead letter"), style.ERROR
    if isinstance(job, SuspendedJob):
        return _("suspended"), style.WARNING
    if isinstance(job, HistoryJob):
        return _("history"), str
    if isinstance(job, TimerJob):
        return (_("retry"), style.WARNING) if job.attempts else (_("timer"), str)
    if isinstance(job, BlockedJob):
        return (_("blocked") if job.waits_for is None else _("waits for message")), str
    if isinstance(job, ExternalWorkerJob):
        return _of_external(job, style)
    assert isinstance(job, Job)
    return _of_executable(job, style)


def _of_external(job: ExternalWorkerJob, style: Any) -> tuple[str, Any]:
    if job.cancel_requested:
        return _("cancelling"), style.WARNING
    if job.suspend_requested:
        return _("suspending"), style.WARNING
    if job.locked:
        return _("with worker"), style.SUCCESS
    if job.available_at is not None and job.available_at > clock.now(job._state.db or "default"):
        return (_("backing off"), style.WARNING) if job.exception_message else (_("waiting"), str)
    return (_("deadline missed"), style.WARNING) if job.lock_owner is not None else (_("external"), str)


def _of_executable(job: Job, style: Any) -> tuple[str, Any]:
    if job.locked and job.cancel_requested:
        return _("cancelling"), style.WARNING
    if job.suspend_requested:
        return _("suspending"), style.WARNING
    return (_("in progress"), style.SUCCESS) if job.locked else (_("executable"), str)


def as_object(job: AbstractJob) -> dict[str, Any]:
    """All columns of a job except the large ones and secrets, and its state."""
    return {"id": job.pk, "state": job.state.replace(" ", "_"), **dict(_columns(job))}


def _columns(job: AbstractJob) -> Iterator[tuple[str, Any]]:
    for field in job._meta.concrete_fields:
        if field.name not in (*HEAVY, *SECRET):
            value = getattr(job, field.attname)
            yield field.name, shown_message(value) if field.name == "message" and value else value
